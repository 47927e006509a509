//! Liveness of the controller. If a watch stays silent or the loop does not turn, `/livez` fails, and Kubernetes restarts the
//! controller.
//!
//! The loop stores its state in atomics, and another thread reads them: a long step of the loop does not make probes fail.

use crate::metrics::ByKind;
use crate::server::{HttpAnswer, answer, text};
use crate::shared::Shared;
use crate::watch::WATCH_SECONDS;
use http::{Method, StatusCode};
use rollcall_core::kind::Kind;
use rollcall_core::planted::{Bug, planted};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// A watch that is silent for twice the time that the server keeps it open is dead.
const DEAD_WATCH: Duration = Duration::from_secs(2 * WATCH_SECONDS);
/// Longest time between two turns of the loop when nothing happens.
pub const HEARTBEAT: Duration = Duration::from_secs(5);
/// A loop that does not turn for this long is dead. The longest step seen took 45 s: ten thousand sequences that select the
/// same pod, on one slow core. A restart would only begin such a step again, so the limit is well above that.
const DEAD_LOOP: Duration = Duration::from_secs(300);

/// Value of `heard` for a kind that is not watched.
const NO_WATCH: u64 = u64::MAX;

/// Liveness of the loop and its watches.
pub struct Health {
    born: Instant,
    synced: AtomicBool,
    /// All kinds have been listed once.
    started: AtomicBool,
    /// Time of the last turn of the loop, in milliseconds since `born`.
    turned: AtomicU64,
    /// Time of the last message of each watch, indexed by kind.
    heard: [AtomicU64; Kind::ALL.len()],
}

impl Health {
    pub fn new() -> Health {
        let health = Health {
            born: Instant::now(),
            synced: AtomicBool::new(false),
            started: AtomicBool::new(false),
            turned: AtomicU64::new(0),
            heard: [const { AtomicU64::new(NO_WATCH) }; Kind::ALL.len()],
        };
        health.watching(&Kind::of_mode(false));
        health
    }

    pub fn turned(&self, synced: bool) {
        self.synced.store(synced, Ordering::Relaxed);
        self.started.fetch_or(synced, Ordering::Relaxed);
        self.turned.store(self.now(), Ordering::Relaxed);
        if planted(Bug::AliveForEver) {
            Kind::of_mode(false).into_iter().for_each(|kind| self.watch_reported(kind));
        }
    }

    /// Records that these kinds are watched from now on.
    pub fn watching(&self, kinds: &[Kind]) {
        kinds.iter().for_each(|kind| self.watch_reported(*kind));
    }

    /// Records a message of a watch.
    pub fn watch_reported(&self, kind: Kind) {
        self.heard[kind as usize].store(self.now(), Ordering::Relaxed);
    }

    /// Describes the dead watch or loop, if there is one.
    pub fn dead(&self) -> Option<String> {
        let silent = self.ages().find(|(_, age)| *age > DEAD_WATCH);
        let watch = silent
            .map(|(kind, age)| format!("the watch of {} was silent for {} s", kind.as_str(), age.as_secs()));
        let turned = self.since(self.turned.load(Ordering::Relaxed));
        let stuck = || format!("the controller loop has been stuck for {} s", turned.as_secs());
        watch.or((turned > DEAD_LOOP).then(stuck))
    }

    /// Time since the last message of each watch.
    fn ages(&self) -> impl Iterator<Item = (Kind, Duration)> {
        let heard =
            Kind::ALL.iter().zip(&self.heard).map(|(kind, heard)| (*kind, heard.load(Ordering::Relaxed)));
        heard.filter(|(_, heard)| *heard != NO_WATCH).map(|(kind, heard)| (kind, self.since(heard)))
    }

    fn now(&self) -> u64 {
        u64::try_from(self.born.elapsed().as_millis()).unwrap_or(NO_WATCH - 1)
    }

    fn since(&self, moment: u64) -> Duration {
        Duration::from_millis(self.now().saturating_sub(moment))
    }
}

impl Default for Health {
    fn default() -> Self {
        Health::new()
    }
}

/// Answers a probe.
pub fn probe(shared: &Shared, method: &Method, path: &str) -> HttpAnswer {
    let health = &shared.health;
    let listed = |listed: &AtomicBool| match listed.load(Ordering::Relaxed) {
        true => text(StatusCode::OK, "ok\n"),
        false => text(StatusCode::SERVICE_UNAVAILABLE, "not every kind has been listed yet\n"),
    };
    match path {
        _ if !is_get(method) => only_get(),
        "/livez" | "/healthz" => match health.dead() {
            None => text(StatusCode::OK, "ok\n"),
            Some(what) => text(StatusCode::SERVICE_UNAVAILABLE, what + "\n"),
        },
        "/readyz" => listed(&health.synced),
        "/startupz" => listed(&health.started),
        _ => text(StatusCode::NOT_FOUND, "not found; available paths: /livez, /readyz, /startupz\n"),
    }
}

/// Answers a scrape.
pub fn scrape(shared: &Shared, method: &Method, path: &str) -> HttpAnswer {
    match path {
        _ if !is_get(method) => return only_get(),
        "/metrics" => {}
        _ => return text(StatusCode::NOT_FOUND, "not found; available path: /metrics\n"),
    }
    for (kind, age) in shared.health.ages() {
        shared.metrics.watch_age.get_or_create(&ByKind { kind: kind.as_str() }).set(age.as_secs_f64());
    }
    let content = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    answer(StatusCode::OK, content, shared.metrics.encode())
}

fn is_get(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

fn only_get() -> HttpAnswer {
    text(StatusCode::METHOD_NOT_ALLOWED, "only GET is allowed\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(shared: &Shared, path: &str) -> u16 {
        probe(shared, &Method::GET, path).status().as_u16()
    }

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

    #[tokio::test(start_paused = true)]
    async fn a_kind_that_is_not_watched_cannot_be_dead() {
        let health = Health::new();
        tokio::time::advance(DEAD_WATCH + Duration::from_secs(1)).await;
        health.watching(&Kind::of_mode(false));
        health.turned(true);
        assert_eq!(health.dead(), None);
        health.watching(&[Kind::Node]);
        tokio::time::advance(DEAD_WATCH + Duration::from_secs(1)).await;
        health.watching(&Kind::of_mode(false));
        health.turned(true);
        assert!(health.dead().is_some_and(|what| what.contains("watch of nodes")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_is_over_once() {
        let shared = Shared::default();
        let both = || ["/startupz", "/readyz", "/livez"].map(|path| status(&shared, path));
        assert_eq!(both(), [503, 503, 200]);
        shared.health.turned(false);
        assert_eq!(both(), [503, 503, 200]);
        shared.health.turned(true);
        assert_eq!(both(), [200, 200, 200]);
        shared.health.turned(false);
        tokio::time::advance(DEAD_LOOP + Duration::from_secs(1)).await;
        assert_eq!(both(), [200, 503, 503]);
        assert_eq!((status(&shared, "/"), status(&shared, "/livez/")), (404, 404));
        assert_eq!(probe(&shared, &Method::POST, "/livez").status(), StatusCode::METHOD_NOT_ALLOWED);
    }
}
