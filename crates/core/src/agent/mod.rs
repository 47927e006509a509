//! Node agents before workloads: init containers that wait for a file that an agent on the node creates.
//!
//! - [`marker`]: the files that report an agent as "ready", and the check that they are valid.
//! - [`recognise`]: finds the containers that wait for such a file, and those that write one.
//! - [`explain`]: explains why a pod still waits.

pub mod explain;
pub mod marker;
pub mod recognise;
