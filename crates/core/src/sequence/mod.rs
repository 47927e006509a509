//! `PodSequence`: groups of pods that open one after the other.
//!
//! ```text
//! evaluate: facts + now → which groups are open, complete, timed out, and when to look again
//! decide:   evaluation  → releases, note, status, events
//! check:    audits a decision without trusting evaluate
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
    cluster::{Claim, Cluster},
    node::Node,
};
use index::Sequences;

/// What decisions about sequences rest on.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    pub cluster: &'a Cluster,
    pub sequences: &'a Sequences,
}

impl<'a> Facts<'a> {
    /// The claims that count on a pod: of each sequence its first group.
    pub fn claims_on(self, pod: Uid) -> impl Iterator<Item = Claim> + use<'a> {
        self.cluster.pod_entry(pod).into_iter().flat_map(|entry| index::winners(&entry.claims))
    }

    /// The nodes that carry anything of a sequence.
    pub fn marked_for(self, sequence: Uid) -> impl Iterator<Item = &'a Node> {
        self.sequences.marked_nodes(sequence).filter_map(move |name| self.cluster.node(name))
    }

    /// Whether a value that keeps a node closed was left there by a sequence that is gone.
    pub fn is_left_by_gone(self, value: &str) -> bool {
        self.sequences.is_left_by_gone(&self.cluster.freshness, Uid::new(value))
    }

    /// Whether it is proved that a sequence does not exist any more.
    pub fn is_gone(self, sequence: Uid) -> bool {
        self.sequences.is_gone(&self.cluster.freshness, sequence)
    }
}
