//! Node scope on a real cluster.

#[path = "../common/mod.rs"]
mod common;
mod deletion;
mod each;
mod modes;
mod refused;
mod strangers;
mod waiting;
