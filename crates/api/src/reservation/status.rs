//! The statuses of an `Order` and a `Ticket`. Written by the controller; for people, but for the times of a ticket, which it
//! reads back.

use super::words::{Mode, Phase};
use crate::time::MilliTime;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many tickets there are, and how they stand.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct OrderStatus {
    /// The generation of the spec that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// What the order counts by. Replica: a number of tickets. DaemonSet: one for each node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Mode")] // The description of an optional enum would be that of its type.
    pub mode: Option<Mode>,

    /// How many tickets are to be there for somebody to take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired_replicas: Option<u32>,

    /// How many tickets are there that nobody has taken and that have not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,

    /// How many of them have kept their room for minReadySeconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_replicas: Option<u32>,

    /// How many of those that are to be there are not available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unavailable_replicas: Option<u32>,

    /// How many of them are made of the present template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_replicas: Option<u32>,

    /// How many tickets a pod has taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claimed_replicas: Option<u32>,

    /// How many tickets have ended and are still there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminal_replicas: Option<u32>,

    /// With daemonSet: how many nodes are to have a ticket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired_number_scheduled: Option<u32>,

    /// With daemonSet: how many of them have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_number_scheduled: Option<u32>,

    /// With daemonSet: on how many of them the room is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number_ready: Option<u32>,

    /// With daemonSet: how many nodes have a ticket and are not eligible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number_misscheduled: Option<u32>,

    /// The last time of the schedule for which the Order reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "MilliTime")] // A time of Kubernetes brings a description of its own.
    pub last_schedule_time: Option<Time>,

    /// The next time of the schedule at which the Order reserves. Absent once a Scheduled Order has reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "MilliTime")]
    pub next_schedule_time: Option<Time>,

    /// How often the name of a ticket was taken by something else, so that another one was chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<u32>,

    /// What is going on, and what to do next, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,

    /// Ready, Reconciling and Stalled as kstatus understands them; Progressing: tickets are being made or replaced; Failure: a
    /// ticket could not be made or has no room.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Where the room is, and who has taken it.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct TicketStatus {
    /// Pending: its room is not kept yet. Reserved: it is. Claimed: a pod has taken it. Expired: it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Phase")] // The description of an optional enum would be that of its type.
    pub phase: Option<Phase>,

    /// The generation of the spec that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// When the ticket first became Reserved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activation_time: Option<MilliTime>,

    /// When the reservation ends, if no pod claims it. Counted from the time of the schedule, else from activationTime. Absent
    /// without an end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expiration_time: Option<MilliTime>,

    /// The same for people: a time in UTC without milliseconds, or "never". Absent when it no longer counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,

    /// When a pod took it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claimed_time: Option<MilliTime>,

    /// The node on which the room is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,

    /// The pod that has taken it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_name: Option<String>,

    /// The namespace of that pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_namespace: Option<String>,

    /// The uid of that pod.
    #[serde(rename = "podUID", skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<String>,

    /// The pod that keeps the room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guardian_pod: Option<String>,

    /// What the pod that has taken it requests, in percent of what the ticket has; of the resource of which it is most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utilization_rate: Option<u32>,

    /// Why it is so, as one word that the documentation explains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,

    /// What is going on, and what to do next, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,

    /// Ready: the room is kept, or a pod has taken it. GuardianReady: the guardian runs. Expiring: the room is soon given up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
