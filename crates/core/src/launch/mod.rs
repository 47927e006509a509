//! Container launch order: the containers of a pod start in ranks of descending priority. A rank starts when all containers of
//! the rank before it are ready.
//!
//! ```text
//! priorities ──webhook──▶ barrier variables, gate     a container waits for its key in the ConfigMap <pod>-barrier
//! ConfigMap with the first key ─▶ gate removed ─▶ rank ready ─▶ next key ─▶ annotation (makes the kubelet look for the key) ─▶ …
//! ```
//!
//! - [`ranks`]: the settings that users write. [`facts`]: a pod whose containers start in order.
//! - [`index`]: all such pods with their observed progress. [`decide`]: the next step for a pod. [`check`]: the audit of that
//!   decision.
//! - [`explain`]: which containers wait for which others.
//!
//! See docs/decisions/0011 for the reasons.

mod check;
mod decide;
pub mod explain;
pub mod facts;
pub mod index;
pub mod ranks;

pub use check::check;
pub use decide::{
    COMPLETED, Facts, LaunchStep, NUDGE, RANK, RESTART_DEPENDENTS, barrier_target, decide, step,
};
