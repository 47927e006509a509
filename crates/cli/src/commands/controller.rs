//! Runs the controller until it receives a signal.

use crate::cli::Access;
use crate::commands::install::Mode;
use crate::commands::keys::known_prefix;
use crate::connect;
use crate::outcome::Outcome;
use crate::output;
use anyhow::{Context, Result};
use clap::ValueEnum;
use clap::builder::PossibleValuesParser;
use rollcall_api::{duration::GoDuration, names, reservation::GuardianOptions};
use rollcall_controller::{Config, clock::Clock, shared::Shared};
use rollcall_core::sequence::keys::{PREFIX, TAINT_PREFIXES};
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

/// Maximum number of runtime threads. The main loop is a single task that mostly waits, so more threads would stay idle.
const THREADS: usize = 4;
/// Shortest allowed lease. A lease records whole seconds, and several renewals must fit into its duration.
const SHORTEST_LEASE: Duration = Duration::from_secs(3);

/// Shortest allowed certificate lifetime. Renewal runs in steps that are a twentieth of the lifetime apart.
const SHORTEST_CERTIFICATE: Duration = Duration::from_secs(10);

/// Run the controller
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Exit codes:
  0  stopped by SIGTERM or SIGINT after releasing the lease (a second signal exits at once, with code 1)
  1  the controller cannot continue: it lost the lease, or one of its tasks failed
  2  a mode or flag is invalid, or no cluster is configured")]
pub struct Arguments {
    /// Which features to run
    #[arg(long, value_enum, default_value_t)]
    mode: Mode,
    /// Prefix of taint keys (`nodeGuard: Taints`); choose one that your cluster autoscaler recognises as a startup taint
    #[arg(long, value_name = "PREFIX", default_value = PREFIX, value_parser = PossibleValuesParser::new(TAINT_PREFIXES))]
    taint_prefix: String,
    /// Address for /metrics; "0" disables it
    #[arg(long, value_name = "ADDRESS", default_value = ":8080", value_parser = address)]
    metrics_bind_address: Listen,
    /// Address for /livez, /readyz and /startupz; "0" disables them
    #[arg(long, value_name = "ADDRESS", default_value = ":8081", value_parser = address)]
    health_probe_bind_address: Listen,
    /// Address for the admission webhook in Full mode; "0" disables it
    #[arg(long, value_name = "ADDRESS", default_value = ":9443", value_parser = address)]
    webhook_bind_address: Listen,
    /// Lifetime of the certificates that the webhook issues for itself; they are renewed after two thirds of it
    #[arg(long, value_name = "DURATION", default_value = "2160h", value_parser = certificate_lifetime)]
    webhook_certificate_lifetime: Duration,
    /// Work only while holding the lease; required for running several replicas
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    leader_elect: bool,
    /// Time after which a lease that is not renewed expires
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = lease_duration)]
    lease_duration: Duration,
    /// Maximum number of concurrent writes to the API server
    #[arg(long, value_name = "NUMBER", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    max_in_flight: u16,
    /// Image of the guardian pods that reserve capacity; it must run as any user, and wait until it is killed
    #[arg(long, default_value = rollcall_controller::GUARDIAN_IMAGE)]
    guardian_image: String,
    /// Make the Node a second owner of guardians that are pinned to it, so that Karpenter can remove the node
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    guardian_node_owner: bool,
    /// Format of the log
    #[arg(long, value_enum, default_value_t)]
    log_format: LogFormat,
    /// What to log (error, warn, info, debug, trace, or a filter as in RUST_LOG)
    #[arg(long, value_name = "LEVEL", env = "RUST_LOG", hide_env_values = true, default_value = "info")]
    log_level: String,
    /// Make decisions and report them, but write nothing
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    dry_run: bool,
    /// Namespace of the controller, for its lease and its notes
    #[arg(long, value_name = "NAME", default_value = names::OWN_NAMESPACE)]
    namespace: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    #[default]
    Text,
    Json,
}

/// A listen address in the syntax of Go programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listen {
    Nowhere,
    /// A port on every interface: `:8080`.
    Everywhere(u16),
    At(SocketAddr),
}

pub fn run(access: Access, arguments: Arguments) -> Result<Outcome> {
    start_log(arguments.log_format, &arguments.log_level)?;
    rollcall_controller::memory::keep_small();
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    let result = runtime.block_on(async {
        let client =
            kube::Client::try_from(connect::config(&access).await?).context("cannot create a client")?;
        let stop = CancellationToken::new();
        tokio::spawn(cancel_on_signal(stop.clone())?);
        let clock = Clock::starting_at(jiff::Timestamp::now());
        let (webhook, config) = (arguments.webhook(), arguments.config());
        tracing::info!(version = env!("CARGO_PKG_VERSION"), identity = config.identity, "starting");
        anyhow::Ok(together(client, config, webhook, clock, stop).await)
    })?;
    match result {
        Ok(()) => Ok(Outcome::Done),
        Err(error) => {
            output::error(&error);
            Ok(Outcome::Failed)
        }
    }
}

/// Runs the controller and the webhook side by side. If one of them fails, both end.
async fn together(
    client: kube::Client,
    config: Config,
    webhook: Option<rollcall_webhook::Settings>,
    clock: Clock,
    stop: CancellationToken,
) -> Result<()> {
    let shared = Arc::new(Shared::default());
    let controller =
        rollcall_controller::run_with(client.clone(), config, clock, shared.clone(), stop.clone());
    let Some(webhook) = webhook else { return controller.await };
    // The webhook gets a task of its own, so that a decision about ten thousand pods does not delay its answers.
    let webhook = rollcall_webhook::run(client, webhook, clock, shared, stop);
    let mut task = JoinSet::new();
    task.spawn(webhook);
    let webhook = async { task.join_next().await.unwrap_or(Ok(Ok(())))? };
    tokio::try_join!(controller, webhook).map(drop)
}

impl Arguments {
    /// Settings of the webhook, or `None` if it is not served.
    fn webhook(&self) -> Option<rollcall_webhook::Settings> {
        let address = self.webhook_bind_address.socket().filter(|_| self.mode == Mode::Full)?;
        Some(rollcall_webhook::Settings {
            namespace: self.namespace.clone(),
            address,
            lifetime: self.webhook_certificate_lifetime,
            dry_run: self.dry_run,
            seed: RandomState::new().hash_one(std::process::id()),
        })
    }

    fn config(self) -> Config {
        Config {
            namespace: self.namespace,
            full: self.mode == Mode::Full,
            taint_prefix: known_prefix(&self.taint_prefix),
            metrics_bind_address: self.metrics_bind_address.socket(),
            health_probe_bind_address: self.health_probe_bind_address.socket(),
            leader_elect: self.leader_elect,
            lease_duration: self.lease_duration,
            identity: identity(),
            max_in_flight: usize::from(self.max_in_flight),
            reservations: self.mode == Mode::Full,
            guardians: GuardianOptions {
                image: self.guardian_image.clone(),
                node_owner: self.guardian_node_owner,
            },
            dry_run: self.dry_run,
            seed: RandomState::new().hash_one(std::process::id()),
        }
    }
}

fn start_log(format: LogFormat, level: &str) -> Result<()> {
    let filter =
        EnvFilter::try_new(level).with_context(|| format!("--log-level: cannot read \"{level}\""))?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => log.with_ansi(colours()).init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
    Ok(())
}

fn colours() -> bool {
    anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never
}

/// Cancels `stop` at the first signal; the second signal exits the process at once.
fn cancel_on_signal(stop: CancellationToken) -> Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        for signals in 0.. {
            let name = tokio::select! {
                biased;
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            };
            if signals > 0 {
                std::process::exit(Outcome::Failed.code().into());
            }
            tracing::info!(signal = name, "stopping");
            stop.cancel();
        }
    })
}

/// Returns a name that identifies this replica to people and that no other replica has. The random suffix gives a restarted
/// container a new identity, because it no longer knows the answers to its earlier writes.
fn identity() -> String {
    let kernel = || std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let host = std::env::var("POD_NAME").ok().or_else(|| std::env::var("HOSTNAME").ok()).or_else(kernel);
    let host = host.map(|host| host.trim().to_owned()).filter(|host| !host.is_empty());
    // The operating system's random number generator seeds the keys of a `RandomState`.
    let suffix = RandomState::new().hash_one(std::process::id()) as u32;
    format!("{}_{suffix:08x}", host.unwrap_or_else(|| "rollcall".into()))
}

impl Listen {
    fn socket(self) -> Option<SocketAddr> {
        match self {
            Listen::Nowhere => None,
            Listen::At(address) => Some(address),
            // `::` accepts IPv4 as well, but fails on kernels without IPv6.
            Listen::Everywhere(port) => {
                let six = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
                let any = if UdpSocket::bind((six, 0)).is_ok() { six } else { Ipv4Addr::UNSPECIFIED.into() };
                Some(SocketAddr::new(any, port))
            }
        }
    }
}

fn address(text: &str) -> Result<Listen, String> {
    if text.is_empty() || text == "0" {
        return Ok(Listen::Nowhere);
    }
    if let Some(port) = text.strip_prefix(':').and_then(|port| port.parse().ok()) {
        return Ok(Listen::Everywhere(port));
    }
    let found = text.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    found
        .map(Listen::At)
        .ok_or_else(|| "expected HOST:PORT, :PORT for every interface, or 0 to disable it".into())
}

fn lease_duration(text: &str) -> Result<Duration, String> {
    at_least(SHORTEST_LEASE, text)
}

fn certificate_lifetime(text: &str) -> Result<Duration, String> {
    at_least(SHORTEST_CERTIFICATE, text)
}

fn at_least(shortest: Duration, text: &str) -> Result<Duration, String> {
    let duration = text.parse::<GoDuration>().map_err(|error| error.to_string())?.get();
    match duration >= shortest {
        true => Ok(duration),
        false => Err(format!("must be at least {}s", shortest.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_gos() {
        assert_eq!(address("0"), Ok(Listen::Nowhere));
        assert_eq!(address(""), Ok(Listen::Nowhere));
        assert_eq!(address(":8080"), Ok(Listen::Everywhere(8080)));
        assert_eq!(address("127.0.0.1:80"), Ok(Listen::At(([127, 0, 0, 1], 80).into())));
        assert_eq!(address("[::1]:80"), Ok(Listen::At((Ipv6Addr::LOCALHOST, 80).into())));
        for wrong in ["8080", ":", ":65536", "127.0.0.1", "::1:80:"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn everywhere_is_an_unspecified_address() {
        let socket = Listen::Everywhere(81).socket().expect("a socket");
        assert!(socket.ip().is_unspecified() && socket.port() == 81);
    }

    #[test]
    fn two_identities_differ() {
        assert_ne!(identity(), identity());
    }
}
