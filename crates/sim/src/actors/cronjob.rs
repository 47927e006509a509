//! CronJobs: create a Job at every scheduled time.

use super::common::template::controller_reference;
use super::common::{born, conditions, controller_of, delete_this, is_controlled_by, moment, text};
use super::job::spec::is_finished;
use super::{Actor, Agenda};
use crate::cluster::{Cluster, seconds};
use crate::kinds::Kind;
use crate::server::refusal::Refusal;
use crate::store::{Change, Key, Stored};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use rollcall_core::schedule::Schedule;
use serde_json::{Map, Value, json};
use std::sync::Arc;

const SCHEDULED_AT: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
/// Delay of a run after its scheduled time, as in the real controller, because clocks differ slightly.
const LATE: SignedDuration = SignedDuration::from_millis(100);
/// Delay before a rejected run is retried.
const RETRY: SignedDuration = SignedDuration::from_secs(1);
/// Default numbers of succeeded and failed runs that are kept.
const HISTORY: (i64, i64) = (3, 1);

#[derive(Default)]
pub struct CronJobs {
    agenda: Agenda,
}

impl Actor for CronJobs {
    fn on_change(&mut self, change: &Change, cluster: &Cluster) {
        match change.key.kind {
            Kind::CronJob if change.deleted => self.agenda.forget(&change.key),
            Kind::CronJob => self.agenda.add(change.key.clone()),
            Kind::Job => {
                let owner = controller_of(&change.object).filter(|owner| owner["kind"] == "CronJob");
                if let Some(owner) = owner {
                    let key = Key::new(Kind::CronJob, &change.key.namespace, text(&owner["name"]));
                    if cluster.store.get(&key).is_some_and(|cron| owner["uid"] == cron.uid()) {
                        self.agenda.add(key);
                    }
                }
            }
            _ => {}
        }
    }

    fn act(&mut self, cluster: &mut Cluster) -> Option<Timestamp> {
        while let Some(key) = self.agenda.pop(cluster.now()) {
            let Some(cron) = cluster.store.get(&key).cloned() else { continue };
            if let Some(at) = reconcile(cluster, &key, &cron) {
                self.agenda.add_at(at, key);
            }
        }
        self.agenda.next_moment()
    }
}

type Run = (Key, Arc<Stored>);

/// Reconciles a CronJob. Returns the time of the next reconciliation.
fn reconcile(cluster: &mut Cluster, key: &Key, cron: &Stored) -> Option<Timestamp> {
    let runs: Vec<Run> = cluster
        .store
        .owned(cron.uid(), Kind::Job)
        .filter(|(_, run)| is_controlled_by(run, cron.uid()))
        .map(|(key, run)| (key.clone(), run.clone()))
        .collect();
    let mut status = cron["status"].as_object().cloned().unwrap_or_default();
    note_finished(&mut status, &runs);
    let again = match cron.is_terminating() || cron["spec"]["suspend"] == true {
        true => None,
        false => start(cluster, key, cron, &mut status),
    };
    clean_up(cluster, cron, &mut status, &runs);
    super::common::write_status(cluster, key, status.into());
    again
}

fn active(status: &Map<String, Value>) -> Vec<Value> {
    status.get("active").and_then(Value::as_array).cloned().unwrap_or_default()
}

fn set_active(status: &mut Map<String, Value>, active: Vec<Value>) {
    match active.is_empty() {
        true => drop(status.remove("active")),
        false => drop(status.insert("active".into(), active.into())),
    }
}

fn succeeded(run: &Value) -> bool {
    conditions::is_true(&run["status"], "Complete")
}

/// Removes finished and deleted runs from the list of active runs, and records the last success.
fn note_finished(status: &mut Map<String, Value>, runs: &[Run]) {
    let mut left = active(status);
    left.retain(|reference| {
        let run = runs.iter().find(|(_, run)| reference["uid"] == run.uid());
        run.is_some_and(|(_, run)| !is_finished(run))
    });
    set_active(status, left);
    let completed = |run: &Value| moment(&run["status"]["completionTime"]).filter(|_| succeeded(run));
    let last = runs.iter().filter_map(|(_, run)| completed(run)).max();
    let known = status.get("lastSuccessfulTime").and_then(moment);
    if let Some(last) = last.filter(|last| known.is_none_or(|known| *last > known)) {
        status.insert("lastSuccessfulTime".into(), seconds(last).into());
    }
}

/// Starts the run that is due. Returns the time of the next run.
fn start(
    cluster: &mut Cluster,
    key: &Key,
    cron: &Stored,
    status: &mut Map<String, Value>,
) -> Option<Timestamp> {
    let now = cluster.now();
    let zone = match text(&cron["spec"]["timeZone"]) {
        "" => TimeZone::UTC,
        // A CronJob with an unknown time zone starts no runs.
        name => TimeZone::get(name).ok()?,
    };
    let schedule = Schedule::parse(text(&cron["spec"]["schedule"])).ok()?;
    let last = |status: &Map<String, Value>| status.get("lastScheduleTime").and_then(moment);
    let since = last(status).or_else(|| born(cron)).unwrap_or(now);
    let deadline = cron["spec"]["startingDeadlineSeconds"].as_i64().map(SignedDuration::from_secs);
    let earliest =
        deadline.and_then(|deadline| now.checked_sub(deadline).ok()).map_or(since, |at| at.max(since));
    if let Some(due) = latest_due(&schedule, &zone, earliest, now)
        && last(status) != Some(due)
    {
        match start_at(cluster, key, cron, status, due, &zone) {
            Ok(()) => {}
            Err(_) => return now.checked_add(RETRY).ok(),
        }
    }
    let from = latest_due(&schedule, &zone, last(status).unwrap_or(since), now).unwrap_or(since);
    schedule.next(from, &zone)?.checked_add(LATE).ok().map(|at| if at > now { at } else { now + LATE })
}

/// The latest scheduled time after `since` that is not in the future.
fn latest_due(schedule: &Schedule, zone: &TimeZone, since: Timestamp, now: Timestamp) -> Option<Timestamp> {
    let first = schedule.next(since, zone).filter(|first| *first <= now)?;
    let second = schedule.next(first, zone)?;
    if second > now {
        return Some(first);
    }
    // Many runs may have been missed. Most of that time is skipped in whole periods.
    let period = second.duration_since(first).as_secs().max(1);
    let missed = now.duration_since(first).as_secs() / period;
    let near = first.checked_add(SignedDuration::from_secs((missed - 1) * period)).unwrap_or(first);
    let mut due = None;
    let mut at = schedule.next(near, zone);
    while let Some(next) = at.filter(|next| *next <= now) {
        due = Some(next);
        at = schedule.next(next, zone);
    }
    due
}

fn start_at(
    cluster: &mut Cluster,
    key: &Key,
    cron: &Stored,
    status: &mut Map<String, Value>,
    due: Timestamp,
    zone: &TimeZone,
) -> Result<(), Refusal> {
    let running = active(status);
    match text(&cron["spec"]["concurrencyPolicy"]) {
        "Forbid" if !running.is_empty() => return Ok(()),
        "Replace" => {
            for reference in &running {
                let run = Key::new(Kind::Job, &key.namespace, text(&reference["name"]));
                if let Some(object) = cluster.store.get(&run).cloned() {
                    delete_this(cluster, &run, &object);
                }
            }
            set_active(status, Vec::new());
        }
        _ => {}
    }
    let run = match cluster.create(Kind::Job, draft(key, cron, due, zone)) {
        Ok(run) => run,
        Err(refusal) if refusal.reason == "AlreadyExists" => return Ok(()),
        Err(refusal) => return Err(refusal),
    };
    let mut running = active(status);
    running.push(json!({
        "kind": "Job", "namespace": &*key.namespace, "name": run["metadata"]["name"], "uid": run.uid(),
        "apiVersion": "batch/v1", "resourceVersion": run["metadata"]["resourceVersion"],
    }));
    set_active(status, running);
    status.insert("lastScheduleTime".into(), seconds(due).into());
    Ok(())
}

/// The Job of a scheduled time, not created yet.
fn draft(key: &Key, cron: &Stored, due: Timestamp, zone: &TimeZone) -> Value {
    let template = &cron["spec"]["jobTemplate"];
    let local = due.to_zoned(zone.clone());
    let stamp = match *zone == TimeZone::UTC {
        true => seconds(due),
        false => local.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
    };
    let mut run = json!({
        "metadata": {
            "namespace": &*key.namespace, "name": format!("{}-{}", key.name, due.as_second() / 60),
            "annotations": template["metadata"]["annotations"].as_object().cloned().unwrap_or_default(),
            "ownerReferences": [controller_reference(key, cron)],
        },
        "spec": template["spec"],
    });
    run["metadata"]["annotations"][SCHEDULED_AT] = stamp.into();
    if !template["metadata"]["labels"].is_null() {
        run["metadata"]["labels"] = template["metadata"]["labels"].clone();
    }
    run
}

/// Deletes the oldest finished runs beyond the limits.
fn clean_up(cluster: &mut Cluster, cron: &Stored, status: &mut Map<String, Value>, runs: &[Run]) {
    let limit = |field: &str, default| cron["spec"][field].as_i64().unwrap_or(default);
    for (good, keep) in [
        (true, limit("successfulJobsHistoryLimit", HISTORY.0)),
        (false, limit("failedJobsHistoryLimit", HISTORY.1)),
    ] {
        let mut finished: Vec<&Run> =
            runs.iter().filter(|(_, run)| is_finished(run) && succeeded(run) == good).collect();
        finished.sort_by_key(|(key, run)| {
            let started = moment(&run["status"]["startTime"]);
            (started.is_none(), started, key.clone())
        });
        let surplus = (finished.len() as i64 - keep).max(0) as usize;
        for (key, run) in finished.into_iter().take(surplus).filter(|(_, run)| !run.is_terminating()) {
            delete_this(cluster, key, run);
            let left = active(status).into_iter().filter(|reference| reference["uid"] != run.uid()).collect();
            set_active(status, left);
        }
    }
}
