//! Agents before workloads inside the pod: init containers that wait for what an agent of the node has made.

pub mod marker;
