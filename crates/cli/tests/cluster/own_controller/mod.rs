//! Tests that start controllers of their own. They take turns on one cluster, because a controller acts on all of it;
//! those that judge the cluster as a whole have one to themselves.

mod crash;
mod faults;
mod hostile;
mod idle;
mod leaders;
mod permissions;
mod restart;
mod sequence_alone;
