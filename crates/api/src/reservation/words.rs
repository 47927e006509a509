//! The fields that take one of a few words.

use crate::words::words;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

words! {
    /// When an order reserves.
    #[derive(Default)]
    StrategyType { #[default] OneTime, Scheduled, Recurring }
}

words! {
    /// When a ticket is replaced.
    #[derive(Default)]
    RefreshPolicy { Always, #[default] OnClaim, Never }
}

words! {
    /// What becomes of a ticket that has ended.
    #[derive(Default)]
    CleanupPolicy { #[default] Delete, Retain }
}

words! {
    /// What an order counts by.
    Mode {
        /// A number of tickets.
        Replica,
        /// A ticket for each node.
        DaemonSet,
    }
}

words! {
    /// How far a ticket has come.
    #[derive(Default)]
    Phase {
        /// Its room is not kept yet.
        #[default]
        Pending,
        /// Its guardian runs.
        Reserved,
        /// A pod has taken its room.
        Claimed,
        /// It has ended: its time is over, or its pod is gone.
        Expired,
    }
}

words! {
    /// How a label of a node is compared.
    NodeOperator { In, NotIn, Exists, DoesNotExist, Gt, Lt }
}

words! {
    /// How a field of a node is compared.
    FieldOperator { In, NotIn }
}

/// The fields by which a node can be asked for.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeField {
    #[serde(rename = "metadata.name")]
    Name,
}

words! {
    /// How a toleration compares the value of a taint.
    TolerationOperator { Exists, Equal }
}

words! {
    /// What a taint does.
    TaintEffect { NoSchedule, PreferNoSchedule, NoExecute }
}

words! {
    /// What happens to a pod that would make a spread uneven.
    WhenUnsatisfiable { DoNotSchedule, ScheduleAnyway }
}

words! {
    /// Whether a spread looks at something.
    NodePolicy { Honor, Ignore }
}
