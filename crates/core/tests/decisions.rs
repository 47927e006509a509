//! Decisions of the core, without a cluster: facts in, writes and reasons out.

mod random;
mod support;

mod checker;
mod explain;
mod freshness;
mod guests;
mod keys;
mod launch;
mod membership;
mod node_properties;
mod nodes;
mod properties;
mod reasons;
mod refused;
mod reservation;
mod roster;
mod unseen;
