//! Shared helpers of the end-to-end tests: a real cluster with the shipped manifests, the built binary as its controller, and
//! functions that express the expected behaviour.

pub mod controller;
pub mod docs;
pub mod faults;
pub mod lab;
pub mod make;
pub mod nodes;
pub mod order;
pub mod permissions;
pub mod scene;
pub mod server;

use std::time::Duration;

pub use anyhow::Result;
pub use controller::{Controller, Options};
pub use lab::{ACCOUNT, Lab};
pub use make::{GATE, With, pod};
pub use rollcall_testbed::wait;
pub use scene::Scene;
pub use serde_json::{Value, json};

/// Time limit of waits, far longer than any of them takes, so that a slow machine does not fail a test.
pub const LIMIT: Duration = Duration::from_secs(180);
