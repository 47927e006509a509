//! Explains the launch order of a pod: which containers have passed, and which containers wait for others.

use super::decide::{Facts, LaunchStep, barrier_target, step};
use super::facts::{Launch, LaunchContainer, is_alive, is_gated};
use super::index::Entry;
use super::ranks::Priority;
use crate::{
    Timestamp,
    cluster::Target,
    facts::Pod,
    line::{Hint, Line, elapsed},
};

/// Explains the progress of a pod's containers. `None` if they are not ordered, or if all ranks have passed.
pub fn explain(facts: Facts<'_>, pod: &Pod, now: Timestamp) -> Option<Line> {
    let launch = pod.launch.as_deref().filter(|launch| is_alive(pod) && !launch.containers.is_empty())?;
    let mut entry = facts.launches.get(pod.uid).cloned().unwrap_or_default();
    entry.see(launch);
    let (name, object) = (&pod.name, Target::of_pod(pod));
    let ranks = launch.ranks();
    let step = step(pod, launch, &entry);
    if let LaunchStep::Blocked { by } = &step {
        let barrier = barrier_target(pod);
        let map = barrier.name.clone();
        let look =
            Hint::kubectl("get configmap", &pod.namespace, format!("{map} -o yaml")).to("show its owner");
        let text = format!("{name} is held: the ConfigMap {map} already exists and belongs to {by}");
        let line = Line::new("BarrierTaken", text, pod.created, barrier);
        return Some(line.hint(Hint::Advice(format!("rename or delete the ConfigMap {map}"))).hint(look));
    }
    if is_gated(pod) {
        let time = elapsed(pod.created, now);
        let text = format!(
            "{name} has been held for {time}: the ConfigMap for its launch order has not been created yet"
        );
        let doctor = Hint::Advice("check that the controller runs in Full mode: rollcall doctor".into());
        let line = Line::new("LaunchHeld", text, pod.created, object).hint(doctor);
        return Some(
            line.with(ranks.iter().map(|rank| rank_line(pod, launch, &entry, *rank, now)).collect()),
        );
    }
    let current = launch.current()?;
    let passed = |rank: Priority| {
        rank > current || launch.of_rank(rank).all(|(place, _)| entry.passed.contains(&place))
    };
    let number = ranks.iter().filter(|rank| passed(**rank)).count();
    if number == ranks.len() {
        return None;
    }
    let text = match pod.node.is_some() {
        true => format!("{name} starts its containers in order: {number} of {} ranks are ready", ranks.len()),
        false => format!("{name} starts its containers in order once it is scheduled: {} ranks", ranks.len()),
    };
    let below = ranks.iter().map(|rank| rank_line(pod, launch, &entry, *rank, now)).collect();
    Some(Line::new("Launching", text, pod.created, object).with(below))
}

fn rank_line(pod: &Pod, launch: &Launch, entry: &Entry, rank: Priority, now: Timestamp) -> Line {
    let current = launch.current().unwrap_or(rank);
    let gated = is_gated(pod);
    let names: Vec<&str> = launch.of_rank(rank).map(|(_, container)| &*container.name).collect();
    let names = names.join(", ");
    let object = Target::of_pod(pod);
    let missing: Vec<&LaunchContainer> = launch
        .of_rank(rank)
        .filter(|(place, _)| !entry.passed.contains(place) && rank <= current)
        .map(|(_, container)| container)
        .collect();
    if rank < current || gated {
        let above: Vec<&str> = launch
            .of_rank(if gated { launch.ranks()[0] } else { current })
            .filter(|(place, container)| container.priority > rank && !entry.passed.contains(place))
            .map(|(_, container)| &*container.name)
            .collect();
        let text = match above.is_empty() {
            true => format!("rank {rank} ({names}) is next"),
            false => format!("rank {rank} ({names}) waits for {}", above.join(", ")),
        };
        return Line::new("RankClosed", text, pod.created, object);
    }
    let Some(first) = missing.first() else {
        return Line::new("RankPassed", format!("rank {rank} ({names}) is ready"), pod.since, object);
    };
    let since = first.since.unwrap_or(pod.since);
    let state = |container: &&LaunchContainer| {
        let trouble = match (&container.trouble, container.waits_for_key) {
            (_, true) => "its key exists, but the kubelet has not read it yet",
            (Some(trouble), false) => trouble,
            (None, false) => "not started yet",
        };
        format!("{}: {trouble}", container.name)
    };
    let states: Vec<String> = missing.iter().map(state).collect();
    let text = format!(
        "rank {rank} ({names}) has not been ready for {}: {}",
        elapsed(since, now),
        states.join("; ")
    );
    let line = Line::new("RankOpen", text, since, object);
    let logs = Hint::kubectl("logs", &pod.namespace, format!("{} -c {}", pod.name, first.name));
    let describe = Hint::kubectl("describe pod", &pod.namespace, pod.name.to_string());
    if first.since.is_some() { line.hint(logs).hint(describe) } else { line.hint(describe) }
}
