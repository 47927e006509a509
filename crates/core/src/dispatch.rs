//! Dispatches a key to the feature that decides about it. Only this module knows all features.

use crate::{
    Timestamp,
    cluster::Target,
    decision::{Decision, Keep, Violation},
    facts::Pod,
    gates,
    index::Index,
    key::Key,
    launch,
    line::{Hint, Line, elapsed},
    reservation,
    sequence::{self, Reason, Settings},
};
use std::sync::Arc;

/// Decides about one key, with at most `budget` writes. The result depends only on the facts and `now`.
pub fn decide(index: &Index, key: Key, settings: Settings, now: Timestamp, budget: usize) -> Decision {
    match key {
        Key::Sequence(uid) => sequence::decide(index.facts(), uid, settings, now, budget),
        // Lite mode has no permissions on ConfigMaps.
        Key::Launch(_) if !index.sequences.mode().full => Decision::nothing(),
        Key::Launch(pod) => launch::decide(index.launch_facts(), pod, now),
        Key::Order(uid) => reservation::order::decide(index.reservation_facts(), uid, now, budget),
        Key::Ticket(uid) => reservation::ticket::decide(index.reservation_facts(), uid, now),
        Key::Claim(pod) => reservation::claim::decide(index.reservation_facts(), pod, now),
    }
}

/// Audits a decision, independently of the code that made it.
pub fn check(index: &Index, key: Key, decision: &Decision, now: Timestamp) -> Vec<Violation> {
    match key {
        Key::Sequence(uid) => sequence::check(index.facts(), uid, decision, now),
        Key::Launch(pod) => launch::check(index.launch_facts(), pod, decision),
        Key::Order(_) | Key::Ticket(_) | Key::Claim(_) => {
            reservation::check(index.reservation_facts(), key, decision, now)
        }
    }
}

/// Stores the information for the next decision about the key.
pub fn keep(index: &mut Index, key: Key, keep: Keep) {
    match (key, keep) {
        (_, Keep::Nothing) => {}
        (Key::Sequence(uid), Keep::Sequence { recorded, nodes, unseen }) => {
            index.keep_of_sequence(uid, *recorded, nodes, unseen);
        }
        (Key::Launch(pod), Keep::Launch { waiting, told }) => index.launches.keep(pod, waiting, &told),
        (Key::Order(uid), Keep::Order { window, settled }) => {
            index.reservations.keep_order(uid, window, &settled)
        }
        (Key::Ticket(uid), Keep::Ticket { released }) => index.keep_of_ticket(uid, released),
        (Key::Claim(pod), Keep::Claim(waiting)) => index.keep_of_claim(pod, waiting),
        (
            _,
            Keep::Sequence { .. }
            | Keep::Launch { .. }
            | Keep::Order { .. }
            | Keep::Ticket { .. }
            | Keep::Claim(_),
        ) => unreachable!("a decision stores information of its own feature only"),
    }
}

/// Explains, gate by gate, why a pod waits, or that it does not wait. Each feature explains its own gates.
pub fn explain_pod(index: &Index, pod: &Pod, now: Timestamp) -> Line {
    let facts = index.facts();
    let held = pod.gates.iter().flat_map(|gate| explain_gate(index, pod, gate, now));
    let mut lines: Vec<Line> = held.collect();
    let mut released = sequence::explain::explain_released(facts, pod, now);
    released.extend(reservation::explain::explain_released_pod(index.reservation_facts(), pod, now));
    if !launch::facts::is_gated(pod) {
        released.extend(launch::explain::explain(index.launch_facts(), pod, now));
    }
    let name = &pod.name;
    match (lines.len(), released.len()) {
        (0, 0) => {
            let text = format!("{name} has no scheduling gate and belongs to no PodSequence");
            let below = sequence::explain::explain_ungated(facts, pod, now);
            Line::new("NotHeld", text, pod.since, Target::of_pod(pod)).with(below)
        }
        (1, 0) => lines.remove(0),
        (0, 1) => released.remove(0),
        (gates, claims) => {
            let by_sequences = lines.iter().all(|line| line.code == "Held");
            let text = match by_sequences {
                true => format!("{name} belongs to {} sequences", gates + claims),
                false if pod.gates.is_empty() => format!("{} features apply to {name}", gates + claims),
                false => format!("{name} is held by {} gates", pod.gates.len()),
            };
            lines.append(&mut released);
            Line::new("SeveralGates", text, pod.created, Target::of_pod(pod)).with(lines)
        }
    }
}

fn explain_gate(index: &Index, pod: &Pod, gate: &Arc<str>, now: Timestamp) -> Vec<Line> {
    let facts = index.facts();
    if **gate == *gates::LAUNCH
        && let Some(line) = launch::explain::explain(index.launch_facts(), pod, now)
    {
        return vec![line];
    }
    if **gate == *gates::TICKET
        && let Some(line) = reservation::explain::explain_claiming_pod(index.reservation_facts(), pod, now)
    {
        return vec![line];
    }
    let held = sequence::explain::explain_gate(facts, pod, gate, now);
    if !held.is_empty() {
        return held;
    }
    let (name, object, time) = (&pod.name, Target::of_pod(pod), elapsed(pod.created, now));
    let line = |code, text: String| Line::new(code, text, pod.created, object);
    if let Some(feature) = gates::feature(gate) {
        let doctor = Hint::Advice(
            "check that the feature is installed and its controller runs: rollcall doctor".into(),
        );
        let text = format!("{name} is held by {gate}, the gate of {feature}, for {time}");
        let reason = Some(Reason::OwnGate { pod: name.clone(), gate: gate.clone(), feature });
        return vec![Line { reason, ..line("OwnGate", text).hint(doctor) }];
    }
    if sequence::explain::is_sequence_gate(facts, &pod.namespace, gate) {
        let create = Hint::Advice("create a PodSequence that names or selects it".into());
        let release =
            Hint::rollcall("release", &pod.namespace, format!("pod/{name}")).to("or remove the gate");
        let text = format!("{name} is held by the gate {gate} for {time} and belongs to no PodSequence");
        return vec![line("NotClaimed", text).hint(create).hint(release)];
    }
    let owner = Hint::Advice(format!("ask the owner of the gate {gate}"));
    let text = format!("{name} is held by the gate {gate} for {time}; Rollcall does not manage this gate");
    let reason = Some(Reason::ForeignGate { pod: name.clone(), gate: gate.clone() });
    vec![Line { reason, ..line("ForeignGate", text).hint(owner) }]
}
