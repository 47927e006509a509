//! A real Kubernetes control plane for tests, on one machine, without containers: etcd, API server, controller manager
//! and scheduler run as plain processes, and [kwok](https://kwok.sigs.k8s.io) replaces kubelets. README.md has
//! examples.

mod audit;
pub mod browser;
mod cache;
mod certs;
mod cluster;
mod components;
mod image;
mod kubeconfig;
mod nodes;
mod packages;
mod ports;
mod process;
mod proxy;
mod read;
mod real_node;
mod shared;
#[doc(hidden)]
pub mod supervisor;
pub mod wait;

pub use audit::{AuditEvent, AuditLog};
pub use cache::{ETCD_VERSION, KUBERNETES_VERSION, KWOK_VERSION, bin_dir};
pub use cluster::{Capacity, Cluster, Component, Options};
pub use image::Image;
pub use nodes::node;
pub use packages::install as install_packages;
pub use ports::free_port;
pub use proxy::{Fault, FaultProxy, Go, Held, Hold, Line, RequestInfo, Rewrite, WatchFault};
pub use real_node::RealNode;
pub use shared::{SharedCluster, namespace, shared};
