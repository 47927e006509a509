//! Restarts the workloads of a sequence group by group: each group is complete and settled before the next one is restarted.

use super::drive::{self, Drive, Look, Moment, Next, Wait, some};
use super::tiers::{self, Tier, tiers};
use super::world::{Workload, World};
use super::write::Write;
use super::{Begun, Common, begin, rights, stuck, unready, warnings};
use crate::cli::{Access, program};
use crate::commands::target;
use crate::outcome::Outcome;
use crate::output;
use anyhow::{Result, bail};
use jiff::Timestamp;
use rollcall_api::names;
use rollcall_core::Uid;
use rollcall_core::facts::OwnerKind;
use rollcall_core::sequence::Spec;
use rollcall_core::sequence::spec::{Group, MinReady};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Restart the workloads of a sequence, group by group
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  rollcall restart shop
  rollcall restart shop --group \"Application Layer\"
  rollcall restart shop --undo

Workloads are restarted like with `kubectl rollout restart`. The next group is restarted when a group is complete
and its waitDuration has passed. If a group does not become ready, the restart ends. Run the command again to
continue, or use --undo to revert the restarted groups, the last one first. The partition of a StatefulSet is
honoured. Jobs, CronJobs, ReplicaSets, pods without an owner and workloads with the strategy OnDelete are listed and
not restarted.

Exit codes:
  0  restarted
  1  a group cannot become ready without intervention
  2  not possible; nothing was changed
  3  a group took longer than --timeout")]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
    /// Restart only this group, given by name or as "Group N"; repeatable
    #[arg(long, value_name = "GROUP")]
    group: Vec<String>,
    /// Revert an unfinished restart, the last group first
    #[arg(long)]
    undo: bool,
}

/// Direction of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Direction {
    /// Restart, with the value of the template annotation.
    Forward(String),
    Back,
}

struct RestartRequest {
    groups: BTreeSet<usize>,
    direction: Direction,
}

pub async fn run(access: Access, arguments: Arguments) -> Result<Outcome> {
    let Arguments { common, group, undo } = arguments;
    let Begun { connection, world, spec } = begin(&access, &common).await?;
    let direction = match undo {
        true => Direction::Back,
        false => Direction::Forward(Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
    };
    let wanted = RestartRequest { groups: selected(&spec, &common.name, &group)?, direction };
    let tiers = tiers(&world);
    let order: Vec<&Tier> = in_order(&wanted).map(|position| &tiers[position]).collect();
    drive::warn(&warnings::warnings(&world, order.iter().copied()));
    refuse_paused(&world, &order)?;
    let writes: Vec<Write> = order.iter().flat_map(|tier| writes(&world, tier, &wanted.direction)).collect();
    rights::ask(&connection, world.namespace(), &writes).await?;
    if common.dry_run {
        let lines = |tier: &&Tier| {
            let writes = self::writes(&world, tier, &wanted.direction).into_iter().map(|write| write.says);
            (tier.title.clone(), writes.chain(stays(&world, tier)).collect())
        };
        let plan: Vec<_> = order.iter().map(lines).collect();
        let how = if undo { "would be reverted" } else { "would be restarted" };
        let title = format!("podsequence/{} {how}, group by group:", common.name);
        output::data(&drive::plan(&title, &plan))?;
        return Ok(Outcome::Done);
    }
    order.iter().flat_map(|tier| stays(&world, tier)).for_each(output::note);
    let (name, program, timeout) = (&common.name, program(), common.timeout);
    let (through, advice) = match undo {
        true => ("is reverted", vec![format!("to continue: {program} restart {name} --undo")]),
        false => {
            let undo = format!("to revert the restarted groups: {program} restart {name} --undo");
            ("is restarted", vec![format!("to continue: {program} restart {name}"), undo])
        }
    };
    if undo && writes.is_empty() {
        output::note(format!("podsequence/{name} has no unfinished restart: there is nothing to revert"));
    }
    let drive = Drive { connection: &connection, timeout, through, advice };
    let mut progress = Progress::default();
    drive.run(world, |moment| Ok(next(&moment, &wanted, &mut progress))).await
}

fn selected(spec: &Spec, name: &str, groups: &[String]) -> Result<BTreeSet<usize>> {
    match groups.is_empty() {
        true => Ok((0..spec.groups.len()).collect()),
        false => groups.iter().map(|group| target::group(spec, name, "--group", group)).collect(),
    }
}

fn in_order(wanted: &RestartRequest) -> Box<dyn Iterator<Item = usize> + '_> {
    match wanted.direction {
        Direction::Forward(_) => Box::new(wanted.groups.iter().copied()),
        Direction::Back => Box::new(wanted.groups.iter().rev().copied()),
    }
}

/// Rejects paused Deployments: they would accept the new template without replacing their pods.
fn refuse_paused(world: &World, tiers: &[&Tier]) -> Result<()> {
    let all = tiers.iter().flat_map(|tier| tier.workloads(world));
    let paused = all.into_iter().find(|workload| workload.fields.spec.paused == Some(true));
    match paused {
        Some(paused) => {
            let (title, resume) = (paused.title(), warnings::resume(world, paused));
            bail!(
                "{title} is paused, so its pods would not be replaced; nothing was changed; to resume it: {resume}"
            )
        }
        None => Ok(()),
    }
}

/// Progress of a run.
#[derive(Default)]
pub struct Progress {
    /// When each group became complete, measured from the start of the run.
    complete_since: BTreeMap<usize, Duration>,
    /// Whether all groups are done. Then only the notes are removed, and no workload is restarted again.
    through: bool,
}

/// Decides the next step.
fn next(moment: &Moment<'_>, wanted: &RestartRequest, progress: &mut Progress) -> Look {
    let Moment { world, written, elapsed } = *moment;
    let (tiers, Some(spec)) = (tiers(world), world.spec()) else {
        return Look { next: Next::Done, done: BTreeSet::new() };
    };
    if progress.through {
        let done = wanted.groups.iter().map(|position| tiers[*position].title.clone()).collect();
        return Look { next: forget(world, &tiers, wanted), done };
    }
    let (mut done, mut writes, mut waits) = (BTreeSet::new(), Vec::new(), Vec::new());
    let mut under_way: BTreeSet<usize> = BTreeSet::new();
    for position in in_order(wanted) {
        let (tier, group) = (&tiers[position], &spec.groups[position]);
        let to_do = self::writes(world, tier, &wanted.direction);
        let touched = is_touched(world, tier, written);
        let unfinished = unfinished(world, tier, group, touched || wanted.direction != Direction::Back);
        let unsettled = (to_do.is_empty() && unfinished.is_empty())
            .then(|| {
                unsettled(
                    group,
                    *progress.complete_since.entry(position).or_insert(elapsed),
                    elapsed,
                    touched,
                )
            })
            .flatten();
        if !unfinished.is_empty() {
            progress.complete_since.remove(&position);
        }
        if to_do.is_empty() && unfinished.is_empty() && unsettled.is_none() {
            done.insert(tier.title.clone());
            continue;
        }
        let comes_later = under_way.iter().any(|other| match wanted.direction {
            Direction::Forward(_) => tiers::waits_for(spec, position).contains(other),
            Direction::Back => tiers::waits_for(spec, *other).contains(&position),
        });
        under_way.insert(position);
        match comes_later {
            true => {}
            false if to_do.is_empty() => waits.push((tier, unfinished, unsettled)),
            false => writes.extend(to_do),
        }
    }
    let next = match (writes.is_empty(), waits.is_empty()) {
        (false, _) => Next::Write(writes),
        (true, false) => wait(world, &waits),
        (true, true) => {
            progress.through = true;
            forget(world, &tiers, wanted)
        }
    };
    Look { next, done }
}

/// Whether this run, or an earlier one that was interrupted, restarted workloads of the tier.
fn is_touched(world: &World, tier: &Tier, written: &BTreeSet<Uid>) -> bool {
    rolled(world, tier).any(|workload| {
        written.contains(&workload.uid()) || workload.annotation(names::BEFORE_RESTART).is_some()
    })
}

/// Remaining `waitDuration` of a tier; `None` if it has passed or the tier was not restarted.
fn unsettled(group: &Group, since: Duration, elapsed: Duration, touched: bool) -> Option<Duration> {
    (since + group.wait).checked_sub(elapsed).filter(|left| touched && !left.is_zero())
}

type Waiting<'w> = (&'w Tier, Vec<&'w Workload>, Option<Duration>);

fn wait(world: &World, waits: &[Waiting<'_>]) -> Next {
    let unfinished: Vec<&Workload> =
        waits.iter().flat_map(|(_, unfinished, _)| unfinished).copied().collect();
    let titles = waits.iter().map(|(tier, _, _)| tier.title.clone()).collect();
    if let Some(late) = unfinished.iter().find(|workload| is_late(workload)) {
        let why = format!("{} does not become ready: it exceeded its progressDeadlineSeconds", late.title());
        let why = with_cause(world, late, why);
        return Next::Failed { why, hints: vec![hint(world, late)] };
    }
    let names: Vec<String> =
        unfinished.iter().map(|workload| with_cause(world, workload, progress(workload))).collect();
    // A workload with an unready pod shows more than one without.
    let shown = unfinished.iter().find(|workload| unready::first(world, workload).is_some());
    Next::Wait(Wait {
        tiers: titles,
        what: match names.is_empty() {
            true => "its waitDuration has not passed".into(),
            false => some(names.iter().map(String::as_str)),
        },
        hints: shown.or(unfinished.first()).map(|workload| hint(world, workload)).into_iter().collect(),
        stuck: unfinished.iter().find_map(|workload| stuck::update(world, workload)),
    })
}

/// Adds the first unready pod and its cause to a text about a workload.
fn with_cause(world: &World, workload: &Workload, text: String) -> String {
    match unready::first(world, workload) {
        Some(pod) => format!("{text} ({})", unready::cause(pod)),
        None => text,
    }
}

/// Returns a command about the first unready pod, or about the workload if all its pods are ready.
fn hint(world: &World, workload: &Workload) -> String {
    match unready::first(world, workload) {
        Some(pod) => unready::hint(world, pod),
        None => format!("kubectl describe {} -n {}", workload.title(), world.namespace()),
    }
}

/// Whether a Deployment reports that it exceeded its progress deadline.
fn is_late(workload: &Workload) -> bool {
    let mut conditions = workload.fields.status.conditions.iter();
    conditions.any(|there| {
        there.kind == "Progressing" && there.reason.as_deref() == Some("ProgressDeadlineExceeded")
    }) && workload.is_observed()
}

/// Whether a change of its template restarts the workload.
fn is_rolled(workload: &Workload) -> bool {
    let by_hand = workload.fields.spec.update_strategy.kind.as_deref() == Some("OnDelete");
    match workload.kind {
        OwnerKind::Deployment => true,
        OwnerKind::StatefulSet | OwnerKind::DaemonSet => !by_hand,
        OwnerKind::ReplicaSet | OwnerKind::Job | OwnerKind::CronJob | OwnerKind::Other => false,
    }
}

fn rolled<'w>(world: &'w World, tier: &Tier) -> impl Iterator<Item = &'w Workload> {
    tier.workloads(world).into_iter().filter(|workload| is_rolled(workload))
}

/// Writes that restart a tier or revert that. A workload with a note has been restarted already.
fn writes(world: &World, tier: &Tier, direction: &Direction) -> Vec<Write> {
    let of_one = |workload: &Workload| {
        let note = workload.annotation(names::BEFORE_RESTART);
        match (direction, note) {
            (Direction::Forward(at), None) => {
                let before = workload.restarted_at().unwrap_or_default().to_owned();
                Some(roll(workload, Some(before), Some(at), "restarted"))
            }
            (Direction::Back, Some(before)) => {
                let before = Some(before).filter(|before| !before.is_empty());
                Some(roll(workload, None, before, "reverted"))
            }
            (Direction::Forward(_), Some(_)) | (Direction::Back, None) => None,
        }
    };
    rolled(world, tier).filter_map(of_one).collect()
}

/// Patches the note and the template in one write.
fn roll(workload: &Workload, note: Option<String>, at: Option<&str>, says: &str) -> Write {
    let template = json!({"template": {"metadata": {"annotations": {(names::RESTARTED_AT): at}}}});
    Write::of_workload(workload, &[(names::BEFORE_RESTART, note)], template, says)
}

/// Removes the notes once all groups are done: they are only needed to revert an unfinished restart.
fn forget(world: &World, tiers: &[Tier], wanted: &RestartRequest) -> Next {
    let selected = wanted.groups.iter().flat_map(|position| tiers[*position].workloads(world));
    let noted = selected.filter(|workload| workload.annotation(names::BEFORE_RESTART).is_some());
    let forgotten = noted
        .map(|workload| Write::of_workload(workload, &[(names::BEFORE_RESTART, None)], Value::Null, "done"));
    match forgotten.collect::<Vec<_>>() {
        forgotten if forgotten.is_empty() => Next::Done,
        forgotten => Next::Write(forgotten),
    }
}

/// Workloads of a tier whose pods are not all updated.
///
/// With `all_up`, the pods must also be available. A revert ignores the availability of tiers that were never restarted.
fn unfinished<'w>(world: &'w World, tier: &Tier, group: &Group, all_up: bool) -> Vec<&'w Workload> {
    rolled(world, tier).filter(|workload| !is_complete(workload, group, all_up)).collect()
}

/// Whether a rollout is complete, like in `kubectl rollout status`, but with the `minReady` of the group.
fn is_complete(workload: &Workload, group: &Group, all_up: bool) -> bool {
    let status = &workload.fields.status;
    let enough = |available: u32, wanted: u32| {
        if !all_up {
            return true;
        }
        let required = match group.min_ready {
            MinReady::Percent(_) => group.min_ready.required(wanted),
            // The number applies to all workloads of the group together; each one can contribute at most its size.
            MinReady::Count(_) => wanted.min(group.min_ready.required(wanted)),
        };
        available >= required
    };
    workload.is_observed()
        && match workload.kind {
            OwnerKind::DaemonSet => {
                let wanted = status.desired_number_scheduled;
                status.updated_number_scheduled >= wanted && enough(status.number_available, wanted)
            }
            OwnerKind::StatefulSet => {
                let wanted = workload.size();
                status.updated_replicas >= to_update(workload)
                    && status.replicas == wanted
                    && enough(status.available_replicas, wanted)
            }
            _ => {
                let wanted = workload.size();
                status.updated_replicas >= wanted
                    && status.replicas == status.updated_replicas
                    && enough(status.available_replicas, wanted)
            }
        }
}

/// Number of pods that a restart replaces.
fn to_update(workload: &Workload) -> u32 {
    match workload.kind {
        OwnerKind::DaemonSet => workload.fields.status.desired_number_scheduled,
        _ => workload.size() - workload.below_partition(),
    }
}

/// Describes progress, such as `deployment/web: 1 of 3 updated, 2 available`.
fn progress(workload: &Workload) -> String {
    let status = &workload.fields.status;
    let (updated, available) = match workload.kind {
        OwnerKind::DaemonSet => (status.updated_number_scheduled, status.number_available),
        _ => (status.updated_replicas, status.available_replicas),
    };
    let to_update = to_update(workload);
    format!("{}: {updated} of {to_update} updated, {available} available", workload.title())
}

/// Lines about workloads and pods that are not restarted.
pub fn stays(world: &World, tier: &Tier) -> Vec<String> {
    let workloads = tier.workloads(world);
    let kept = rolled(world, tier).filter_map(below_partition);
    let left = workloads.iter().filter(|workload| !is_rolled(workload)).map(|workload| {
        let why = match workload.kind {
            OwnerKind::StatefulSet | OwnerKind::DaemonSet => {
                "with OnDelete, pods are updated only when they are deleted"
            }
            OwnerKind::Job | OwnerKind::CronJob => "its work is not repeated",
            _ => "a ReplicaSet does not replace its pods",
        };
        format!("{} is not restarted: {why}", workload.title())
    });
    let bare = tier.bare_pods(world).chain(tier.pods_of_others(world));
    let bare = bare.map(|pod| format!("pod/{} is not restarted: it has no workload", pod.name));
    left.chain(kept).chain(bare).collect()
}

/// A line about the pods that are not restarted because of the partition of their StatefulSet.
fn below_partition(workload: &Workload) -> Option<String> {
    let spec = &workload.fields.spec;
    let pod = |index: u32| format!("{}-{}", workload.name(), spec.ordinals.start + index);
    let pods = match workload.below_partition() {
        0 => return None,
        1 => format!("{} is", pod(0)),
        2 => format!("{} and {} are", pod(0), pod(1)),
        more => format!("{} to {} are", pod(0), pod(more - 1)),
    };
    let partition = spec.update_strategy.rolling_update.partition?;
    Some(format!("{}: partition {partition} is honoured; {pods} not restarted", workload.title()))
}

/// Decides the next step when all groups are restarted or reverted.
#[cfg(test)]
pub fn next_of_all(moment: &Moment<'_>, back: bool, progress: &mut Progress) -> Look {
    let groups = (0..moment.world.spec().map_or(0, |spec| spec.groups.len())).collect();
    let direction = if back { Direction::Back } else { Direction::Forward("now".into()) };
    next(moment, &RestartRequest { groups, direction }, progress)
}
