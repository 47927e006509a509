//! The expected results of a step.

use super::ScriptStep;
use crate::support::{
    build,
    world::{World, status_of},
};
use rollcall_core::{
    Uid,
    decision::Decision,
    dispatch::explain_pod,
    line::{Command, Hint, Line},
    sequence::{Status, explain::explain_sequence, status::Condition},
};
use serde::Deserialize;

/// The expected state of a sequence. Fields that are not set are not checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Seen {
    phase: Option<String>,
    /// `TITLE STATE`, or `TITLE STATE ARRIVED/EXPECTED`.
    groups: Option<Vec<String>>,
    /// `CODE`, or `CODE POD`.
    blocked: Option<Vec<String>>,
    /// The conditions that are True, as `KIND` or `KIND/REASON`.
    conditions: Option<Vec<String>>,
    /// The events of this step in order, as `REASON` or `REASON TITLE`.
    events: Option<Vec<String>>,
    /// Seconds since the start, or `never`.
    wake: Option<String>,
    message: Option<String>,
    current: Option<u32>,
    ready: Option<u32>,
    pods: Option<String>,
    processed: Option<String>,
    /// The two summary columns: `GROUP | READY`.
    summary: Option<String>,
}

pub fn check(step: &ScriptStep, world: &mut World) -> Result<(), String> {
    let done = world.take_done();
    let released: Vec<String> = done.released.iter().map(|released| released.name.to_string()).collect();
    expect_equal("released", &step.released, &released)?;
    if let Some(notes) = &step.notes {
        expect_equal("notes", notes, &done.notes)?;
    }
    if let Some(urgent) = step.urgent {
        expect_equal("urgent", &urgent, &done.urgent)?;
    }
    for (name, seen) in &step.see {
        let uid = uid_of(world, name).ok_or(format!("no sequence {name}"))?;
        let decision = world.decisions.get(&uid).ok_or(format!("nothing was decided about {name}"))?;
        let events: Vec<String> =
            done.events.iter().filter(|(of, _)| *of == uid).map(|(_, event)| event.clone()).collect();
        sees(seen, decision, &events).map_err(|problem| format!("{name}: {problem}"))?;
    }
    for (subject, expected) in &step.explain {
        let line = explained(world, subject)?;
        expect_equal(subject, &expected.trim_end().to_owned(), &drawn(&line, 0).trim_end().to_owned())?;
    }
    Ok(())
}

fn sees(seen: &Seen, decision: &Decision, events: &[String]) -> Result<(), String> {
    let Seen { phase, groups, blocked, conditions, events: announced, wake, .. } = seen;
    let status = status_of(decision).ok_or("it has no status")?;
    equal("phase", phase, &status.phase.as_str().to_owned())?;
    if let Some(groups) = groups {
        let counted = groups.iter().any(|group| group.contains('/'));
        expect_equal(
            "groups",
            groups,
            &status.groups.iter().map(|group| drawn_group(group, counted)).collect(),
        )?;
    }
    let blockers = status.blocked_by.iter().map(|entry| &entry.blocker.reason);
    let blockers = blockers.map(|reason| match reason.pod() {
        Some(pod) => format!("{} {pod}", reason.code()),
        None => reason.code().into(),
    });
    equal("blocked", blocked, &blockers.collect())?;
    if let Some(conditions) = conditions {
        let holding = status.conditions.iter().filter(|condition| condition.holds);
        let drawn = |condition: &Condition| {
            let kind = condition.kind.as_str();
            match conditions.iter().any(|wanted| wanted == kind) {
                true => kind.to_owned(),
                false => format!("{kind}/{}", condition.reason),
            }
        };
        expect_equal("conditions", conditions, &holding.map(drawn).collect())?;
    }
    equal("events", announced, &events.to_vec())?;
    let wakes = decision.wake_at.map(|at| (at.as_second() - build::start().as_second()).to_string());
    equal("wake", wake, &wakes.unwrap_or("never".into()))?;
    sees_more(seen, status)
}

fn sees_more(seen: &Seen, status: &Status) -> Result<(), String> {
    let Seen { message, current, ready, pods, processed, summary, .. } = seen;
    equal("message", message, &status.message)?;
    equal("current", current, &status.current_index)?;
    equal("ready", ready, &status.ready_pods_in_current_group)?;
    equal("pods", pods, &status.current_group_pods.join(" "))?;
    equal("processed", processed, &status.processed_pods.join(" "))?;
    equal("summary", summary, &format!("{} | {}", status.summary_group, status.summary_ready))
}

fn drawn_group(group: &rollcall_core::sequence::status::GroupStatus, counted: bool) -> String {
    let expected = group.expected.map_or("?".into(), |expected| expected.to_string());
    let numbers = if counted { format!(" {}/{expected}", group.arrived) } else { String::new() };
    format!("{} {:?}{numbers}", group.title, group.state)
}

fn explained(world: &World, subject: &str) -> Result<Line, String> {
    match subject.split_once('/') {
        Some(("pod", name)) => {
            let pod = world.index.cluster.pod_named(build::HOME, name).ok_or(format!("no pod {name}"))?;
            Ok(explain_pod(&world.index, pod, world.now))
        }
        Some(("sequence", name)) => {
            let uid = uid_of(world, name).ok_or(format!("no sequence {name}"))?;
            let entry = world.index.sequences.get(uid).ok_or(format!("{name} is not known"))?;
            Ok(explain_sequence(world.index.facts(), entry, world.now))
        }
        _ => Err(format!("explain what? {subject}")),
    }
}

fn drawn(line: &Line, depth: usize) -> String {
    let Line { code, text, since: _, object: _, hints, reason: _, below } = line;
    let indent = "  ".repeat(depth);
    let hints: Vec<String> = hints.iter().map(written).collect();
    let hints = match hints.is_empty() {
        true => String::new(),
        false => format!("\n{indent}  hint: {}", hints.join("  ·  ")),
    };
    let below: String = below.iter().map(|below| drawn(below, depth + 1)).collect();
    format!("{indent}{text} [{code}]{hints}\n{below}")
}

/// Prints a hint as a command to paste, for a user in the namespace of the pods.
fn written(hint: &Hint) -> String {
    match hint {
        Hint::Advice(text) => text.clone(),
        Hint::Command { purpose, command } => {
            let Command { program, verb, namespace, arguments } = command;
            let program = format!("{program:?}").to_lowercase();
            let elsewhere = namespace.as_ref().filter(|namespace| ***namespace != *build::HOME);
            let flag = elsewhere.map_or(String::new(), |namespace| format!(" -n {namespace}"));
            let purpose = purpose.map_or(String::new(), |purpose| format!("{purpose}: "));
            format!("{purpose}{program} {verb}{flag} {arguments}")
        }
    }
}

fn uid_of(world: &World, name: &str) -> Option<Uid> {
    world.truth.sequences.values().find(|sequence| *sequence.name == *name).map(|sequence| sequence.uid)
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, expected: &Option<T>, found: &T) -> Result<(), String> {
    expected.as_ref().map_or(Ok(()), |expected| expect_equal(what, expected, found))
}

fn expect_equal<T: PartialEq + std::fmt::Debug>(what: &str, expected: &T, found: &T) -> Result<(), String> {
    match expected == found {
        true => Ok(()),
        false => Err(format!("    {what}\n      expected {expected:#?}\n      found    {found:#?}")),
    }
}
