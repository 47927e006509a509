//! Admission: what is done to a pod or a node on its way into the cluster.
//!
//! ```text
//!  AdmissionReview ──▶ review ──▶ AdmissionReview with a JSON patch, or without one
//!                        ▲
//!                   the sequences
//! ```
//!
//! Where the cluster's own policies can do it (`config/admission`), they give the same result; the cases in `tests/cases`
//! are run through both.
//!
//! - [`review`]: one request, one answer. It never refuses anything: what it cannot read is let through with a warning.
//! - `pod`: the gates of the sequences that claim a pod. `node`: the label of a node that nobody has seen yet.
//! - `json`: the few fields that matter, read from JSON as it came. A pod is never read into a type and written again:
//!   that would drop the fields that are newer than the type.

mod json;
mod node;
mod patch;
mod pod;
mod review;

pub use review::review;
