//! Sequences on a real cluster, one controller for all: groups open one after the other, and all that this means. At
//! its end each test has the order verified from the audit log.

mod arrival;
mod control;
mod deletion;
mod edits;
mod foreign;
mod members;
mod namespaces;
mod report;
mod workloads;
