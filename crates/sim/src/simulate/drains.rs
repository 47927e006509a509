//! Drains: evict pods as far as their budgets allow, and retry rejected evictions as kubectl does.

use crate::cluster::Cluster;
use crate::server::delete::DeleteOptions;
use crate::server::eviction::evict;
use crate::store::Key;
use serde_json::json;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The retry interval of kubectl.
const TRY_EVERY: Duration = Duration::from_secs(5);
/// A drain without a successful eviction for this long counts as stuck.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(60);

/// The drains of a run.
#[derive(Clone, Default)]
pub struct Drains(Arc<Mutex<Vec<Drain>>>);

struct Drain {
    node: String,
    /// The pods that are still to be evicted, by key and uid.
    left: Vec<(Key, String)>,
    last_try: Instant,
    last_progress: Instant,
    /// Why the first of these pods cannot be evicted.
    refusal: String,
}

impl Drain {
    fn is_under_way(&self) -> bool {
        !self.left.is_empty() && self.last_try.duration_since(self.last_progress) < GIVEN_UP_AFTER
    }

    fn evict(&mut self, cluster: &mut Cluster) {
        self.last_try = Instant::now();
        self.refusal.clear();
        for (key, uid) in std::mem::take(&mut self.left) {
            // The pod was deleted meanwhile, possibly replaced by another one with the same name.
            let there = cluster.store.get(&key).is_some_and(|pod| pod.uid() == uid && !pod.is_terminating());
            if !there {
                self.last_progress = self.last_try;
                continue;
            }
            let eviction = json!({ "metadata": { "name": &*key.name } });
            match evict(cluster, &key, &eviction, &DeleteOptions::default()) {
                Err(refusal) if refusal.code == 429 => {
                    if self.refusal.is_empty() {
                        let cause = &refusal.details["causes"][0]["message"];
                        self.refusal = cause.as_str().unwrap_or(&refusal.message).to_owned();
                    }
                    self.left.push((key, uid));
                }
                Ok(()) | Err(_) => self.last_progress = self.last_try,
            }
        }
    }
}

impl Drains {
    fn all(&self) -> MutexGuard<'_, Vec<Drain>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn begin(&self, cluster: &mut Cluster, node: &str, pods: Vec<(Key, String)>) {
        let now = Instant::now();
        let (node, refusal) = (node.to_owned(), String::new());
        let mut drain = Drain { node, left: pods, last_try: now, last_progress: now, refusal };
        drain.evict(cluster);
        self.all().push(drain);
    }

    /// The time of the next eviction attempt.
    pub fn next_try(&self) -> Option<Instant> {
        self.all().iter().filter(|drain| drain.is_under_way()).map(|drain| drain.last_try + TRY_EVERY).min()
    }

    pub fn try_again(&self, cluster: &mut Cluster) {
        let now = Instant::now();
        for drain in self.all().iter_mut().filter(|drain| drain.is_under_way()) {
            if drain.last_try + TRY_EVERY <= now {
                drain.evict(cluster);
            }
        }
    }

    pub fn are_under_way(&self) -> bool {
        self.all().iter().any(Drain::is_under_way)
    }

    /// Notes on drains that did not finish.
    pub fn notes(&self) -> Vec<String> {
        let stuck = |drain: &Drain| {
            let (first, _) = drain.left.first()?;
            let Drain { node, refusal, .. } = drain;
            Some(format!("the drain of {node} is stuck: pod {} cannot be evicted. {refusal}", first.name))
        };
        self.all().iter().filter_map(stuck).collect()
    }
}
