//! Metrics. Label values come from short fixed lists and never contain object names.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ByKind {
    pub kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ByAction {
    pub action: &'static str,
    pub outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ByState {
    pub state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ByInvariant {
    pub invariant: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ByOutcome {
    pub outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ByServer {
    pub server: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct TurnedAway {
    pub server: &'static str,
    pub reason: &'static str,
}

/// Metrics with a registry per controller, not a global one: simulations run many controllers in one process.
pub struct Metrics {
    pub registry: Registry,
    pub release_latency: Histogram,
    pub blocked: Histogram,
    pub pods: Family<ByState, Gauge>,
    pub released: Counter,
    pub decisions: Counter,
    pub writes: Family<ByAction, Counter>,
    pub api_errors: Family<ByKind, Counter>,
    pub watch_failures: Family<ByKind, Counter>,
    pub watch_age: Family<ByKind, Gauge<f64, AtomicU64>>,
    pub queue_depth: Gauge,
    pub in_flight: Gauge,
    pub sequences: Gauge,
    pub violations: Family<ByInvariant, Counter>,
    pub leader: Gauge,
    pub launching: Gauge,
    pub rank_time: Histogram,
    pub nudges: Counter,
    pub tickets: Family<ByState, Gauge>,
    pub reserved_cpu: Family<ByState, Gauge<f64, AtomicU64>>,
    pub reserved_memory: Family<ByState, Gauge<f64, AtomicU64>>,
    pub unclaimed_cpu: Counter<f64, AtomicU64>,
    pub unclaimed_memory: Counter<f64, AtomicU64>,
    pub hand_over: Histogram,
    pub not_made: Family<ByKind, Counter>,
    pub reviews: Family<ByOutcome, Counter>,
    pub review_time: Histogram,
    pub certificate_expires: Gauge,
    pub connections: Family<ByServer, Gauge>,
    pub turned_away: Family<TurnedAway, Counter>,
    pub body_bytes: Gauge,
}

/// Name and description of every metric, for the reference page.
pub const ALL: &[(&str, &str)] = &[
    (
        "rollcall_release_latency_seconds",
        "histogram: time from the change that allowed a release to the answer of the API server",
    ),
    ("rollcall_pod_blocked_seconds", "histogram: time that pods were held, from creation to release"),
    ("rollcall_pods", "gauge by state (held, released, arrived): members of all sequences"),
    ("rollcall_pods_released_total", "counter: pods released"),
    ("rollcall_decisions_total", "counter: decisions made"),
    (
        "rollcall_writes_total",
        "counter by action (release, barrier, create, delete, ticket, nominate, status, event, note, mark, look) and outcome",
    ),
    ("rollcall_api_errors_total", "counter by kind: failed requests"),
    ("rollcall_watch_failures_total", "counter by kind: failed watches; each is retried"),
    ("rollcall_watch_age_seconds", "gauge by kind: time since the last message of the watch"),
    ("rollcall_queue_depth", "gauge: objects waiting for a decision"),
    ("rollcall_in_flight", "gauge: unanswered writes"),
    ("rollcall_sequences", "gauge: known sequences"),
    (
        "rollcall_checker_violations_total",
        "counter by invariant: decisions that the checker rejected; must stay 0",
    ),
    ("rollcall_leader", "gauge: 1 while this replica leads"),
    ("rollcall_launch_pods", "gauge: pods with containers that may not start yet"),
    (
        "rollcall_launch_rank_seconds",
        "histogram: time from the start of a rank of containers until the next rank may start",
    ),
    (
        "rollcall_launch_nudges_total",
        "counter: repeated notifications of a kubelet that a container may start",
    ),
    ("rollcall_tickets", "gauge by state (pending, no-room, reserved, claimed, expired): tickets"),
    (
        "rollcall_reserved_cpu",
        "gauge by state (reserved, claimed): CPUs that tickets reserve, or that pods have claimed",
    ),
    (
        "rollcall_reserved_memory_bytes",
        "gauge by state (reserved, claimed): memory that tickets reserve, or that pods have claimed",
    ),
    (
        "rollcall_unclaimed_cpu_seconds_total",
        "counter: CPUs multiplied by the seconds of their reservation, for tickets that ended without a claim",
    ),
    (
        "rollcall_unclaimed_memory_byte_seconds_total",
        "counter: memory multiplied by the seconds of its reservation, for tickets that ended without a claim",
    ),
    (
        "rollcall_hand_over_seconds",
        "histogram: time from the claim of a ticket to the release of the claiming pod",
    ),
    (
        "rollcall_reservation_failures_total",
        "counter by kind: tickets, guardians (pods) and priority classes whose creation the API server rejected",
    ),
    (
        "rollcall_webhook_reviews_total",
        "counter by outcome (changed, unchanged, refused, unreadable, unready): admission reviews answered",
    ),
    ("rollcall_webhook_review_seconds", "histogram: time to answer an admission review after reading it"),
    (
        "rollcall_webhook_certificate_expires",
        "gauge: expiry of the webhook's certificate in seconds since 1970; 0 without a certificate",
    ),
    ("rollcall_connections", "gauge by server (metrics, health, webhook): open connections"),
    (
        "rollcall_turned_away_total",
        "counter by server and reason: connections closed because the server was full (full), or had too many from one address \
         (address), or because the client was too slow (slow); requests rejected because their header or body was too large \
         (header, body), or because all bodies together were (bytes)",
    ),
    ("rollcall_body_bytes", "gauge: bytes of unanswered requests to the webhook"),
];

impl Metrics {
    pub fn new() -> Metrics {
        // From 1 ms to 65 s; for held pods, up to 18 hours.
        let latency = || Histogram::new((0..17).map(|power| 0.001 * f64::from(1u32 << power)));
        let blocked = || Histogram::new((0..17).map(|power| f64::from(1u32 << power)));
        let mut metrics = Metrics {
            registry: Registry::default(),
            release_latency: latency(),
            blocked: blocked(),
            pods: Family::default(),
            released: Counter::default(),
            decisions: Counter::default(),
            writes: Family::default(),
            api_errors: Family::default(),
            watch_failures: Family::default(),
            watch_age: Family::default(),
            queue_depth: Gauge::default(),
            in_flight: Gauge::default(),
            sequences: Gauge::default(),
            violations: Family::default(),
            leader: Gauge::default(),
            launching: Gauge::default(),
            rank_time: latency(),
            nudges: Counter::default(),
            tickets: Family::default(),
            reserved_cpu: Family::default(),
            reserved_memory: Family::default(),
            unclaimed_cpu: Counter::default(),
            unclaimed_memory: Counter::default(),
            hand_over: latency(),
            not_made: Family::default(),
            reviews: Family::default(),
            // From 16 µs to 1 s.
            review_time: Histogram::new((0..17).map(|power| 0.000_016 * f64::from(1u32 << power))),
            certificate_expires: Gauge::default(),
            connections: Family::default(),
            turned_away: Family::default(),
            body_bytes: Gauge::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&mut self) {
        let registry = &mut self.registry;
        add(registry, "rollcall_release_latency_seconds", &self.release_latency);
        add(registry, "rollcall_pod_blocked_seconds", &self.blocked);
        add(registry, "rollcall_pods", &self.pods);
        add(registry, "rollcall_pods_released_total", &self.released);
        add(registry, "rollcall_decisions_total", &self.decisions);
        add(registry, "rollcall_writes_total", &self.writes);
        add(registry, "rollcall_api_errors_total", &self.api_errors);
        add(registry, "rollcall_watch_failures_total", &self.watch_failures);
        add(registry, "rollcall_watch_age_seconds", &self.watch_age);
        add(registry, "rollcall_queue_depth", &self.queue_depth);
        add(registry, "rollcall_in_flight", &self.in_flight);
        add(registry, "rollcall_sequences", &self.sequences);
        add(registry, "rollcall_checker_violations_total", &self.violations);
        add(registry, "rollcall_leader", &self.leader);
        add(registry, "rollcall_launch_pods", &self.launching);
        add(registry, "rollcall_launch_rank_seconds", &self.rank_time);
        add(registry, "rollcall_launch_nudges_total", &self.nudges);
        add(registry, "rollcall_tickets", &self.tickets);
        add(registry, "rollcall_reserved_cpu", &self.reserved_cpu);
        add(registry, "rollcall_reserved_memory_bytes", &self.reserved_memory);
        add(registry, "rollcall_unclaimed_cpu_seconds_total", &self.unclaimed_cpu);
        add(registry, "rollcall_unclaimed_memory_byte_seconds_total", &self.unclaimed_memory);
        add(registry, "rollcall_hand_over_seconds", &self.hand_over);
        add(registry, "rollcall_reservation_failures_total", &self.not_made);
        add(registry, "rollcall_webhook_reviews_total", &self.reviews);
        add(registry, "rollcall_webhook_review_seconds", &self.review_time);
        add(registry, "rollcall_webhook_certificate_expires", &self.certificate_expires);
        add(registry, "rollcall_connections", &self.connections);
        add(registry, "rollcall_turned_away_total", &self.turned_away);
        add(registry, "rollcall_body_bytes", &self.body_bytes);
    }

    pub fn wrote(&self, action: &'static str, outcome: &'static str) {
        self.writes.get_or_create(&ByAction { action, outcome }).inc();
    }

    pub fn encode(&self) -> String {
        let mut text = String::new();
        // Writing into a String cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }

    pub fn release_answered(&self, latency: Duration, blocked: Duration) {
        self.released.inc();
        self.release_latency.observe(latency.as_secs_f64());
        self.blocked.observe(blocked.as_secs_f64());
    }
}

fn add(registry: &mut Registry, name: &str, metric: &(impl Metric + Clone)) {
    let help = ALL.iter().find(|(known, _)| *known == name).map_or("", |(_, help)| *help);
    // The encoder adds `_total` to counters itself.
    registry.register(name.strip_suffix("_total").unwrap_or(name), help, metric.clone());
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_listed_and_encoded() {
        let metrics = Metrics::new();
        metrics.wrote("release", "done");
        metrics.api_errors.get_or_create(&ByKind { kind: "server" }).inc();
        metrics.watch_failures.get_or_create(&ByKind { kind: "pods" }).inc();
        metrics.watch_age.get_or_create(&ByKind { kind: "pods" }).set(1.5);
        metrics.violations.get_or_create(&ByInvariant { invariant: "S1" }).inc();
        metrics.pods.get_or_create(&ByState { state: "held" }).set(1);
        metrics.tickets.get_or_create(&ByState { state: "reserved" }).set(1);
        metrics.reserved_cpu.get_or_create(&ByState { state: "reserved" }).set(0.5);
        metrics.reserved_memory.get_or_create(&ByState { state: "reserved" }).set(1024.0);
        metrics.not_made.get_or_create(&ByKind { kind: "tickets" }).inc();
        metrics.reviews.get_or_create(&ByOutcome { outcome: "changed" }).inc();
        metrics.connections.get_or_create(&ByServer { server: "health" }).set(1);
        metrics.turned_away.get_or_create(&TurnedAway { server: "health", reason: "slow" }).inc();
        metrics.release_answered(Duration::from_millis(7), Duration::from_secs(3));
        let text = metrics.encode();
        for (name, _) in ALL {
            assert!(text.lines().any(|line| line.starts_with(name)), "{name} is missing in\n{text}");
        }
    }
}
