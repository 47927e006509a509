//! Container launch order: the containers of a pod start from the highest priority down, each rank ready before the next one starts.
//!
//! ```text
//! priorities ──webhook──▶ barrier variables, gate     a container waits for its key in the ConfigMap <pod>-barrier
//! ConfigMap with the first key ─▶ gate goes ─▶ rank ready ─▶ next key ─▶ annotation (the kubelet looks at once) ─▶ …
//! ```
//!
//! - [`ranks`]: what users write. [`facts`]: what is known of a pod whose containers wait for keys.
//! - [`index`]: these pods, and what was seen of them. [`decide`], [`check`]: what to do, and whether it may be done.
//! - [`explain`]: which container holds up which.
//!
//! See docs/decisions/0011 for the reasons.

mod check;
mod decide;
pub mod explain;
pub mod facts;
pub mod index;
pub mod ranks;

pub use check::check;
pub use decide::{COMPLETED, Facts, NUDGE, RANK, RESTART_DEPENDENTS, Step, barrier_target, decide, step};
