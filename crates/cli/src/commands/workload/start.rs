//! Everything that was stopped gets its size back; the gates make the order.

use super::drive::{self, Drive, Look, Moment, Next, Wait, some};
use super::stop::{self, BeforeStop};
use super::tiers::{Tier, tiers};
use super::world::{Workload, World};
use super::write::Write;
use super::{Begun, Common, begin, rights, warnings::warnings};
use crate::cli::{Access, program};
use crate::commands::status::view::View;
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

/// How long the sizes wait for a controller to answer. Without one, the gates hold everything anyway, and one that comes back
/// reads the sequence before the pods.
const ANSWER: Duration = Duration::from_secs(10);

/// Start what `rollcall stop` has stopped, in order
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Every workload gets back what it had before the stop; the gates make the order, as at the first start. The
live tree is that of `rollcall status -w`. Killed after the sizes are given, the gates finish the start.

Exit codes:
  0  the sequence is complete
  1  the sequence has failed (the condition Stalled says why)
  2  not possible; nothing was changed
  3  a tier took longer than --timeout")]
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
    // It differs from all before, whichever clock this is.
    let start = (!stopped.is_empty()).then(|| Timestamp::now().to_string());
    let begins = start.as_deref().map(|start| Write::begin_again(&world, start));
    let all = stopped.iter().flat_map(|(_, writes)| writes).chain(&begins);
    rights::ask(&connection, world.namespace(), all).await?;
    if common.dry_run {
        let says =
            |writes: &[Write]| -> Vec<String> { writes.iter().map(|write| write.says.clone()).collect() };
        let plan: Vec<_> = stopped.iter().map(|(tier, writes)| (tier.title.clone(), says(writes))).collect();
        let title = match plan.is_empty() {
            true => format!("nothing of podsequence/{} is stopped", common.name),
            false => format!("podsequence/{} would be started, group by group:", common.name),
        };
        output::data(&drive::plan(&title, &plan))?;
        return Ok(Outcome::Done);
    }
    if start.is_none() {
        output::note(format!(
            "nothing of podsequence/{} is stopped; waiting until it is complete",
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
                "no controller has answered; the sizes are given, and the gates hold until one does",
            );
        }
        next(moment.world, start.as_deref(), moment.elapsed)
    };
    drive.run(world, judge).await
}

/// What does not wait for its turn, and what makes all of them wait.
fn unordered(world: &World, spec: &Spec) -> Vec<String> {
    let by_hand = world.sequence.facts().opened_by_hand;
    let open = spec.groups.iter().filter(|group| by_hand.contains(&group.title));
    let open = open.map(|group| {
        format!(
            "\"{}\" was opened by hand and does not wait (annotation {})",
            group.title,
            names::OPEN_GROUPS
        )
    });
    let suspended =
        spec.suspend.then(|| "the sequence is suspended (spec.suspend): nothing is released".into());
    open.chain(suspended).collect()
}

/// Whether the controller has forgotten the last start.
fn has_begun(world: &World, start: Option<&str>) -> bool {
    world.sequence.facts().recorded.begun_again.as_deref() == start
}

/// What is next. `start`: what was asked for, if anything was stopped.
pub fn next(world: &World, start: Option<&str>, elapsed: Duration) -> Result<Look> {
    let view = View::new(&world.sequence);
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
        // The first tiers first, so that nobody is there before those for whom he waits.
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

fn wait(world: &World, view: &View) -> Wait {
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
    // `pod` may be a workload, which says its kind.
    let object = pod.map(|pod| if pod.contains('/') { pod.to_owned() } else { format!("pod/{pod}") });
    Wait {
        tiers: title.map(Into::into).into_iter().collect(),
        what: match blocked.is_empty() {
            true => status.message.clone().unwrap_or_else(|| "no controller has looked at it".into()),
            false => some(blocked.iter().map(String::as_str)),
        },
        hints: object
            .map(|it| format!("kubectl describe {it} -n {}", world.namespace()))
            .into_iter()
            .collect(),
        stuck: None,
    }
}

/// What is to be written to start a tier: what stands in the notes, and nothing where somebody has started it since.
fn writes(world: &World, tier: &Tier) -> Result<Vec<Write>> {
    let noted = stop::all(world, tier).into_iter().filter_map(|workload| {
        let note = workload.annotation(names::BEFORE_STOP)?;
        Some((workload, note))
    });
    noted.map(|(workload, note)| start(workload, note)).collect()
}

/// Size and note in one patch: never twice, never another size than before.
fn start(workload: &Workload, note: &str) -> Result<Write> {
    let unread =
        || format!("{}: the annotation {} cannot be read: {note}", workload.title(), names::BEFORE_STOP);
    let before: BeforeStop = serde_json::from_str(note).with_context(unread)?;
    let (spec, says) = match workload.kind {
        OwnerKind::Job | OwnerKind::CronJob => {
            let suspend = before.suspend.with_context(unread)?;
            match workload.is_suspended() {
                true => (json!({"suspend": suspend}), "resumed".into()),
                false => (Value::Null, "somebody has resumed it; it stays as it is".into()),
            }
        }
        _ => {
            let (before, size) = (before.replicas.with_context(unread)?, workload.size());
            match size {
                0 => (json!({"replicas": before}), format!("0 → {before}")),
                size => (
                    Value::Null,
                    format!("somebody has started it; it stays at {size} and does not get {before}"),
                ),
            }
        }
    };
    Ok(Write::of_workload(workload, &[(names::BEFORE_STOP, None)], spec, says))
}
