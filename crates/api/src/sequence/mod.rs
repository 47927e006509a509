//! `PodSequence`: groups of pods that start one after the other.
//!
//! ```text
//!  spec.rs, min_ready.rs                the spec that a user writes: types with their descriptions
//!  words.rs                             the enum fields
//!  limits.rs                            the bounds of the fields, with their reasons
//!  rules.rs                             CEL rules: constraints that the schema cannot express
//!  status.rs                            the status that the controller writes
//!  facts.rs, report.rs                  objects → core facts, and the core's status → object
//!  note.rs                              a ConfigMap that tells what to do if the sequence is deleted
//!  validate.rs                          parses and validates an unchecked spec
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
