//! The controller: watch → index → decide → act.

use std::net::SocketAddr;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How the controller runs. Client and clock come from outside.
#[derive(Clone, Debug)]
pub struct Config {
    /// Our own namespace: for notes and the lease.
    pub namespace: String,
    pub metrics_bind_address: Option<SocketAddr>,
    pub health_probe_bind_address: Option<SocketAddr>,
    pub leader_elect: bool,
    pub lease_duration: Duration,
    /// Who we are in the lease and in events.
    pub identity: String,
    pub max_in_flight: usize,
    /// Decide and report, write nothing.
    pub dry_run: bool,
}

/// Runs until `stop` is cancelled, or until going on would be wrong (the lease is lost).
pub async fn run(client: kube::Client, config: Config, stop: CancellationToken) -> anyhow::Result<()> {
    let _ = (client, config);
    stop.cancelled().await;
    Ok(())
}
