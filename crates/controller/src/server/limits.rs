//! The limits of each server, with reasons. Untrusted clients can reach all three ports; these numbers bound the resources they
//! can use.

use std::time::Duration;

/// Longest header; longer ones are answered with 431. API servers, kubelets and Prometheus send less than 1 KiB, or less than 4
/// KiB with a bearer token. A smaller limit is not possible: hyper reads in pieces of this size.
pub const HEADER: usize = 8 << 10;

/// Connections to `/metrics`, and the same number to the probes. One Prometheus and one kubelet need one or two.
const PLAIN_CONNECTIONS: usize = 32;
/// Connections to the webhook. An API server keeps a few dozen open, and a cluster has three or five API servers.
const WEBHOOK_CONNECTIONS: usize = 512;
/// Connections to the webhook from one address: enough for an API server under load, or for several behind one proxy.
const OF_ONE_ADDRESS: usize = 64;

/// Bytes of all unanswered requests to the webhook: a tenth of the memory limit of the shipped Deployment, or 15 % while
/// growing bodies are copied. That is 48 KiB per connection, and most reviews have less than 16 KiB.
pub const BODIES: usize = 24 << 20;
/// The longest body. Only creations are reviewed, so a review contains one object. The largest object that etcd stores has 1.5
/// MiB, and JSON may encode each `<`, `>` and `&` in six bytes. So every object that can be stored can be reviewed.
const LONGEST_REVIEW: usize = 10 << 20;

/// Time limit for the TLS handshake, which takes two round trips and a millisecond of work.
const HANDSHAKE: Duration = Duration::from_secs(1);
/// Time limit for receiving a request. It starts with the connection, or with the first byte of a later request. API servers
/// give up on a webhook after two seconds. A client that has sent no request by then is not an API server, or does not need the
/// connection.
const REQUEST: Duration = Duration::from_millis(1500);
/// Time limit from there until the answer is sent: long enough for metrics through a slow tunnel.
const ANSWER: Duration = Duration::from_secs(5);
/// Time limit for idle connections. It is longer than that of API servers, so that they close the connection: if we did, a
/// request could be on its way. Idle connections still give way to new ones when the server is full.
const IDLE: Duration = Duration::from_secs(180);

/// The limits of one server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The value of the metric label `server`.
    pub server: &'static str,
    pub connections: usize,
    pub of_one_address: usize,
    /// The longest body. `bodies`: the bytes of all bodies together. Both are 0 for servers that do not read bodies.
    pub longest_body: usize,
    pub bodies: usize,
    pub handshake: Duration,
    pub request: Duration,
    pub answer: Duration,
    /// How long a connection stays open for the next request. `None`: it closes after the first.
    pub idle: Option<Duration>,
}

impl Limits {
    pub const METRICS: Limits = Limits::without_bodies("metrics");
    pub const HEALTH: Limits = Limits::without_bodies("health");
    pub const WEBHOOK: Limits = Limits {
        server: "webhook",
        connections: WEBHOOK_CONNECTIONS,
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
            connections: PLAIN_CONNECTIONS,
            of_one_address: PLAIN_CONNECTIONS,
            longest_body: 0,
            bodies: 0,
            handshake: HANDSHAKE,
            request: REQUEST,
            answer: ANSWER,
            idle: None,
        }
    }
}
