//! Tests that share one cluster with one controller in Lite mode. Each test has its own namespace.

mod samples;
mod sequence;
mod workload;
