//! Container launch order: on a real kubelet, where the containers themselves say when they began and when they were ready, and at
//! admission on a real API server.

mod admission;
mod kubelet;
mod permissions;
mod pods;
mod samples;
mod scene;
