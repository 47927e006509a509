//! The benchmarks.

pub mod chain;
pub mod contended;
pub mod growth;
pub mod hand_over;
pub mod idle;
pub mod launch;
pub mod orders;
pub mod satisfied_wait;
pub mod storm;
pub mod taints;
pub mod tickets;
pub mod watched;
pub mod webhook;

use crate::lab::Lab;
use crate::world::{self, Seen};
use anyhow::Result;
use tokio::sync::mpsc;

/// `--max-in-flight` of the controller, and of the baselines.
pub const IN_FLIGHT: usize = 8;

/// A new namespace of gated pods, and a watch of their changes.
async fn gated_pods(lab: &Lab, count: usize) -> Result<(String, mpsc::UnboundedReceiver<Seen>)> {
    let namespace = lab.namespace().await?;
    lab.pods(&namespace, count).await?;
    let seen = world::watch(&lab.client, &namespace).await?;
    Ok((namespace, seen))
}
