//! Stops the workloads of a sequence in reverse order.

use super::drive::{self, Drive, Look, Moment, Next, Wait, some};
use super::tiers::{self, Tier, tiers};
use super::world::{Workload, World};
use super::write::Write;
use super::{Begun, Common, begin, rights, stuck, warnings::warnings};
use crate::cli::{Access, program};
use crate::commands::target;
use crate::outcome::Outcome;
use crate::output;
use anyhow::{Result, bail};
use rollcall_api::names;
use rollcall_core::Uid;
use rollcall_core::facts::OwnerKind;
use rollcall_core::sequence::Spec;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeSet;

/// Stop the workloads of a sequence, in reverse order
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  rollcall stop shop --dry-run
  rollcall stop shop
  rollcall stop shop --from \"Application Layer\"

Deployments, StatefulSets and ReplicaSets are scaled to 0; Jobs and CronJobs are suspended. A group is stopped when
no pods remain in the groups that wait for it. The previous state is stored in an annotation of each workload
(rollcall.dev/before-stop), so the command can be interrupted and repeated; `rollcall start` restores it. DaemonSets
and pods without an owner are listed and not stopped.

Exit codes:
  0  stopped
  1  a stopped workload was started again, or a StatefulSet is stuck
  2  not possible; nothing was changed
  3  a group took longer than --timeout")]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
    /// Stop only this group, given by name or as "Group N", and all groups that wait for it
    #[arg(long, value_name = "GROUP")]
    from: Option<String>,
    /// Also delete pods without an owner; they are not re-created
    #[arg(long)]
    delete_pods: bool,
}

/// State of a workload before it was stopped, stored in the annotation `rollcall.dev/before-stop`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeforeStop {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
}

/// Groups to stop, and whether to delete pods without an owner.
struct StopRequest {
    groups: BTreeSet<usize>,
    delete_pods: bool,
}

pub async fn run(access: Access, arguments: Arguments) -> Result<Outcome> {
    let Arguments { common, from, delete_pods } = arguments;
    let Begun { connection, world, spec } = begin(&access, &common).await?;
    let wanted = StopRequest { groups: selected(&spec, &common.name, from.as_deref())?, delete_pods };
    let tiers = tiers(&world);
    let order: Vec<&Tier> = wanted.groups.iter().rev().map(|position| &tiers[*position]).collect();
    drive::warn(&warnings(&world, order.iter().copied()));
    refuse_loss_of_data(&world, &order)?;
    let writes: Vec<Write> = order.iter().flat_map(|tier| writes(&world, tier, delete_pods)).collect();
    rights::ask(&connection, world.namespace(), &writes).await?;
    if common.dry_run {
        let lines = |tier: &&Tier| {
            let writes = self::writes(&world, tier, delete_pods).into_iter().map(|write| write.says);
            (tier.title.clone(), writes.chain(stays(&world, tier, delete_pods)).collect())
        };
        let plan: Vec<_> = order.iter().map(lines).collect();
        let title = format!("podsequence/{} would be stopped, group by group:", common.name);
        output::data(&drive::plan(&title, &plan))?;
        return Ok(Outcome::Done);
    }
    order.iter().flat_map(|tier| stays(&world, tier, delete_pods)).for_each(output::note);
    let advice = vec![format!("to continue: {} stop {}", program(), common.name)];
    let timeout = common.timeout;
    let drive = Drive { connection: &connection, timeout, through: "is stopped", advice };
    let mut stopped = BTreeSet::new();
    let judge = |moment: Moment<'_>| {
        stopped.extend(moment.written);
        Ok(next(moment.world, &wanted, &mut stopped))
    };
    let outcome = drive.run(world, judge).await?;
    if outcome == Outcome::Done {
        output::note(format!(
            "podsequence/{} is stopped; to start it again: {} start {0}",
            common.name,
            program()
        ));
    }
    Ok(outcome)
}

/// A group and all groups that wait for it; without `from`, all groups.
fn selected(spec: &Spec, name: &str, from: Option<&str>) -> Result<BTreeSet<usize>> {
    let all = 0..spec.groups.len();
    let Some(from) = from else { return Ok(all.collect()) };
    let from = target::group(spec, name, "--from", from)?;
    Ok(all.filter(|group| *group == from || tiers::waits_for(spec, *group).contains(&from)).collect())
}

/// Rejects StatefulSets whose retention policy deletes their claims when they are scaled down.
fn refuse_loss_of_data(world: &World, tiers: &[&Tier]) -> Result<()> {
    let all = tiers.iter().flat_map(|tier| tier.workloads(world));
    let loses = |workload: &&Workload| {
        let policy = &workload.fields.spec.persistent_volume_claim_retention_policy;
        policy.when_scaled.as_deref() == Some("Delete") && workload.size() > 0
    };
    let titles: Vec<String> = all.filter(loses).map(Workload::title).collect();
    if let Some(first) = titles.first() {
        let retain = r#"{"spec":{"persistentVolumeClaimRetentionPolicy":{"whenScaled":"Retain"}}}"#;
        bail!(
            "{} would lose its data: its claims are deleted when it is scaled down (persistentVolumeClaimRetentionPolicy.whenScaled: Delete); nothing was changed; to keep them: kubectl patch {first} -n {} -p '{retain}'",
            titles.join(", "),
            world.namespace(),
        );
    }
    Ok(())
}

/// Decides the next step. `stopped` collects the workloads that this run has stopped or seen stopped.
fn next(world: &World, wanted: &StopRequest, stopped: &mut BTreeSet<Uid>) -> Look {
    let (tiers, Some(spec)) = (tiers(world), world.spec()) else {
        return Look { next: Next::Done, done: BTreeSet::new() };
    };
    let (mut done, mut writes, mut waits) = (BTreeSet::new(), Vec::new(), Vec::new());
    let mut running: BTreeSet<usize> = BTreeSet::new();
    for position in wanted.groups.iter().rev().copied() {
        let tier = &tiers[position];
        if let Some(failed) = set_back(world, tier, stopped) {
            return Look { next: failed, done };
        }
        // Groups that wait for this one, directly or indirectly, must be stopped first.
        let is_waited_for = running.iter().any(|later| tiers::waits_for(spec, *later).contains(&position));
        let (to_do, left) =
            (self::writes(world, tier, wanted.delete_pods), still_running(world, tier, wanted.delete_pods));
        if to_do.is_empty() && left.is_empty() {
            done.insert(tier.title.clone());
            continue;
        }
        running.insert(position);
        match is_waited_for {
            true => {}
            false if to_do.is_empty() => waits.push((tier, left)),
            false => writes.extend(to_do),
        }
    }
    let next = match (writes.is_empty(), waits.is_empty()) {
        (false, _) => Next::Write(writes),
        (true, false) => Next::Wait(wait(world, &waits)),
        (true, true) => Next::Done,
    };
    Look { next, done }
}

fn wait(world: &World, waits: &[(&Tier, Vec<String>)]) -> Wait {
    let namespace = world.namespace();
    let left: Vec<&str> = waits.iter().flat_map(|(_, left)| left).map(String::as_str).collect();
    let describe = |what: &&str| format!("kubectl describe {what} -n {namespace}");
    let mut workloads = waits.iter().flat_map(|(tier, _)| tier.workloads(world));
    Wait {
        tiers: waits.iter().map(|(tier, _)| tier.title.clone()).collect(),
        what: format!("not stopped yet: {}", some(left.iter().copied())),
        hints: left.first().map(describe).into_iter().collect(),
        stuck: workloads.find_map(|workload| stuck::scale_down(world, workload)),
    }
}

/// Fails if a stopped workload was started again.
fn set_back(world: &World, tier: &Tier, stopped: &mut BTreeSet<Uid>) -> Option<Next> {
    let (running, at_rest): (Vec<_>, Vec<_>) = all(world, tier).into_iter().partition(|it| is_running(it));
    stopped.extend(at_rest.iter().map(|workload| workload.uid()));
    let again = running.into_iter().find(|workload| stopped.contains(&workload.uid()))?;
    let state = match again.kind {
        OwnerKind::Job | OwnerKind::CronJob => "is no longer suspended".into(),
        _ => format!("has {} replicas again", again.size()),
    };
    let why = format!(
        "{} {state}: another user or controller manages it and would undo further steps too; the next group was not changed",
        again.title()
    );
    Some(Next::Failed { why, hints: Vec::new() })
}

/// Workloads of a tier, and the Jobs of its CronJobs, because suspending a CronJob does not stop its Jobs.
pub fn all<'w>(world: &'w World, tier: &Tier) -> Vec<&'w Workload> {
    let mut found = Vec::new();
    for workload in tier.workloads(world) {
        found.push(workload);
        if workload.kind == OwnerKind::CronJob {
            let runs = world.index.cluster.children_of(workload.uid());
            found.extend(runs.filter_map(|uid| world.workloads.get(&uid)));
        }
    }
    found
}

/// Whether a workload needs to be stopped.
fn is_running(workload: &Workload) -> bool {
    match workload.kind {
        OwnerKind::Deployment | OwnerKind::ReplicaSet | OwnerKind::StatefulSet => workload.size() > 0,
        OwnerKind::Job => !workload.is_suspended() && !workload.is_finished(),
        OwnerKind::CronJob => !workload.is_suspended(),
        OwnerKind::DaemonSet | OwnerKind::Other => false,
    }
}

/// Writes that stop a tier.
fn writes(world: &World, tier: &Tier, delete_pods: bool) -> Vec<Write> {
    let running = all(world, tier).into_iter().filter(|workload| is_running(workload));
    let stops = running.map(|workload| match workload.kind {
        OwnerKind::Job | OwnerKind::CronJob => {
            let before = BeforeStop { suspend: Some(false), ..BeforeStop::default() };
            stop(workload, before, json!({"suspend": true}), "suspended".into())
        }
        _ => {
            let size = workload.size();
            let before = BeforeStop { replicas: Some(size), ..BeforeStop::default() };
            stop(workload, before, json!({"replicas": 0}), format!("{size} → 0"))
        }
    });
    let pods = tier.bare_pods(world).filter(|pod| delete_pods && !pod.terminating).map(Write::of_pod);
    stops.chain(pods).collect()
}

/// Patches size and note in one write, so that neither is seen without the other.
fn stop(workload: &Workload, before: BeforeStop, spec: serde_json::Value, says: String) -> Write {
    Write::of_workload(workload, &[(names::BEFORE_STOP, Some(json!(before).to_string()))], spec, says)
}

/// Pods and workloads of a tier that have not stopped yet.
fn still_running(world: &World, tier: &Tier, delete_pods: bool) -> Vec<String> {
    let mut left = BTreeSet::new();
    for workload in all(world, tier) {
        if matches!(workload.kind, OwnerKind::DaemonSet | OwnerKind::Other) {
            continue;
        }
        let pods = world.pods_of(workload.uid()).map(|pod| format!("pod/{}", pod.name));
        let before = left.len();
        left.extend(pods);
        // Its controller may still create a pod.
        if left.len() == before && !is_at_rest(workload) {
            left.insert(workload.title());
        }
    }
    left.extend(tier.bare_pods(world).filter(|_| delete_pods).map(|pod| format!("pod/{}", pod.name)));
    left.into_iter().collect()
}

/// Whether the controller of a workload has observed that it is stopped.
fn is_at_rest(workload: &Workload) -> bool {
    match workload.kind {
        OwnerKind::Deployment | OwnerKind::ReplicaSet | OwnerKind::StatefulSet => {
            workload.is_observed() && workload.fields.status.replicas == 0
        }
        OwnerKind::Job => workload.is_finished() || workload.holds("Suspended"),
        OwnerKind::CronJob | OwnerKind::DaemonSet | OwnerKind::Other => true,
    }
}

/// Lines about workloads and pods that are not stopped.
fn stays(world: &World, tier: &Tier, delete_pods: bool) -> Vec<String> {
    let daemons = tier.workloads(world).into_iter().filter(|workload| workload.kind == OwnerKind::DaemonSet);
    let daemons =
        daemons.map(|daemon| format!("{} is not stopped: a DaemonSet cannot be scaled", daemon.title()));
    let bare = tier.bare_pods(world).filter(|_| !delete_pods);
    let bare =
        bare.map(|pod| format!("pod/{} is not stopped: it has no owner; --delete-pods deletes it", pod.name));
    let others = tier.pods_of_others(world);
    let others = others.map(|pod| format!("pod/{} is not stopped: its owner would re-create it", pod.name));
    daemons.chain(bare).chain(others).collect()
}

/// Decides the next step when all groups are stopped.
#[cfg(test)]
pub fn next_of_all(world: &World, stopped: &mut BTreeSet<Uid>, delete_pods: bool) -> Look {
    let groups = (0..world.spec().map_or(0, |spec| spec.groups.len())).collect();
    next(world, &StopRequest { groups, delete_pods }, stopped)
}
