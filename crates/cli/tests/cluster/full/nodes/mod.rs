//! Node scope on a real cluster.

mod deletion;
mod each;
mod modes;
mod refused;
mod strangers;
mod waiting;
