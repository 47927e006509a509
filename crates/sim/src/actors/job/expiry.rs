//! Deletes finished Jobs after their TTL.

use super::spec::is_finished;
use crate::actors::common::{conditions, moment};
use crate::actors::{Actor, Agenda};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::server::delete::{DeleteOptions, Propagation, delete};
use crate::store::Change;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

#[derive(Default)]
pub struct FinishedJobs {
    agenda: Agenda,
}

impl Actor for FinishedJobs {
    fn on_change(&mut self, change: &Change, _: &Cluster) {
        if change.key.kind != Kind::Job {
            return;
        }
        self.agenda.forget(&change.key);
        if let Some(at) = change.after().filter(|job| !job.is_terminating()).and_then(|job| expires(job)) {
            self.agenda.add_at(at, change.key.clone());
        }
    }

    fn act(&mut self, cluster: &mut Cluster) -> Option<Timestamp> {
        while let Some(key) = self.agenda.pop(cluster.now()) {
            let Some(job) = cluster.store.get(&key) else { continue };
            let uid = Some(job.uid().to_owned());
            let options =
                DeleteOptions { uid, propagation: Some(Propagation::Foreground), ..DeleteOptions::default() };
            // The uid prevents the deletion of a new Job with the same name.
            let _ = delete(cluster, &key, &options);
        }
        self.agenda.next_moment()
    }
}

/// When a finished Job must be deleted.
fn expires(job: &Value) -> Option<Timestamp> {
    let seconds = job["spec"]["ttlSecondsAfterFinished"].as_i64().filter(|_| is_finished(job))?;
    let of = |kind| conditions::find(&job["status"], kind).filter(|is| is["status"] == "True");
    let finished = moment(&of("Complete").or_else(|| of("Failed"))?["lastTransitionTime"])?;
    finished.checked_add(SignedDuration::from_secs(seconds)).ok()
}
