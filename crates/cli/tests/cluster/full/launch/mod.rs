//! Container launch order: on a real kubelet, where the containers log their start and readiness, and at admission on a real
//! API server.

mod admission;
mod kubelet;
mod permissions;
mod pods;
mod samples;
mod scene;
