//! Tests that share one cluster with one controller of Lite mode. Each has a namespace of its own.

mod samples;
mod sequence;
mod workload;
