//! `/livez`, `/readyz` and `/metrics`. No silent death: a watch without a sign of life, or a loop that does not
//! turn, makes `/livez` fail, and Kubernetes restarts us.

use crate::metrics::ByKind;
use crate::shared::Shared;
use crate::watch::WATCH_SECONDS;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use rollcall_core::kind::Kind;
use rollcall_core::planted::{Bug, planted};
use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::Instant;

/// A watch that says nothing for twice the time the server keeps it open is dead.
const DEAD_WATCH: Duration = Duration::from_secs(2 * WATCH_SECONDS);
/// The loop turns at least every few seconds, with or without news.
pub const HEARTBEAT: Duration = Duration::from_secs(5);
const DEAD_LOOP: Duration = Duration::from_secs(60);

/// Whether the loop and its watches live.
pub struct Health {
    synced: AtomicBool,
    beats: Mutex<Beats>,
}

struct Beats {
    turned: Instant,
    watches: BTreeMap<Kind, Instant>,
}

impl Health {
    pub fn new() -> Health {
        let now = Instant::now();
        let watches = Kind::of_mode(false).into_iter().map(|kind| (kind, now)).collect();
        Health { synced: AtomicBool::new(false), beats: Mutex::new(Beats { turned: now, watches }) }
    }

    pub fn turned(&self, synced: bool) {
        self.synced.store(synced, Ordering::Relaxed);
        self.beats().turned = Instant::now();
        if planted(Bug::AliveForEver) {
            Kind::of_mode(false).into_iter().for_each(|kind| self.heard(kind));
        }
    }

    /// These kinds are watched from now on.
    pub fn watching(&self, kinds: &[Kind]) {
        kinds.iter().for_each(|kind| self.heard(*kind));
    }

    /// A watch gave a sign of life.
    pub fn heard(&self, kind: Kind) {
        self.beats().watches.insert(kind, Instant::now());
    }

    fn beats(&self) -> std::sync::MutexGuard<'_, Beats> {
        self.beats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is dead, if anything is.
    pub fn dead(&self) -> Option<String> {
        let beats = self.beats();
        let silent = beats.watches.iter().find(|(_, heard)| heard.elapsed() > DEAD_WATCH);
        let watch = silent.map(|(kind, heard)| {
            format!("the watch of {} is silent for {} s", kind.as_str(), heard.elapsed().as_secs())
        });
        let stuck = beats.turned.elapsed() > DEAD_LOOP;
        watch.or(stuck.then(|| format!("the loop has not turned for {} s", beats.turned.elapsed().as_secs())))
    }

    fn is_synced(&self) -> bool {
        self.synced.load(Ordering::Relaxed)
    }

    /// Since when each watch has said nothing.
    fn ages(&self) -> Vec<(Kind, Duration)> {
        self.beats().watches.iter().map(|(kind, heard)| (*kind, heard.elapsed())).collect()
    }
}

fn scrape(shared: &Shared) -> String {
    for (kind, age) in shared.health.ages() {
        shared.metrics.watch_age.get_or_create(&ByKind { kind: kind.as_str() }).set(age.as_secs_f64());
    }
    shared.metrics.encode()
}

impl Default for Health {
    fn default() -> Self {
        Health::new()
    }
}

async fn livez(State(shared): State<Arc<Shared>>) -> (StatusCode, String) {
    match shared.health.dead() {
        None => (StatusCode::OK, "ok\n".into()),
        Some(what) => (StatusCode::SERVICE_UNAVAILABLE, what + "\n"),
    }
}

async fn readyz(State(shared): State<Arc<Shared>>) -> (StatusCode, &'static str) {
    match shared.health.is_synced() {
        true => (StatusCode::OK, "ok\n"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "not every kind has been listed yet\n"),
    }
}

async fn metrics(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    let content = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, content)], scrape(&shared))
}

pub fn probes(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/livez", get(livez))
        .route("/healthz", get(livez))
        .route("/readyz", get(readyz))
        .with_state(shared)
}

pub fn scrapes(shared: Arc<Shared>) -> Router {
    Router::new().route("/metrics", get(metrics)).with_state(shared)
}

/// Serves `router` for as long as the answer is polled: probes are answered until the loop has drained. An address
/// that cannot be had is an error at once, not later.
pub async fn serve(
    address: SocketAddr,
    router: Router,
) -> std::io::Result<impl Future<Output = std::io::Result<()>>> {
    let listener = TcpListener::bind(address).await?;
    Ok(async move { axum::serve(listener, router).await })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_silent_watch_is_a_dead_controller() {
        let health = Health::new();
        assert_eq!(health.dead(), None);
        tokio::time::advance(DEAD_WATCH + Duration::from_secs(1)).await;
        health.turned(true);
        assert!(health.dead().is_some_and(|what| what.contains("watch of")));
        health.watching(&Kind::of_mode(false));
        assert_eq!(health.dead(), None);
        tokio::time::advance(DEAD_LOOP + Duration::from_secs(1)).await;
        assert!(health.dead().is_some_and(|what| what.contains("loop")));
    }
}
