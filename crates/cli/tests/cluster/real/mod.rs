//! Tests with a real kubelet and containerd: the machine has one such node.

mod agent;
mod real_node;
