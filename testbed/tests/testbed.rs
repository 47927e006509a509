//! The testbed itself: clusters, kwok, the fault proxy, the real node, and how they end.

mod common;

mod cluster;
mod kwok;
mod proxy;
mod real_node;
mod teardown;
