//! The workload controllers in the embedded cluster: created and deleted pods, their order, and the final status of
//! objects. The tests call the server's functions directly, in virtual time.

mod cronjob;
mod daemonset;
mod deployment;
mod job;
mod quota;
mod replicaset;
mod scale;
mod statefulset;
mod world;
