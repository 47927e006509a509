//! Admission: changes of pods and nodes when they are created.
//!
//! ```text
//!  AdmissionReview ──TLS──▶ server ──▶ review ──▶ AdmissionReview with a JSON patch, or without changes, or denied
//!                                        ▲
//!                           the roster that the controller keeps
//! ```
//!
//! The policies in `config/admission` give the same results, where the cluster uses them instead; the cases in
//! `tests/cases` are run through both.
//!
//! - [`review`]: one request, one answer, without calls to the API server. [`Asked`] is the kind of request; it decides
//!   what happens to a pod that cannot be read. For sequences, the pod is admitted with a warning; sequences never deny
//!   a pod. For launch order, the pod is denied; only pods that ask for an order are sent.
//! - `pod`: gates and tolerations from the sequences that a pod belongs to. `node`: the label of a node that no
//!   controller has seen yet. `launch`: the variables, the gate and the name of a pod whose containers start in order.
//! - `json`: reads the few fields that matter from the JSON text, so that no review needs more memory than its text. A
//!   pod is never converted to a type and back, because that would drop fields that are newer than the type.
//! - [`server`]: TLS, in front of the bounded server of the controller. [`certificates`]: makes and renews its
//!   certificates.

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

/// How long the webhook keeps serving after a stop: until every API server knows that this replica no longer serves.
const LINGER: Duration = Duration::from_secs(5);

/// Delays between attempts to listen on an address that is in use.
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// The settings of the webhook.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The controller's namespace, which contains the Service and the Secret.
    pub namespace: String,
    pub address: SocketAddr,
    /// Lifetime of the certificates that we make.
    pub lifetime: Duration,
    /// Write nothing; serve with the existing certificates.
    pub dry_run: bool,
    pub seed: u64,
}

/// Serves until the token `stop` fires, and [`LINGER`] longer. The port is opened only once a webhook configuration exists, so a cluster that
/// uses the policies has no open port.
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
        // Without a webhook configuration, there are no callers to wait for.
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
        () = keeper.run() => anyhow::bail!("the task that renews the webhook's certificates has ended"),
        () = linger => Ok(()),
    }
}

/// Listens as soon as a webhook configuration exists. If the address is in use, it retries instead of ending the
/// process. Without the webhook, new pods get no gates, or are rejected if they ask for a launch order; without the
/// controller, no pod would be released.
async fn listen(
    mut configured: watch::Receiver<bool>,
    address: SocketAddr,
    mut jitter: Jitter,
) -> TcpListener {
    // The sender lives as long as the keeper, which lives longer than this future.
    let _ = configured.wait_for(|configured| *configured).await;
    for attempt in 0.. {
        match TcpListener::bind(address).await {
            Ok(listener) => return listener,
            Err(error) => tracing::error!(%address, %error, "cannot listen for webhook requests; retrying"),
        }
        tokio::time::sleep(jitter.wait(attempt, FIRST_WAIT, LONGEST_WAIT)).await;
    }
    unreachable!("numbers do not end")
}

/// The host names that API servers use to call the webhook: those of the Service, or, where the controller runs outside
/// of the cluster, an address of the same machine.
pub fn hosts(namespace: &str) -> Vec<String> {
    let service = names::WEBHOOK_SERVICE;
    let hosts = [format!("{service}.{namespace}.svc"), format!("{service}.{namespace}.svc.cluster.local")];
    hosts.into_iter().chain(["localhost", "127.0.0.1", "::1"].map(String::from)).collect()
}
