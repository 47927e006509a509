//! The specs of an `Order` and a `Ticket`. The comments on the fields are what `kubectl explain order.spec…` prints.

use super::limits;
use super::placement::{Affinity, Spread, Toleration};
use super::resources::Resources;
use super::rules;
use super::status::{OrderStatus, TicketStatus};
use super::words::{CleanupPolicy, RefreshPolicy, StrategyType};
use crate::crd::map_of;
use crate::duration::GoDuration;
use crate::selector::{self, LabelSelector};
use crate::time::MilliTime;
use crate::{forms, shared_rules};
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How many tickets there are to be, when, and what is in each of them.
#[allow(clippy::duplicated_attributes)] // Each printcolumn has a type_ of its own.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "core.korder.dev",
    version = "v1alpha1",
    kind = "Order",
    plural = "orders",
    singular = "order",
    namespaced,
    status = "OrderStatus",
    derive = "PartialEq",
    doc = "Order keeps room on nodes for pods that come later: it makes tickets, a number of them or one for each node, and replaces those that are taken.",
    printcolumn(
        name = "Mode",
        type_ = "string",
        json_path = ".status.mode",
        description = "Replica: a number of tickets. DaemonSet: one for each node"
    ),
    printcolumn(
        name = "Desired",
        type_ = "integer",
        json_path = ".status.desiredReplicas",
        description = "How many tickets are to be there for somebody to take"
    ),
    printcolumn(
        name = "Ready",
        type_ = "integer",
        json_path = ".status.availableReplicas",
        description = "How many of them keep their room"
    ),
    printcolumn(
        name = "Claimed",
        type_ = "integer",
        json_path = ".status.claimedReplicas",
        description = "How many others a pod has taken"
    ),
    printcolumn(
        name = "Next",
        type_ = "string",
        json_path = ".status.nextScheduleTime",
        description = "When it reserves next, by its schedule"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::order()))]
pub struct OrderSpec {
    /// While true, no ticket is made, replaced or renewed. Those that are there stay, can be taken, and expire.
    #[serde(default)]
    pub paused: bool,

    /// How many tickets are kept for pods to take; claimed ones come on top. Ignored with daemonSet. 0 to 1000.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = limits::REPLICAS))]
    pub replicas: u32,

    /// Whether each eligible node gets one ticket, instead of a number of tickets anywhere. Eligible are nodes that are Ready and
    /// schedulable, that the nodeSelector and the required node affinity of the template match, and whose NoSchedule and NoExecute
    /// taints its tolerations tolerate. Tickets come and go with the nodes.
    #[serde(default)]
    pub daemon_set: bool,

    /// When room is reserved, and when a ticket is replaced.
    #[serde(default)]
    pub strategy: Strategy,

    /// With daemonSet: pods with these labels, in the namespace of the order, take tickets without asking for them by an
    /// annotation. An empty selector is refused, because it would take every pod of the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = shared_rules::selector()))]
    pub selector: Option<LabelSelector>,

    /// How long a ticket must keep its room before it counts as available. 0 to 86400.
    #[serde(default)]
    #[schemars(range(min = 0, max = limits::MIN_READY_SECONDS))]
    pub min_ready_seconds: u32,

    /// What the tickets are made of. After a change, tickets that nobody has taken are replaced one at a time.
    pub template: TicketTemplate,
}

fn one() -> u32 {
    1
}

/// When room is reserved.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::strategy()))]
pub struct Strategy {
    /// OneTime: at once, and once for each node or replica. Scheduled: at the next time of the schedule. Recurring: at each time of the
    /// schedule. It cannot be changed.
    #[serde(default, rename = "type")]
    #[schemars(extend("x-kubernetes-validations" = rules::strategy_type()))]
    pub type_: StrategyType,

    /// When, for Scheduled and Recurring, in the syntax of cron: minute, hour, day of the month, month and day of the week, each with
    /// lists, ranges, steps and names, such as 0 */6 * * * or 30 8 * * mon-fri; or @hourly, @daily, @weekly, @monthly, @yearly.
    /// Sunday is 0 or 7.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::SCHEDULE), extend("x-kubernetes-validations" = rules::schedule()))]
    pub schedule: Option<String>,

    /// The time zone of the schedule, such as Europe/Berlin.
    #[serde(default = "utc")]
    #[schemars(length(max = limits::TIME_ZONE), regex(pattern = forms::TIME_ZONE_PATTERN))]
    pub time_zone: String,

    /// When a ticket is replaced. OnClaim: when a pod has taken it. Always: also at each time of the schedule and when it
    /// expires; its room is kept meanwhile. Never: not at all, so that room once given away is not reserved again.
    #[serde(default)]
    pub refresh_policy: RefreshPolicy,
}

impl Default for Strategy {
    fn default() -> Self {
        Self {
            type_: StrategyType::default(),
            schedule: None,
            time_zone: utc(),
            refresh_policy: RefreshPolicy::default(),
        }
    }
}

fn utc() -> String {
    "UTC".to_owned()
}

/// What tickets are made of.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct TicketTemplate {
    /// Labels and annotations of the tickets.
    #[serde(default, skip_serializing_if = "TemplateMetadata::is_empty")]
    pub metadata: TemplateMetadata,

    /// The spec of the tickets.
    pub spec: TicketSpec,
}

/// Labels and annotations of tickets.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct TemplateMetadata {
    /// Labels, by which pods can ask for a ticket.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "selector::labels")]
    pub labels: BTreeMap<String, String>,

    /// Annotations; at most 16, of 1024 characters each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "annotations")]
    pub annotations: BTreeMap<String, String>,
}

impl TemplateMetadata {
    fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.annotations.is_empty()
    }
}

fn annotations(_: &mut SchemaGenerator) -> Schema {
    let value = json_schema!({ "type": "string", "maxLength": limits::ANNOTATION });
    map_of(limits::ANNOTATIONS, value, shared_rules::label_keys())
}

/// Room for one pod.
#[allow(clippy::duplicated_attributes)] // Each printcolumn has a type_ of its own.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "core.korder.dev",
    version = "v1alpha1",
    kind = "Ticket",
    plural = "tickets",
    singular = "ticket",
    namespaced,
    status = "TicketStatus",
    derive = "PartialEq",
    doc = "Ticket keeps room for one pod on one node, by a small pod, its guardian, that gives way when the pod comes. Orders make tickets; one made by hand is served like any other.",
    printcolumn(
        name = "Phase",
        type_ = "string",
        json_path = ".status.phase",
        description = "Pending, Reserved, Claimed or Expired"
    ),
    printcolumn(
        name = "Node",
        type_ = "string",
        json_path = ".status.nodeName",
        description = "Where its room is"
    ),
    printcolumn(
        name = "Claimed-By",
        type_ = "string",
        json_path = ".status.podName",
        description = "The pod that has taken it"
    ),
    printcolumn(
        name = "Expires",
        type_ = "string",
        json_path = ".status.expires",
        description = "When its room is given up, or never"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = 1)
)]
#[serde(rename_all = "camelCase")]
pub struct TicketSpec {
    /// What becomes of the ticket when it has ended.
    #[serde(default)]
    pub lifecycle: Lifecycle,

    /// When the room is to be reserved. At once if it is left out or in the past.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::TIME))]
    pub start_time: Option<MilliTime>,

    /// How long the room is kept for somebody to take it, as a duration such as 90s, 5m or 24h. If it is left out, 24h; without end for a
    /// ticket of an order with refreshPolicy Never. A pod that has taken it runs as long as it likes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = rules::duration()))]
    pub duration: Option<GoDuration>,

    /// The scheduler that finds the room. The default one if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = forms::SUBDOMAIN), regex(pattern = forms::SUBDOMAIN_PATTERN))]
    pub scheduler_name: Option<String>,

    /// The priority class of the pods for which the room is kept: pods of this priority and below cannot take it from the ticket. The
    /// default class of the cluster if it is left out. A pod of lower priority cannot take the ticket.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = forms::SUBDOMAIN), regex(pattern = forms::SUBDOMAIN_PATTERN))]
    pub priority_class_name: Option<String>,

    /// How much room.
    pub resources: Resources,

    /// The one node on which the room is to be. Not in an order with daemonSet.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = forms::SUBDOMAIN), regex(pattern = forms::SUBDOMAIN_PATTERN))]
    pub node_name: Option<String>,

    /// The labels that the node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "selector::labels")]
    pub node_selector: BTreeMap<String, String>,

    /// Near which nodes and pods, or far from which, as for a pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,

    /// Taints of the node that do not matter, as for a pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::TOLERATIONS), extend("x-kubernetes-list-type" = "atomic"))]
    pub tolerations: Vec<Toleration>,

    /// How evenly the room is spread over nodes or zones, as for a pod. A constraint without labelSelector counts the guardians of the same
    /// order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = limits::SPREADS),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["topologyKey", "whenUnsatisfiable"])
    )]
    pub topology_spread_constraints: Vec<Spread>,
}

/// What becomes of a ticket that has ended.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Lifecycle {
    /// How long it stays after its end. 0 to 31536000, a year.
    #[serde(default = "an_hour")]
    #[schemars(range(min = 0, max = limits::SECONDS))]
    pub ttl_seconds_after_finished: u32,

    /// Delete: it is deleted after that time. Retain: it stays until somebody deletes it, or its order.
    #[serde(default)]
    pub cleanup_policy: CleanupPolicy,
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self { ttl_seconds_after_finished: an_hour(), cleanup_policy: CleanupPolicy::default() }
    }
}

fn an_hour() -> u32 {
    3_600
}
