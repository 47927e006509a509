//! Tests of the testbed itself: clusters, kwok, the fault proxy, the real node, and clean-up.

mod common;

mod cluster;
mod kwok;
mod proxy;
mod real_node;
mod teardown;
