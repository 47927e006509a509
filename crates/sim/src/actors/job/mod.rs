//! Jobs: run pods until enough of them succeed.
//!
//! - [`spec`]: the spec with its defaults. [`pod`]: the pods. [`indexes`]: sets of indexes. [`backoff`]: back-off after
//!   failures.
//! - [`sync`]: one sync of a Job. [`manage`]: creates and deletes pods. [`track`]: counts each finished pod exactly once.
//! - [`expiry`]: deletes finished Jobs after their TTL.

mod backoff;
pub mod expiry;
mod indexes;
mod manage;
mod pod;
pub mod spec;
mod sync;
mod track;

use super::Actor;
use super::common::controller_of;
use super::common::family::Family;
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::store::{Change, Key};
use backoff::Backoff;
use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// Changes of pods are batched for this long before a sync, as in the real controller.
const BATCH: SignedDuration = SignedDuration::from_secs(1);

pub struct Jobs {
    family: Family,
    /// The failures since the last success, by Job.
    backoffs: BTreeMap<Key, Backoff>,
    /// Pods with the tracking finalizer of a Job that is deleted or finished.
    orphans: BTreeSet<Key>,
}

impl Default for Jobs {
    fn default() -> Jobs {
        let family = Family::new(Kind::Job, Kind::Pod).batched(BATCH);
        Jobs { family, backoffs: BTreeMap::new(), orphans: BTreeSet::new() }
    }
}

impl Actor for Jobs {
    fn on_change(&mut self, change: &Change, cluster: &Cluster) {
        self.family.on_change(change, cluster);
        match change.key.kind {
            Kind::Job if change.deleted => {
                self.backoffs.remove(&change.key);
                let pods = cluster.store.owned(change.object.uid(), Kind::Pod);
                self.orphans.extend(pods.map(|(key, _)| key.clone()));
            }
            Kind::Pod if !change.deleted && pod::is_tracked(&change.object) => {
                let owner = self.family.owner(cluster, &change.object);
                let waits =
                    owner.and_then(|key| cluster.store.get(&key)).is_some_and(|job| !spec::is_finished(job));
                let ours = controller_of(&change.object).is_none_or(|owner| owner["kind"] == "Job");
                if ours && !waits {
                    self.orphans.insert(change.key.clone());
                }
            }
            _ => {}
        }
    }

    fn act(&mut self, cluster: &mut Cluster) -> Option<Timestamp> {
        while let Some(pod) = self.orphans.pop_first() {
            track::let_go(cluster, &pod);
        }
        while let Some(key) = self.family.agenda.pop(cluster.now()) {
            let Some(job) = cluster.store.get(&key).cloned() else { continue };
            if spec::is_finished(&job) {
                self.backoffs.remove(&key);
                continue;
            }
            let pods = self.family.claim(cluster, &key, &job, |_| true);
            let backoff = self.backoffs.entry(key.clone()).or_default();
            let (outcome, again) = sync::sync(cluster, &key, &job, pods, backoff);
            if let Some(at) = again {
                self.family.agenda.add_at(at, key.clone());
            }
            match outcome {
                Ok(()) => self.family.succeeded(&key),
                Err(_) => self.family.retry(cluster.now(), key),
            }
        }
        self.family.agenda.next_moment()
    }
}
