//! Notes of a report: remarks that do not block anything.

use super::facts;
use super::timeline::PodLife;
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::report::SequenceReport;
use crate::store::{Key, Stored};
use rollcall_api::watch::OwnerObject;
use rollcall_core::facts::{Owner, OwnerKind};
use rollcall_core::sequence::evaluate;
use rollcall_core::sequence::index::SequenceEntry;
use rollcall_core::sequence::membership::Asking;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Notes on members without the gate although their group must wait, probably by mistake.
pub fn without_gate(entry: &SequenceEntry, report: &SequenceReport, lives: &[PodLife]) -> Vec<String> {
    let Some(spec) = entry.spec() else { return Vec::new() };
    let mut notes = Vec::new();
    for group in report.groups.iter().filter(|group| !group.waits_for.is_empty()) {
        let mut free: BTreeMap<String, usize> = BTreeMap::new();
        for life in group.pods.iter().map(|place| &lives[*place]) {
            if !life.facts.gates.contains(&spec.gate) {
                *free.entry(life.workload().unwrap_or_else(|| format!("pod/{}", life.name))).or_default() +=
                    1;
            }
        }
        for (whose, number) in free {
            let pods = if number == 1 { "1 pod".into() } else { format!("{number} pods") };
            notes.push(format!(
                "the sequence does not hold {pods} of \"{}\" ({whose}): add the gate {} to spec.schedulingGates",
                group.name, spec.gate
            ));
        }
    }
    notes
}

/// CronJobs whose first scheduled time is in the future.
pub fn not_run(cluster: &Cluster) -> Vec<String> {
    cron_jobs_not_run(cluster)
        .map(|(key, cron)| {
            let schedule = cron["spec"]["schedule"].as_str().unwrap_or_default();
            format!(
                "CronJob/{} has not run: the schedule \"{schedule}\" is not due within the simulated time",
                key.name
            )
        })
        .collect()
}

/// Whether an incomplete group waits for pods of a CronJob that has not run yet. The sequence is then not stuck.
pub fn awaits_a_cron_job(cluster: &Cluster) -> bool {
    let index = facts::index(cluster);
    cron_jobs_not_run(cluster).filter_map(|(key, stored)| as_maker_of_pods(key, stored)).any(|cron_job| {
        index.sequences.iter().any(|entry| {
            let Some(spec) = entry.spec() else { return false };
            let asking = Asking { namespace: &entry.sequence.namespace, name: &entry.sequence.name, spec };
            let views = evaluate(index.facts(), entry, cluster.now()).groups;
            views.iter().enumerate().any(|(group, view)| !view.complete && asking.includes(group, &cron_job))
        })
    })
}

/// The CronJob as an owner of pods, with the pod template inside its Job template.
fn as_maker_of_pods(key: &Key, cron_job: &Stored) -> Option<Owner> {
    let job = OwnerObject::deserialize(&cron_job["spec"]["jobTemplate"]).ok()?;
    let template = job.facts(OwnerKind::CronJob);
    Some(Owner { namespace: key.namespace.clone(), name: key.name.clone(), ..template })
}

fn cron_jobs_not_run(cluster: &Cluster) -> impl Iterator<Item = (&Key, &Arc<Stored>)> {
    let all = cluster.store.list(Kind::CronJob, None);
    all.filter(|(_, cron)| cron["spec"]["suspend"] != true && cron["status"]["lastScheduleTime"].is_null())
}
