//! `PodSequence`: groups of pods that start one after the other.
//!
//! ```text
//! evaluate: facts + now → which groups are open, complete or timed out, and when to evaluate again
//! decide:   evaluation  → releases, note, status, events
//! check:    audits a decision, independently of evaluate
//! explain:  evaluation  → why something waits, as a tree
//! ```

pub mod blocked;
pub mod check;
pub mod decide;
pub mod evaluate;
pub mod events;
pub mod explain;
pub mod index;
pub mod keys;
pub mod marks;
pub mod membership;
pub mod nodes;
pub mod reason;
pub mod spec;
pub mod status;
pub mod views;

pub use check::check;
pub use decide::{Settings, decide};
pub use evaluate::{Evaluation, GroupView, NodeView, evaluate};
pub use reason::Reason;
pub use spec::{Group, Sequence, Spec};
pub use status::{GroupState, Phase, Status};

use crate::{
    Uid,
    cluster::{Cluster, Membership},
    node::Node,
};
use index::Sequences;

/// The input of decisions about sequences.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    pub cluster: &'a Cluster,
    pub sequences: &'a Sequences,
}

impl<'a> Facts<'a> {
    /// The effective memberships of a pod: for each sequence, the first group that selects the pod.
    pub fn memberships_of(self, pod: Uid) -> impl Iterator<Item = Membership> + use<'a> {
        self.cluster.pod_entry(pod).into_iter().flat_map(|entry| index::winners(&entry.memberships))
    }

    /// The nodes that carry labels, taints or annotations of a sequence.
    pub fn marked_for(self, sequence: Uid) -> impl Iterator<Item = &'a Node> {
        self.sequences.marked_nodes(sequence).filter_map(move |name| self.cluster.node(name))
    }

    /// Whether the value of a blocked key is a leftover of a deleted sequence.
    pub fn is_left_by_gone(self, value: &str) -> bool {
        self.sequences.is_left_by_gone(&self.cluster.freshness, Uid::new(value))
    }

    /// Whether it is proven that a sequence no longer exists.
    pub fn is_gone(self, sequence: Uid) -> bool {
        self.sequences.is_gone(&self.cluster.freshness, sequence)
    }
}
