//! Tests of sequences on a real cluster with one shared controller. At its end, each test verifies the start order from the
//! audit log.

mod arrival;
mod control;
mod deletion;
mod edits;
mod foreign;
mod members;
mod namespaces;
mod report;
mod workloads;
