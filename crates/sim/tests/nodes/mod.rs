//! Scheduler, kubelets and nodes of the embedded cluster. The tests create objects and check the observed states with their
//! times.

mod agents;
mod containers;
mod lifecycle;
mod placing;
mod pods;
mod probes;
mod world;
