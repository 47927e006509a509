//! The specs of an `Order` and a `Ticket`. `kubectl explain order.spec…` prints the comments on the fields.

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

/// Desired state of an Order: the number of tickets, when they reserve capacity, and their template.
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
    doc = "Order reserves capacity on nodes for future pods. It creates a number of tickets, or one ticket for each eligible node, and replaces tickets that pods claim.",
    printcolumn(
        name = "Mode",
        type_ = "string",
        json_path = ".status.mode",
        description = "Replica: a number of tickets. DaemonSet: one ticket for each eligible node"
    ),
    printcolumn(
        name = "Desired",
        type_ = "integer",
        json_path = ".status.desiredReplicas",
        description = "Desired number of unclaimed tickets"
    ),
    printcolumn(
        name = "Ready",
        type_ = "integer",
        json_path = ".status.availableReplicas",
        description = "Number of available tickets: Reserved for at least minReadySeconds"
    ),
    printcolumn(
        name = "Claimed",
        type_ = "integer",
        json_path = ".status.claimedReplicas",
        description = "Number of claimed tickets"
    ),
    printcolumn(
        name = "Next",
        type_ = "string",
        json_path = ".status.nextScheduleTime",
        description = "Next scheduled reservation"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::order()))]
pub struct OrderSpec {
    /// While true, the controller does not create, replace or remove tickets of the Order. Existing tickets can still be claimed.
    #[serde(default)]
    pub paused: bool,

    /// Desired number of unclaimed tickets, from 0 to 1000. Claimed tickets do not count. Ignored with daemonSet.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = limits::REPLICAS))]
    pub replicas: u32,

    /// Whether the Order has one ticket for each eligible node, instead of a fixed number of tickets on any nodes. An eligible
    /// node is Ready and schedulable, and matches the nodeSelector and the required node affinity of the template. The template
    /// must tolerate all NoSchedule and NoExecute taints of the node. The controller creates and deletes tickets as nodes become
    /// eligible or ineligible.
    #[serde(default)]
    pub daemon_set: bool,

    /// When capacity is reserved, and when tickets are replaced.
    #[serde(default)]
    pub strategy: Strategy,

    /// Selector of pods that claim tickets without an annotation. Used only with daemonSet; selects pods in the namespace of the
    /// Order. An empty selector is rejected, because it would select every pod of the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = shared_rules::selector()))]
    pub selector: Option<LabelSelector>,

    /// Minimum number of seconds that a ticket must be Reserved before it counts as available. From 0 to 86400.
    #[serde(default)]
    #[schemars(range(min = 0, max = limits::MIN_READY_SECONDS))]
    pub min_ready_seconds: u32,

    /// Template of the tickets. After a change, unclaimed tickets are replaced one at a time.
    pub template: TicketTemplate,
}

fn one() -> u32 {
    1
}

/// When an Order reserves capacity, and when it replaces tickets.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::strategy()))]
pub struct Strategy {
    /// OneTime: capacity is reserved immediately. Scheduled: at the next scheduled time, once. Recurring: at every scheduled
    /// time. Immutable.
    #[serde(default, rename = "type")]
    #[schemars(extend("x-kubernetes-validations" = rules::strategy_type()))]
    pub type_: StrategyType,

    /// Schedule in cron syntax, such as 0 */6 * * * or 30 8 * * mon-fri. Required for Scheduled and Recurring. The fields are
    /// minute, hour, day of the month, month and day of the week (Sunday is 0 or 7). They accept lists, ranges, steps and names.
    /// The descriptors @hourly, @daily, @weekly, @monthly and @yearly are also accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::SCHEDULE), extend("x-kubernetes-validations" = rules::schedule()))]
    pub schedule: Option<String>,

    /// Time zone of the schedule, such as Europe/Berlin.
    #[serde(default = "utc")]
    #[schemars(length(max = limits::TIME_ZONE), regex(pattern = forms::TIME_ZONE_PATTERN))]
    pub time_zone: String,

    /// When a ticket is replaced or renewed. OnClaim: it is replaced after a pod has claimed it. Always: like OnClaim, and an
    /// unclaimed ticket is renewed instead of expiring. Never: a claimed ticket is not replaced.
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

/// Template of the tickets of an Order.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct TicketTemplate {
    /// Labels and annotations of the tickets.
    #[serde(default, skip_serializing_if = "TemplateMetadata::is_empty")]
    pub metadata: TemplateMetadata,

    /// Spec of the tickets.
    pub spec: TicketSpec,
}

/// Labels and annotations of tickets.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct TemplateMetadata {
    /// Labels of the tickets. Pods can request a ticket by its labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "selector::labels")]
    pub labels: BTreeMap<String, String>,

    /// Annotations of the tickets: at most 16, of at most 1024 characters each.
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

/// Desired state of a Ticket: capacity for one pod.
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
    doc = "Ticket reserves capacity for one pod on one node. Its guardian, a pause pod, occupies the capacity until a pod claims the ticket. Orders create tickets; tickets that users create work in the same way.",
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
        description = "Node where the capacity is reserved"
    ),
    printcolumn(
        name = "Claimed-By",
        type_ = "string",
        json_path = ".status.podName",
        description = "Pod that has claimed the ticket"
    ),
    printcolumn(
        name = "Expires",
        type_ = "string",
        json_path = ".status.expires",
        description = "Time when the reservation ends if no pod claims it, or never"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = 1)
)]
#[serde(rename_all = "camelCase")]
pub struct TicketSpec {
    /// Retention of the ticket after it has expired.
    #[serde(default)]
    pub lifecycle: Lifecycle,

    /// Time when the capacity is reserved. If omitted or in the past, it is reserved immediately.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::TIME))]
    pub start_time: Option<MilliTime>,

    /// How long the capacity is reserved if no pod claims it, as a duration such as 90s, 5m or 24h. Defaults to 24h. If omitted
    /// for a ticket of an Order with refreshPolicy Never, the reservation does not expire. The duration does not limit how long a
    /// claiming pod runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = rules::duration()))]
    pub duration: Option<GoDuration>,

    /// Scheduler of the guardian. Defaults to the default scheduler.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = forms::SUBDOMAIN), regex(pattern = forms::SUBDOMAIN_PATTERN))]
    pub scheduler_name: Option<String>,

    /// PriorityClass of the pods that may claim the ticket. Defaults to the default PriorityClass of the cluster. The
    /// guardian has this priority, so pods of this priority or lower cannot preempt it. A pod of lower priority cannot claim the
    /// ticket.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = forms::SUBDOMAIN), regex(pattern = forms::SUBDOMAIN_PATTERN))]
    pub priority_class_name: Option<String>,

    /// Reserved capacity.
    pub resources: Resources,

    /// Name of the node where the capacity is reserved. If omitted, the scheduler selects the node. Must not be set in the
    /// template of an Order with daemonSet.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = forms::SUBDOMAIN), regex(pattern = forms::SUBDOMAIN_PATTERN))]
    pub node_name: Option<String>,

    /// Labels that the node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "selector::labels")]
    pub node_selector: BTreeMap<String, String>,

    /// Node and pod affinity of the guardian, as for a pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,

    /// Tolerations of the guardian, as for a pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::TOLERATIONS), extend("x-kubernetes-list-type" = "atomic"))]
    pub tolerations: Vec<Toleration>,

    /// Topology spread constraints of the guardian, as for a pod. A constraint without labelSelector counts the guardians of the
    /// same Order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = limits::SPREADS),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["topologyKey", "whenUnsatisfiable"])
    )]
    pub topology_spread_constraints: Vec<Spread>,
}

/// Retention of a ticket after it has expired.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Lifecycle {
    /// Number of seconds that an expired ticket is kept, from 0 to 31536000 (a year).
    #[serde(default = "an_hour")]
    #[schemars(range(min = 0, max = limits::SECONDS))]
    pub ttl_seconds_after_finished: u32,

    /// Delete: the controller deletes an expired ticket after ttlSecondsAfterFinished. Retain: the ticket is kept until a user
    /// deletes it or its Order.
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
