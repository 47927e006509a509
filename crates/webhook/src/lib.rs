//! Admission: what is done to a pod or a node on its way into the cluster.
//!
//! ```text
//!  AdmissionReview ──TLS──▶ server ──▶ review ──▶ AdmissionReview with a JSON patch, without one, or with a refusal
//!                                        ▲
//!                           the roster that the controller keeps
//! ```
//!
//! Where the cluster's own policies can do it (`config/admission`), they give the same result; the cases in `tests/cases`
//! are run through both.
//!
//! - [`review`]: one request, one answer. Nothing is asked of the API server while one is answered. What it is asked for
//!   ([`Asked`]) says what becomes of a pod that it cannot read. For sequences it is let through with a warning; nothing is
//!   ever refused. For the order of containers it is refused; only pods that ask for an order are sent.
//! - `pod`: gates and tolerations from the sequences that claim a pod. `node`: the label of a node that nobody has seen yet.
//!   `launch`: the variables, the gate and the name of a pod whose containers start in order.
//! - `json`: the few fields that matter, read from JSON as it came; the rest is not kept, so that no review needs more memory
//!   than its text. A pod is never read into a type and written again: that would drop the fields that are newer than the type.
//! - [`server`]: TLS, in front of the bounded server of the controller. [`certificates`]: where its certificates come from.

pub mod certificates;
mod json;
mod launch;
mod node;
mod pod;
mod review;
pub mod server;

pub use review::{Asked, review, review_text};

use certificates::Served;
use certificates::keeper::Keeper;
use certificates::plan::Terms;
use rollcall_api::names;
use rollcall_controller::backoff::Jitter;
use rollcall_controller::clock::Clock;
use rollcall_controller::shared::Shared;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// After a stop the webhook goes on for so long: until every API server has heard that this replica is not to be called any more.
const LINGER: Duration = Duration::from_secs(5);

/// Between attempts to listen on an address that is taken.
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// How the webhook runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Our own namespace, with the Service and the Secret.
    pub namespace: String,
    pub address: SocketAddr,
    /// How long a certificate of ours is good.
    pub lifetime: Duration,
    /// Write nothing; serve with the certificates there are.
    pub dry_run: bool,
    pub seed: u64,
}

/// Serves until `stop` is cancelled. Nobody listens before there is a configuration that sends reviews here: where the cluster's
/// own policies do the work, no port is open.
pub async fn run(
    client: kube::Client,
    settings: Settings,
    clock: Clock,
    shared: Arc<Shared>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let Settings { namespace, address, lifetime, dry_run, seed } = settings;
    let served = Arc::new(Served::default());
    let (configure, configured) = watch::channel(false);
    let keeper = Keeper {
        client,
        terms: Terms { names: hosts(&namespace), lifetime },
        namespace,
        clock,
        jitter: Jitter::seeded(seed),
        dry_run,
        shared: shared.clone(),
        served: served.clone(),
        configured: configure,
        serving: None,
        said: None,
    };
    let ending = CancellationToken::new();
    let server = async {
        let listener = listen(configured.clone(), address, Jitter::seeded(seed.wrapping_add(1))).await;
        server::serve(listener, served, shared, ending.clone()).await
    };
    let linger = async {
        stop.cancelled().await;
        // Nobody calls what is not configured.
        if !*configured.borrow() {
            return;
        }
        tokio::time::sleep(LINGER).await;
        ending.cancel();
        tokio::time::sleep(LINGER).await;
    };
    tokio::select! {
        biased;
        ended = server => ended,
        () = keeper.run() => anyhow::bail!("nobody looks after the webhook's certificates any more"),
        () = linger => Ok(()),
    }
}

/// Listens as soon as somebody is to call. An address that is taken is tried again: without a webhook new pods are not given
/// their gates, or, if they ask for an order, not created; without a controller none would ever be released.
async fn listen(
    mut configured: watch::Receiver<bool>,
    address: SocketAddr,
    mut jitter: Jitter,
) -> TcpListener {
    // Its sender lives as long as the keeper, which lives as long as this.
    let _ = configured.wait_for(|configured| *configured).await;
    for attempt in 0.. {
        match TcpListener::bind(address).await {
            Ok(listener) => return listener,
            Err(error) => tracing::error!(%address, %error, "cannot listen for the webhook, trying again"),
        }
        tokio::time::sleep(jitter.wait(attempt, FIRST_WAIT, LONGEST_WAIT)).await;
    }
    unreachable!("numbers do not end")
}

/// By which names API servers call us: through the Service, or, where the controller runs outside of the cluster, by an address
/// of the same machine.
pub fn hosts(namespace: &str) -> Vec<String> {
    let service = names::WEBHOOK_SERVICE;
    let hosts = [format!("{service}.{namespace}.svc"), format!("{service}.{namespace}.svc.cluster.local")];
    hosts.into_iter().chain(["localhost", "127.0.0.1", "::1"].map(String::from)).collect()
}
