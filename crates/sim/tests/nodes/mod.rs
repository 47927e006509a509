//! Scheduler, kubelets and nodes of the embedded cluster, in situations that a person could set up: what is created,
//! and what is seen of it when.

mod agents;
mod containers;
mod lifecycle;
mod placing;
mod pods;
mod probes;
mod world;
