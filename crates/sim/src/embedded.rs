//! The complete embedded cluster: its state, the API server and the actors.

use crate::actors::{self, Actor};
use crate::cluster::Cluster;
use crate::server::{Server, Shared};
use crate::store::Author;
use jiff::{SignedDuration, Timestamp};
use rollcall_api::names;
use rollcall_controller::Config;
use rollcall_controller::clock::Clock;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Limit of rounds of the actors at one instant. Exceeding it means that two actors keep undoing each other's work.
const TURNS: usize = 100_000;
/// Lease duration of the controller.
pub const LEASE: Duration = Duration::from_secs(15);

/// Configuration of the embedded controller: as in production, but without servers and without leader election.
pub fn config(identity: &str, seed: u64) -> Config {
    Config {
        namespace: names::OWN_NAMESPACE.into(),
        full: false,
        taint_prefix: rollcall_core::sequence::keys::PREFIX,
        metrics_bind_address: None,
        health_probe_bind_address: None,
        leader_elect: false,
        lease_duration: LEASE,
        identity: identity.into(),
        max_in_flight: 8,
        reservations: false,
        guardians: rollcall_controller::plain_guardians(),
        dry_run: false,
        seed,
    }
}

pub struct Embedded {
    pub shared: Arc<Shared>,
    clock: Clock,
    actors: Vec<Box<dyn Actor>>,
}

impl Embedded {
    /// Creates a cluster without nodes.
    pub fn new(clock: Clock, seed: u64) -> Embedded {
        Embedded { shared: Shared::new(Cluster::new(clock, seed)), clock, actors: actors::all() }
    }

    /// An ordinary client for this cluster. Its commits are attributed to `author`.
    pub fn client(&self, author: Author) -> kube::Client {
        kube::Client::new(Server::new(self.shared.clone(), author), "default")
    }

    /// Runs the actors indefinitely.
    pub async fn run(mut self) {
        loop {
            let next = self.settle();
            let moment = next.map(|at| self.instant_of(at));
            tokio::select! {
                biased;
                () = self.shared.changed() => {}
                () = sleep_until(moment) => {}
            }
        }
    }

    /// Lets the actors act until none has more to do at this instant. Returns the time of the next action.
    fn settle(&mut self) -> Option<Timestamp> {
        let shared = self.shared.clone();
        let mut cluster = shared.lock();
        for _ in 0..TURNS {
            while let Some(change) = cluster.store.next_news() {
                self.actors.iter_mut().for_each(|actor| actor.on_change(&change, &cluster));
            }
            let before = cluster.store.version();
            let moments = self.actors.iter_mut().filter_map(|actor| actor.act(&mut cluster));
            let next = moments.min();
            if cluster.store.version() == before {
                return next;
            }
        }
        panic!("the actors of the embedded cluster do not settle");
    }

    fn instant_of(&self, at: Timestamp) -> Instant {
        let ahead = at.duration_since(self.clock.now()).max(SignedDuration::ZERO);
        Instant::now() + Duration::try_from(ahead).unwrap_or_default()
    }
}

async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
