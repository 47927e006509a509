//! What is worth knowing though it keeps nothing from starting.

use super::timeline::Life;
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::report::SequenceReport;
use rollcall_core::index::SequenceEntry;
use std::collections::BTreeMap;

/// Members that nothing holds while their group is closed: somebody forgot the gate.
pub fn without_gate(entry: &SequenceEntry, report: &SequenceReport, lives: &[Life]) -> Vec<String> {
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
                "nothing holds {pods} of \"{}\" ({whose}): put the gate {} into spec.schedulingGates there",
                group.name, spec.gate
            ));
        }
    }
    notes
}

/// CronJobs whose time has not come.
pub fn not_run(cluster: &Cluster) -> Vec<String> {
    let all = cluster.store.list(Kind::CronJob, None);
    let waiting = all
        .filter(|(_, cron)| cron["spec"]["suspend"] != true && cron["status"]["lastScheduleTime"].is_null());
    waiting
        .map(|(key, cron)| {
            let schedule = cron["spec"]["schedule"].as_str().unwrap_or_default();
            format!("CronJob/{} has not run: its next time on the schedule \"{schedule}\" is later", key.name)
        })
        .collect()
}
