//! The statuses of an `Order` and a `Ticket`, written by the controller. The controller reads back what it must remember across
//! restarts: the whole status of a ticket, and `lastScheduleTime` of an Order.

use super::words::{Mode, Phase};
use crate::time::MilliTime;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Observed state of an Order.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct OrderStatus {
    /// Generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Mode of the Order. Replica: a number of tickets. DaemonSet: one ticket for each eligible node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Mode")] // The description of an optional enum would be that of its type.
    pub mode: Option<Mode>,

    /// Desired number of unclaimed tickets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired_replicas: Option<u32>,

    /// Number of tickets that have not expired, including claimed ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,

    /// Number of available tickets: unclaimed, and Reserved for at least minReadySeconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_replicas: Option<u32>,

    /// Number of unclaimed tickets that are not available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unavailable_replicas: Option<u32>,

    /// Number of unclaimed tickets that match the current template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_replicas: Option<u32>,

    /// Number of claimed tickets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claimed_replicas: Option<u32>,

    /// Number of tickets that have expired and have not been deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminal_replicas: Option<u32>,

    /// Number of nodes that should have a ticket. Set only with daemonSet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired_number_scheduled: Option<u32>,

    /// Number of nodes that should have a ticket and have an unclaimed one. Set only with daemonSet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_number_scheduled: Option<u32>,

    /// Number of nodes that should have a ticket and have a Reserved one. Set only with daemonSet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number_ready: Option<u32>,

    /// Number of nodes that have an unclaimed ticket but should not have one. Set only with daemonSet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number_misscheduled: Option<u32>,

    /// Last scheduled time when the Order reserved capacity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "MilliTime")]
    // The `Time` type of Kubernetes would replace this description by its own.
    pub last_schedule_time: Option<Time>,

    /// Next scheduled time when the Order reserves capacity. Absent once an Order of type Scheduled has done so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "MilliTime")]
    pub next_schedule_time: Option<Time>,

    /// Reserved for the number of name collisions. The controller does not set it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<u32>,

    /// Human-readable description of the current state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,

    /// Conditions. Ready, Reconciling and Stalled follow kstatus. Progressing: tickets are being created or replaced. Failure: a
    /// ticket could not be created, or no eligible node has enough free capacity for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Observed state of a Ticket.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct TicketStatus {
    /// Phase of the ticket. Pending: the capacity is not reserved yet. Reserved: the guardian occupies the capacity. Claimed: a
    /// pod has claimed the ticket. Expired: the reservation has ended, or the claiming pod has terminated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Phase")] // The description of an optional enum would be that of its type.
    pub phase: Option<Phase>,

    /// Generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Time when the ticket first became Reserved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activation_time: Option<MilliTime>,

    /// Time when the reservation ends if no pod claims it: the duration counted from the scheduled time, or from
    /// activationTime if there is no schedule. Absent if the reservation does not expire.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expiration_time: Option<MilliTime>,

    /// Human-readable form of expirationTime: a UTC time without milliseconds, or "never". Absent once the ticket is Claimed or
    /// Expired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,

    /// Time when a pod claimed the ticket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claimed_time: Option<MilliTime>,

    /// Node where the capacity is reserved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,

    /// Name of the pod that has claimed the ticket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_name: Option<String>,

    /// Namespace of the pod that has claimed the ticket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_namespace: Option<String>,

    /// UID of the pod that has claimed the ticket.
    #[serde(rename = "podUID", skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<String>,

    /// Name of the guardian: the pod that occupies the capacity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guardian_pod: Option<String>,

    /// Requests of the claiming pod in percent of the reserved capacity: the highest percentage of any resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utilization_rate: Option<u32>,

    /// Machine-readable reason of the current state, in CamelCase. The reference documentation explains each reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,

    /// Human-readable description of the current state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,

    /// Conditions. Ready: the capacity is reserved, or the claiming pod runs in it. GuardianReady: the guardian runs. Expiring:
    /// the reservation ends soon.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
