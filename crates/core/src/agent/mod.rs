//! Agents before workloads inside the pod: init containers that wait for what an agent of the node has made.
//!
//! - [`marker`]: files by which agents say "ready", and when they count.
//! - [`recognise`]: which containers wait for such a file, and which keep one. [`explain`]: why a pod still waits.

pub mod explain;
pub mod marker;
pub mod recognise;
