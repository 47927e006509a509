//! Enums of the specs and statuses of Orders and Tickets.

use crate::words::words;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

words! {
    /// When an Order reserves capacity.
    #[derive(Default)]
    StrategyType { #[default] OneTime, Scheduled, Recurring }
}

words! {
    /// When a ticket is replaced or renewed.
    #[derive(Default)]
    RefreshPolicy { Always, #[default] OnClaim, Never }
}

words! {
    /// Retention of an expired ticket.
    #[derive(Default)]
    CleanupPolicy { #[default] Delete, Retain }
}

words! {
    /// Mode of an Order.
    Mode {
        /// A number of tickets.
        Replica,
        /// One ticket for each eligible node.
        DaemonSet,
    }
}

words! {
    /// Phase of a ticket.
    #[derive(Default)]
    Phase {
        /// The capacity is not reserved yet.
        #[default]
        Pending,
        /// The guardian runs.
        Reserved,
        /// A pod has claimed the ticket.
        Claimed,
        /// The reservation has ended, or the claiming pod has terminated.
        Expired,
    }
}

words! {
    /// Operator of a requirement on a node label.
    NodeOperator { In, NotIn, Exists, DoesNotExist, Gt, Lt }
}

words! {
    /// Operator of a requirement on a node field.
    FieldOperator { In, NotIn }
}

/// Node fields that a requirement can refer to.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeField {
    #[serde(rename = "metadata.name")]
    Name,
}

words! {
    /// Operator of a toleration.
    TolerationOperator { Exists, Equal }
}

words! {
    /// Effect of a taint.
    TaintEffect { NoSchedule, PreferNoSchedule, NoExecute }
}

words! {
    /// Handling of a pod that would violate a topology spread constraint.
    WhenUnsatisfiable { DoNotSchedule, ScheduleAnyway }
}

words! {
    /// Whether a topology spread constraint honours or ignores affinity or taints of nodes.
    NodePolicy { Honor, Ignore }
}
