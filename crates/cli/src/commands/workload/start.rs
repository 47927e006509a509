//! Restores the sizes of stopped workloads; the gates enforce the start order.

use super::drive::{self, Drive, Look, Moment, Next, Wait, some};
use super::stop::{self, BeforeStop};
use super::tiers::{Tier, tiers};
use super::world::{Workload, World};
use super::write::Write;
use super::{Begun, Common, begin, rights, warnings::warnings};
use crate::cli::{Access, program};
use crate::commands::status::view::SequenceView;
use crate::outcome::Outcome;
use crate::output;
use anyhow::{Context, Result};
use jiff::Timestamp;
use rollcall_api::names;
use rollcall_api::sequence::{GroupState, Phase};
use rollcall_core::facts::OwnerKind;
use rollcall_core::sequence::Spec;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long the command waits for a controller to answer before it restores sizes. Without a controller, the gates hold all pods
/// anyway. A controller that starts later reads the sequence before the pods.
const ANSWER: Duration = Duration::from_secs(10);

/// Start the workloads that `rollcall stop` has stopped, in order
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Restores the state of each workload before the stop. The gates enforce the order, like at the first start, and the
progress is shown like in `rollcall status -w`. If the command is killed after it has restored the sizes, the start
continues in order, because the gates hold the pods.

Exit codes:
  0  the sequence is complete
  1  the sequence has failed (see the condition Stalled)
  2  not possible; nothing was changed
  3  a group took longer than --timeout")]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
}

pub async fn run(access: Access, arguments: Arguments) -> Result<Outcome> {
    let Arguments { common } = arguments;
    let Begun { connection, world, spec } = begin(&access, &common).await?;
    let tiers = tiers(&world);
    let stopped: Vec<(&Tier, Vec<Write>)> = tiers
        .iter()
        .map(|tier| anyhow::Ok((tier, writes(&world, tier)?)))
        .filter(|found| !matches!(found, Ok((_, writes)) if writes.is_empty()))
        .collect::<Result<_>>()?;
    drive::warn(&warnings(&world, stopped.iter().map(|(tier, _)| *tier)));
    unordered(&world, &spec).iter().for_each(output::note);
    // The value only has to differ from earlier ones, so the accuracy of the clock does not matter.
    let start = (!stopped.is_empty()).then(|| Timestamp::now().to_string());
    let begins = start.as_deref().map(|start| Write::begin_again(&world, start));
    let all = stopped.iter().flat_map(|(_, writes)| writes).chain(&begins);
    rights::ask(&connection, world.namespace(), all).await?;
    if common.dry_run {
        let says =
            |writes: &[Write]| -> Vec<String> { writes.iter().map(|write| write.says.clone()).collect() };
        let plan: Vec<_> = stopped.iter().map(|(tier, writes)| (tier.title.clone(), says(writes))).collect();
        let title = match plan.is_empty() {
            true => format!("podsequence/{} has no stopped workloads", common.name),
            false => format!("podsequence/{} would be started, group by group:", common.name),
        };
        output::data(&drive::plan(&title, &plan))?;
        return Ok(Outcome::Done);
    }
    if start.is_none() {
        output::note(format!(
            "podsequence/{} has no stopped workloads; waiting until it is complete",
            common.name
        ));
    }
    let advice = vec![format!("{} explain podseq/{}", program(), common.name)];
    let timeout = common.timeout;
    let drive = Drive { connection: &connection, timeout, through: "is complete", advice };
    let mut late = false;
    let judge = |moment: Moment<'_>| {
        if !late && start.is_some() && !has_begun(moment.world, start.as_deref()) && moment.elapsed >= ANSWER
        {
            late = true;
            output::note(
                "no controller has answered; restoring the sizes anyway, the gates hold the pods until one answers",
            );
        }
        next(moment.world, start.as_deref(), moment.elapsed)
    };
    drive.run(world, judge).await
}

/// Notes about groups that do not wait, and about a suspended sequence.
fn unordered(world: &World, spec: &Spec) -> Vec<String> {
    let by_hand = world.sequence.facts().opened_by_hand;
    let open = spec.groups.iter().filter(|group| by_hand.contains(&group.title));
    let open = open.map(|group| {
        format!(
            "group \"{}\" was opened manually and does not wait (annotation {})",
            group.title,
            names::OPEN_GROUPS
        )
    });
    let suspended =
        spec.suspend.then(|| "the sequence is suspended (spec.suspend): nothing is released".into());
    open.chain(suspended).collect()
}

/// Whether the controller has accepted the new start, and so has reset its records of the previous one.
fn has_begun(world: &World, start: Option<&str>) -> bool {
    world.sequence.facts().recorded.begun_again.as_deref() == start
}

/// Decides the next step. `start` is the value that requests a new start, if any workload was stopped.
pub fn next(world: &World, start: Option<&str>, elapsed: Duration) -> Result<Look> {
    let view = SequenceView::new(&world.sequence);
    let complete = view.status.groups.iter().filter(|group| group.state == GroupState::Complete);
    let begun = start.is_none() || has_begun(world, start);
    let done: BTreeSet<_> = complete.filter(|_| begun).map(|group| group.name.as_str().into()).collect();
    if let Some(start) = start {
        if world.sequence.facts().begin_again.as_deref() != Some(start) {
            return Ok(Look { next: Next::Write(vec![Write::begin_again(world, start)]), done });
        }
        if !begun && elapsed < ANSWER {
            let what = "the controller has not answered".into();
            return Ok(Look { next: Next::Wait(Wait { what, ..Wait::default() }), done });
        }
        // In the order of groups, so that no pod is created before the pods that it waits for.
        let tiers = tiers(world);
        let writes: Vec<Vec<Write>> = tiers.iter().map(|tier| writes(world, tier)).collect::<Result<_>>()?;
        let writes = writes.concat();
        if !writes.is_empty() {
            return Ok(Look { next: Next::Write(writes), done });
        }
    }
    let next = match view.settled().filter(|_| begun) {
        Some(Phase::Completed) => Next::Done,
        Some(Phase::Failed) => {
            let why = view.status.message.clone().unwrap_or_default();
            Next::Failed { why, hints: Vec::new() }
        }
        Some(Phase::Pending | Phase::InProgress) | None => Next::Wait(wait(world, &view)),
    };
    Ok(Look { next, done })
}

fn wait(world: &World, view: &SequenceView) -> Wait {
    let status = &view.status;
    let current = status.groups.iter().find(|group| group.state != GroupState::Complete);
    let title = current.map(|group| group.name.as_str());
    let blocked: Vec<String> = status
        .blocked_by
        .iter()
        .filter(|blocked| Some(blocked.group.as_str()) == title)
        .map(|blocked| match &blocked.pod {
            Some(pod) => format!("{pod}: {}", blocked.reason),
            None => blocked.reason.clone(),
        })
        .collect();
    let pod = status.blocked_by.iter().find_map(|blocked| blocked.pod.as_deref());
    // `pod` may name a workload, in the form `kind/name`.
    let object = pod.map(|pod| if pod.contains('/') { pod.to_owned() } else { format!("pod/{pod}") });
    Wait {
        tiers: title.map(Into::into).into_iter().collect(),
        what: match blocked.is_empty() {
            true => status.message.clone().unwrap_or_else(|| "no controller has processed it".into()),
            false => some(blocked.iter().map(String::as_str)),
        },
        hints: object
            .map(|it| format!("kubectl describe {it} -n {}", world.namespace()))
            .into_iter()
            .collect(),
        stuck: None,
    }
}

/// Writes that start a tier: they restore the state in the notes, except for workloads that have been started meanwhile.
fn writes(world: &World, tier: &Tier) -> Result<Vec<Write>> {
    let noted = stop::all(world, tier).into_iter().filter_map(|workload| {
        let note = workload.annotation(names::BEFORE_STOP)?;
        Some((workload, note))
    });
    noted.map(|(workload, note)| start(workload, note)).collect()
}

/// Patches size and note in one write, so that a size is restored at most once, and only to its previous value.
fn start(workload: &Workload, note: &str) -> Result<Write> {
    let unread = || format!("{}: invalid annotation {}: {note}", workload.title(), names::BEFORE_STOP);
    let before: BeforeStop = serde_json::from_str(note).with_context(unread)?;
    let (spec, says) = match workload.kind {
        OwnerKind::Job | OwnerKind::CronJob => {
            let suspend = before.suspend.with_context(unread)?;
            match workload.is_suspended() {
                true => (json!({"suspend": suspend}), "resumed".into()),
                false => (Value::Null, "already resumed; not changed".into()),
            }
        }
        _ => {
            let (before, size) = (before.replicas.with_context(unread)?, workload.size());
            match size {
                0 => (json!({"replicas": before}), format!("0 → {before}")),
                size => (
                    Value::Null,
                    format!(
                        "already started with {size} replicas; not changed to the previous size {before}"
                    ),
                ),
            }
        }
    };
    Ok(Write::of_workload(workload, &[(names::BEFORE_STOP, None)], spec, says))
}
