//! What each server allows, and why. Strangers can reach all three ports, so what they can make us hold is a number on this page.

use std::time::Duration;

/// A header that is longer is answered with 431. What API servers, kubelets and Prometheus send is below 1 KiB, with a bearer
/// token below 4 KiB. Nothing smaller is possible: hyper reads in pieces of this size.
pub const HEADER: usize = 8 << 10;

/// Connections to `/metrics`, and as many to the probes. One Prometheus and one kubelet need one or two.
const FEW: usize = 32;
/// Connections to the webhook. An API server keeps a few dozen open, and there are three or five of them.
const MANY: usize = 512;
/// Of those, from one address: room for an API server under load, or for several of them behind one proxy.
const OF_ONE_ADDRESS: usize = 64;

/// Bytes of all bodies that have been sent to the webhook and not been answered. A tenth of the memory limit of the
/// shipped Deployment, half as much again while bodies that grow are copied; 48 KiB for each connection, and most reviews have
/// less than 16.
pub const BODIES: usize = 24 << 20;
/// The longest body. Only what is created is reviewed, so a review holds one object. The largest one that etcd takes has
/// 1.5 MiB, and in JSON each `<`, `>` and `&` of it has six bytes: what can be stored can be reviewed.
const LONGEST_REVIEW: usize = 10 << 20;

/// TLS takes two round trips and a millisecond of work.
const HANDSHAKE: Duration = Duration::from_secs(1);
/// From the beginning of a connection, or from the first byte of a later request, to the last byte of that request. API
/// servers give up on a webhook after two seconds; who has not asked by then is not one of them, or has found out that it does
/// not need the connection.
const REQUEST: Duration = Duration::from_millis(1500);
/// From there until the answer is on its way: long enough for metrics through a slow tunnel.
const ANSWER: Duration = Duration::from_secs(5);
/// Longer than API servers keep an idle connection, so that it is they who close it: closed by us it could be just when a
/// request is on its way. Whoever is idle gives way to others all the same.
const IDLE: Duration = Duration::from_secs(180);

/// What one server allows.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The word of the metrics.
    pub server: &'static str,
    pub connections: usize,
    pub of_one_address: usize,
    /// The longest body, and how much of all bodies at a time. What has no use for bodies reads none.
    pub longest_body: usize,
    pub bodies: usize,
    pub handshake: Duration,
    pub request: Duration,
    pub answer: Duration,
    /// How long a connection is kept for the next request; none is where there is none.
    pub idle: Option<Duration>,
}

impl Limits {
    pub const METRICS: Limits = Limits::without_bodies("metrics");
    pub const HEALTH: Limits = Limits::without_bodies("health");
    pub const WEBHOOK: Limits = Limits {
        server: "webhook",
        connections: MANY,
        of_one_address: OF_ONE_ADDRESS,
        longest_body: LONGEST_REVIEW,
        bodies: BODIES,
        handshake: HANDSHAKE,
        request: REQUEST,
        answer: ANSWER,
        idle: Some(IDLE),
    };

    const fn without_bodies(server: &'static str) -> Limits {
        Limits {
            server,
            connections: FEW,
            of_one_address: FEW,
            longest_body: 0,
            bodies: 0,
            handshake: HANDSHAKE,
            request: REQUEST,
            answer: ANSWER,
            idle: None,
        }
    }
}
