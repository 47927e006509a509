//! The controllers of workloads in the embedded cluster: what they create and delete, in which order, and what their
//! objects say in the end. Driven through the functions of the server, under virtual time.

mod cronjob;
mod daemonset;
mod deployment;
mod job;
mod quota;
mod replicaset;
mod scale;
mod statefulset;
mod world;
