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
pub mod keys;
pub mod marks;
pub mod nodes;
pub mod reason;
pub mod spec;
pub mod status;
pub mod views;

pub use check::{Violation, check};
pub use decide::{Action, Decision, Settings, decide};
pub use evaluate::{Evaluation, GroupView, NodeView, evaluate};
pub use events::{Event, EventKind};
pub use reason::Reason;
pub use spec::{Group, Sequence, Spec};
pub use status::{GroupState, Phase, Status};
