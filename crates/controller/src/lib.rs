//! The controller: watch → index → decide → act. All decisions are made in `rollcall-core`; this crate feeds it with changes
//! and carries out its decisions.
//!
//! Where to look:
//! - [`engine`]: the loop. It knows keys, actions and objects. Code for a single feature is in the folder of that feature:
//!   [`sequence`], [`launch`], [`reservation`].
//! - [`watch`]: list and watch, per kind. [`act`]: the writes. [`client`]: the meaning of answers.
//! - [`queue`], [`slots`], `reports` with [`statuses`], [`announce`]: scheduling of decisions, writes, statuses and events.
//! - [`lease`]: the leader lease. [`shared`], [`health`], [`metrics`]: state for probes and scrapes; `outside`: the thread that
//!   serves it. [`server`]: the bounded server, also used by the webhook.

pub mod act;
pub mod announce;
pub mod backoff;
pub mod client;
pub mod clock;
mod conflicts;
pub mod engine;
pub mod health;
pub mod launch;
pub mod lease;
pub mod memory;
pub mod metrics;
mod outside;
pub mod queue;
pub mod repeats;
mod reports;
pub mod reservation;
pub mod sequence;
pub mod server;
pub mod shared;
pub mod slots;
pub mod statuses;
pub mod watch;

use clock::Clock;
use engine::Engine;
use futures::stream::{self, StreamExt};
use outside::Outside;
use rollcall_api::reservation::GuardianOptions;
use rollcall_core::lease::Terms;
use shared::Shared;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The pause image that Kubernetes itself runs in every pod, so nodes usually have it or a similar version.
pub const GUARDIAN_IMAGE: &str = "registry.k8s.io/pause:3.10.1";

/// The default options of guardians.
pub fn plain_guardians() -> GuardianOptions {
    GuardianOptions { image: GUARDIAN_IMAGE.into(), node_owner: false }
}

/// Configuration of the controller. Client and clock are supplied by the caller.
#[derive(Clone, Debug)]
pub struct Config {
    /// Our own namespace, for notes and the lease.
    pub namespace: String,
    /// Watch nodes and support sequences in Node scope; needs permissions on nodes.
    pub full: bool,
    /// Prefix of the taints of `nodeGuard: Taints`: one of [`rollcall_core::sequence::keys::TAINT_PREFIXES`].
    pub taint_prefix: &'static str,
    pub metrics_bind_address: Option<SocketAddr>,
    pub health_probe_bind_address: Option<SocketAddr>,
    pub leader_elect: bool,
    pub lease_duration: Duration,
    /// Our identity in the lease and in events.
    pub identity: String,
    pub max_in_flight: usize,
    /// Support Orders and Tickets; only in Full mode.
    pub reservations: bool,
    pub guardians: GuardianOptions,
    /// Decide and log, but write nothing.
    pub dry_run: bool,
    /// The seed of the jitter in every back-off.
    pub seed: u64,
}

/// Another replica may lead now, so this process must not act any more.
#[derive(Debug, thiserror::Error)]
#[error("the leader lease is lost")]
pub struct LeaseLost;

/// Runs until `stop` is cancelled or the lease is lost.
pub async fn run(
    client: kube::Client,
    config: Config,
    clock: Clock,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    run_with(client, config, clock, Arc::new(Shared::default()), stop).await
}

/// Like [`run`], with a shared state that the caller can read.
pub async fn run_with(
    client: kube::Client,
    config: Config,
    clock: Clock,
    shared: Arc<Shared>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let (probes, scrapes) = (config.health_probe_bind_address, config.metrics_bind_address);
    let mut outside = Outside::start(probes, scrapes, &shared)?;
    // A dry run writes nothing, not even the lease, and can run beside a leader.
    let config = Config { leader_elect: config.leader_elect && !config.dry_run, ..config };
    let news = match config.leader_elect {
        true => {
            let terms = Terms { identity: config.identity.clone(), duration: config.lease_duration };
            lease::Keeper::new(client.clone(), &config.namespace, terms, clock, config.seed).news()
        }
        false => stream::pending().boxed(),
    };
    let engine = Engine::new(client, config, clock, shared).run(news, stop);
    tokio::pin!(engine);
    tokio::select! {
        biased;
        ended = &mut engine => Ok(ended?),
        () = outside.ended() => Err(anyhow::anyhow!("the thread that serves probes and metrics has ended")),
    }
}
