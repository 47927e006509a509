//! Tests that start controllers of their own. They use one cluster in turns, because a controller acts on the whole cluster.
//! Tests that check the cluster as a whole have one of their own.

mod crash;
mod faults;
mod hostile;
mod idle;
mod leaders;
mod permissions;
mod restart;
mod sequence_alone;
