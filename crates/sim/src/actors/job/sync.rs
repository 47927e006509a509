//! One sync of a Job: counts finished pods, decides whether the Job is finished, and manages its pods.

use super::backoff::Backoff;
use super::indexes::Indexes;
use super::{manage, pod, spec, track};
use crate::actors::common::{conditions, delete_this, moment, number, pods, text};
use crate::cluster::{Cluster, seconds};
use crate::server::refusal::Refusal;
use crate::store::{Key, Stored};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub type StoredPod = (Key, Arc<Stored>);

/// The state of one sync.
pub struct JobSync<'a> {
    pub key: &'a Key,
    pub job: &'a Stored,
    pub now: Timestamp,
    pub pods: Vec<StoredPod>,
    pub active: Vec<StoredPod>,
    /// The numbers for the status.
    pub active_count: i64,
    pub ready: i64,
    pub terminating: i64,
    /// The number of succeeded pods, including those that the status does not count yet.
    pub succeeded: i64,
    pub succeeded_indexes: Indexes,
    pub failed_indexes: Option<Indexes>,
    /// Failed pods that are kept until they are replaced, because they record how often their index failed.
    pub kept: BTreeMap<i64, StoredPod>,
    /// The condition of a Job that finishes: either the interim condition or the final one.
    pub finish: Option<Value>,
    pub status: Value,
    /// When to sync again even without changes.
    pub again: Option<Timestamp>,
}

pub fn condition(kind: &str, status: &str, reason: &str, message: &str, now: Timestamp) -> Value {
    let stamp = seconds(now);
    json!({
        "type": kind, "status": status, "lastProbeTime": stamp, "lastTransitionTime": stamp,
        "reason": reason, "message": message,
    })
}

pub fn sync(
    cluster: &mut Cluster,
    key: &Key,
    job: &Stored,
    pods: Vec<StoredPod>,
    backoff: &mut Backoff,
) -> (Result<(), Refusal>, Option<Timestamp>) {
    let mut sync = JobSync::new(cluster.now(), key, job, pods);
    let (succeeded, failed) = sync.newly_ended();
    backoff.take_in(&succeeded, &failed);
    let uncounted =
        |what: &str| sync.status["uncountedTerminatedPods"][what].as_array().map_or(0, Vec::len) as i64;
    let all_failed = number(&job["status"]["failed"]) + failed.len() as i64 + uncounted("failed");
    sync.succeeded = number(&job["status"]["succeeded"]) + succeeded.len() as i64 + uncounted("succeeded");
    if sync.status["startTime"].is_null() && !spec::is_suspended(job) {
        sync.status["startTime"] = seconds(sync.now).into();
    }
    sync.decide_finish(all_failed);
    let outcome = match sync.finish.is_some() {
        true => {
            sync.end_active(cluster);
            Ok(())
        }
        false => sync.manage_pods(cluster, backoff),
    };
    let tracked = track::track(cluster, &mut sync);
    (outcome.and(tracked), sync.again)
}

impl<'a> JobSync<'a> {
    fn new(now: Timestamp, key: &'a Key, job: &'a Stored, pods: Vec<StoredPod>) -> JobSync<'a> {
        let active: Vec<StoredPod> = pods.iter().filter(|(_, pod)| pods::is_active(pod)).cloned().collect();
        let mut status = job["status"].clone();
        if !status.is_object() {
            status = json!({});
        }
        if !status["uncountedTerminatedPods"].is_object() {
            status["uncountedTerminatedPods"] = json!({});
        }
        let count = |pods: &[StoredPod], holds: &dyn Fn(&Stored) -> bool| {
            pods.iter().filter(|(_, pod)| holds(pod)).count() as i64
        };
        JobSync {
            active_count: active.len() as i64,
            ready: count(&active, &|pod| pods::is_ready(pod)),
            terminating: count(&pods, &|pod| pod.is_terminating() && !pods::is_over(pod)),
            succeeded: 0,
            succeeded_indexes: Indexes::default(),
            failed_indexes: None,
            kept: BTreeMap::new(),
            finish: None,
            again: None,
            key,
            job,
            now,
            pods,
            active,
            status,
        }
    }

    /// Pods of this Job that have not been counted yet.
    pub fn uncounted(&self) -> impl Iterator<Item = &StoredPod> {
        let indexed = spec::is_indexed(self.job);
        self.pods
            .iter()
            .filter(move |(_, pod)| pod::is_tracked(pod) && (!indexed || pod::index(self.job, pod).is_some()))
    }

    /// The succeeded and the failed pods that are not in the status yet.
    fn newly_ended(&self) -> (Vec<Arc<Stored>>, Vec<Arc<Stored>>) {
        let listed: BTreeSet<&str> = ["succeeded", "failed"]
            .iter()
            .flat_map(|what| self.status["uncountedTerminatedPods"][*what].as_array().into_iter().flatten())
            .filter_map(Value::as_str)
            .collect();
        let fresh = || self.uncounted().filter(|(_, pod)| !listed.contains(pod.uid()));
        let take = |holds: &dyn Fn(&Stored) -> bool| {
            fresh().filter(|(_, pod)| holds(pod)).map(|(_, pod)| pod.clone()).collect()
        };
        (take(&|pod| pods::is_succeeded(pod)), take(&|pod| pod::is_failed(self.job, pod)))
    }

    fn plan_again(&mut self, at: Timestamp) {
        self.again = Some(self.again.map_or(at, |known| known.min(at)));
    }

    /// Decides whether the Job is finished, from its conditions or from new failures.
    fn decide_finish(&mut self, failed: i64) {
        let job = self.job;
        let known = |kind: &str| conditions::find(&job["status"], kind).filter(|is| is["status"] == "True");
        if let Some(met) = known("SuccessCriteriaMet") {
            self.finish = Some(met.clone());
        } else if let Some(target) = known("FailureTarget") {
            let (reason, message) = (text(&target["reason"]), text(&target["message"]));
            self.finish = Some(condition("Failed", "True", reason, message, self.now));
        }
        let fail = |reason, message| Some(condition("FailureTarget", "True", reason, message, self.now));
        if self.finish.is_none() {
            let pods = self.pods.iter().map(|(_, pod)| &pod.value);
            if failed > spec::backoff_limit(job) || spec::is_past_restarts(job, pods) {
                self.finish = fail("BackoffLimitExceeded", "Job has reached the specified backoff limit");
            } else if let Some(deadline) = self.deadline() {
                match deadline <= self.now {
                    true => {
                        let message = "Job was active longer than specified deadline";
                        self.finish = fail("DeadlineExceeded", message);
                    }
                    false => self.plan_again(deadline),
                }
            }
        }
        if spec::is_indexed(job) {
            self.judge_indexes();
        }
    }

    fn deadline(&self) -> Option<Timestamp> {
        let seconds = self.job["spec"]["activeDeadlineSeconds"].as_i64()?;
        if spec::is_suspended(self.job) {
            return None;
        }
        moment(&self.status["startTime"])?.checked_add(SignedDuration::from_secs(seconds)).ok()
    }

    fn judge_indexes(&mut self) {
        let job = self.job;
        let completions = spec::completions(job).unwrap_or_default();
        let mut succeeded = Indexes::parse(text(&job["status"]["completedIndexes"]), completions);
        let ended = self.uncounted().filter(|(_, pod)| pods::is_succeeded(pod));
        succeeded.0.extend(ended.filter_map(|(_, pod)| pod::index(job, pod)));
        self.succeeded = succeeded.len();
        self.succeeded_indexes = succeeded;
        let Some(limit) = spec::per_index_limit(job) else { return };
        let mut failed = Indexes::parse(text(&job["status"]["failedIndexes"]), completions);
        let over =
            self.uncounted().filter(|(_, pod)| pod::is_failed(job, pod) && pod::failures(pod) >= limit);
        failed.0.extend(over.filter_map(|(_, pod)| pod::index(job, pod)));
        if self.finish.is_none() {
            let fail = |reason, message| Some(condition("FailureTarget", "True", reason, message, self.now));
            if job["spec"]["maxFailedIndexes"].as_i64().is_some_and(|most| failed.len() > most) {
                let message = "Job has exceeded the specified maximal number of failed indexes";
                self.finish = fail("MaxFailedIndexesExceeded", message);
            } else if failed.len() > 0 && failed.len() + self.succeeded >= completions {
                self.finish = fail("FailedIndexes", "Job has failed indexes");
            }
        }
        self.failed_indexes = Some(failed);
        self.keep_last_failures();
    }

    /// Keeps the pod that failed last for each index that will be retried.
    fn keep_last_failures(&mut self) {
        let job = self.job;
        let active: BTreeSet<i64> = self.active.iter().filter_map(|(_, pod)| pod::index(job, pod)).collect();
        let mut kept: BTreeMap<i64, StoredPod> = BTreeMap::new();
        for (key, one) in self.uncounted().filter(|(_, pod)| pod::is_failed(job, pod)) {
            let Some(index) = pod::index(job, one) else { continue };
            let is_over = self.failed_indexes.as_ref().is_some_and(|failed| failed.has(index));
            if is_over || self.succeeded_indexes.has(index) || active.contains(&index) {
                continue;
            }
            let rank = |pod: &Stored| (pod::failures(pod), pod::ended(pod));
            if kept.get(&index).is_none_or(|(_, known)| rank(known) <= rank(one)) {
                kept.insert(index, (key.clone(), one.clone()));
            }
        }
        self.kept = kept;
    }

    /// Deletes the running pods of a finished Job.
    fn end_active(&mut self, cluster: &mut Cluster) {
        for (key, pod) in &self.active {
            delete_this(cluster, key, pod);
        }
        self.terminating += self.active_count;
        self.active_count = 0;
        self.ready = 0;
    }

    /// Creates and deletes pods, and checks whether the Job has succeeded.
    fn manage_pods(&mut self, cluster: &mut Cluster, backoff: &Backoff) -> Result<(), Refusal> {
        if self.job.is_terminating() {
            return Ok(());
        }
        let outcome = manage::manage(cluster, self, backoff);
        let enough = match spec::completions(self.job) {
            Some(completions) => self.succeeded >= completions,
            None => self.succeeded > 0,
        };
        if enough && self.active_count == 0 {
            let message = "Reached expected number of succeeded pods";
            self.finish =
                Some(condition("SuccessCriteriaMet", "True", "CompletionsReached", message, self.now));
        } else {
            self.note_suspension();
        }
        outcome
    }

    fn note_suspension(&mut self) {
        let was = conditions::find(&self.status, "Suspended").map(|is| is["status"] == "True");
        match (spec::is_suspended(self.job), was) {
            (true, None | Some(false)) => {
                let suspended = condition("Suspended", "True", "JobSuspended", "Job suspended", self.now);
                put(&mut self.status, suspended);
                if let Some(status) = self.status.as_object_mut() {
                    status.remove("startTime");
                }
            }
            (false, Some(true)) => {
                let resumed = condition("Suspended", "False", "JobResumed", "Job resumed", self.now);
                put(&mut self.status, resumed);
                self.status["startTime"] = seconds(self.now).into();
            }
            (true, Some(true)) | (false, None | Some(false)) => {}
        }
    }
}

/// Replaces the condition of the same type, or appends the condition.
pub fn put(status: &mut Value, condition: Value) {
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(list) = status["conditions"].as_array_mut() else { return };
    match list.iter_mut().find(|is| is["type"] == condition["type"]) {
        Some(is) => *is = condition,
        None => list.push(condition),
    }
}
