//! `PodSequence`: groups of pods that start one after the other.
//!
//! ```text
//!  spec.rs, min_ready.rs                what a person writes, as types with their descriptions
//!  words.rs                             the fields that take one of a few words
//!  limits.rs                            how much of it: every bound with its reason
//!  rules.rs                             what the schema cannot say: the CEL rules and their words
//!  status.rs                            what the controller answers
//!  facts.rs, report.rs                  objects → core facts, and the core's status → object
//!  note.rs                              what a sequence leaves for the case of its deletion, as a ConfigMap
//!  validate.rs                          reads a spec of which nothing is known
//! ```

mod facts;
pub mod limits;
mod min_ready;
pub mod note;
mod report;
pub(crate) mod rules;
mod spec;
mod status;
mod validate;
mod words;

pub use facts::{KnownSpec, SequenceObject, spec_facts};
pub use min_ready::MinReady;
pub use report::report;
pub use spec::{GroupMembers, NodeReady, PodGroup, PodSequence, PodSequenceSpec, WorkloadRef};
pub use status::{BlockedBy, GroupStatus, NodeCounts, NodeSequenceStatus, PodSequenceStatus, Summary};
pub use validate::parse_spec;
pub use words::{
    DeletionPolicy, Enforcement, GroupState, NodeGuard, OnTimeout, Phase, Scope, Start, Until,
    WorkloadApiVersion, WorkloadKind,
};
