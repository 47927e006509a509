//! Leftovers that no controller removes: gates of launch order and reservations; held pods, marks on nodes and notes of deleted
//! sequences.

use super::held::{Gate, held_by};
use super::{Case, number, reservations, some};
use crate::commands::doctor::fetched::Fetched;
use crate::commands::doctor::finding::{Check, DoctorFinding};
use crate::output::age;
use rollcall_api::load::Loader;
use rollcall_api::names;
use rollcall_api::sequence::SequenceObject;
use rollcall_api::watch::journal_key;
use rollcall_core::Uid;
use rollcall_core::facts::Pod;
use rollcall_core::index::Index;
use rollcall_core::kind::Kind;
use rollcall_core::node::Node;
use rollcall_core::sequence::keys;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Limit of names in one command; the next run of `doctor` prints the others.
const AT_ONCE: usize = 50;

pub fn check(case: &Case<'_>) -> Vec<DoctorFinding> {
    let launch = Gate { name: names::LAUNCH_GATE, feature: "order containers", last: false, missing: None };
    let mut findings = held_by(case, &launch);
    findings.extend(reservations::leftovers(case));
    findings.extend(of_sequences(case));
    if findings.is_empty() {
        findings.push(Check::Leftovers.ok("no stuck pods, no leftovers of deleted sequences"));
    }
    findings
}

fn of_sequences(case: &Case<'_>) -> Vec<DoctorFinding> {
    let none = Vec::new();
    let sequences = match &case.seen.sequences {
        Fetched::Found(sequences) => sequences,
        // Without the CRD there are no sequences.
        Fetched::Absent => &none,
        Fetched::Forbidden(_) => {
            return vec![
                Check::Leftovers.unknown("leftovers of deleted sequences", "the sequences cannot be listed"),
            ];
        }
    };
    let mut findings = pods(case, sequences);
    findings.extend(nodes(case, sequences));
    findings.extend(notes(case, sequences));
    findings
}

fn pods(case: &Case<'_>, sequences: &[SequenceObject]) -> Vec<DoctorFinding> {
    let unbound = match &case.seen.unbound {
        Fetched::Found(pods) => pods.as_slice(),
        Fetched::Absent => &[],
        Fetched::Forbidden(why) => {
            return vec![Check::Leftovers.unknown("held pods that belong to no sequence", why)];
        }
    };
    let mut loader = Loader::into_index(Index::of_full_mode());
    let namespaces = case.seen.namespaces.value();
    loader.add(Kind::Namespace, namespaces.map(Vec::as_slice).unwrap_or_default());
    loader.add(Kind::Sequence, sequences);
    loader.add(Kind::Pod, unbound);
    // The members of an invalid sequence are unknown, so pods of its namespace are not reported.
    let mut obscure: BTreeSet<Arc<str>> = BTreeSet::new();
    for sequence in sequences.iter().map(|object| object.facts()) {
        obscure.extend(sequence.spec.is_err().then(|| sequence.namespace.clone()));
        // If namespaces cannot be read, it is unknown whether a sequence may manage pods of another namespace.
        let target = sequence.spec.as_ref().ok().map(|spec| spec.pod_namespace.clone());
        obscure.extend(target.filter(|target| namespaces.is_none() && *target != sequence.namespace));
    }
    let mut stuck: BTreeMap<(Arc<str>, Arc<str>), Vec<Pod>> = BTreeMap::new();
    for pod in unbound.iter().map(|pod| pod.facts()).filter(|pod| !obscure.contains(&pod.namespace)) {
        if let Some(gate) = unclaimed(&loader.index, &pod).filter(|_| !pod.terminating) {
            stuck.entry((pod.namespace.clone(), gate)).or_default().push(pod);
        }
    }
    stuck.iter().map(|((namespace, gate), pods)| unreleased(case, namespace, gate, pods)).collect()
}

/// Returns a Rollcall gate of the pod that no sequence will remove. Launch order has its own gate and check.
fn unclaimed(index: &Index, pod: &Pod) -> Option<Arc<str>> {
    let memberships: Vec<Arc<str>> = index
        .facts()
        .memberships_of(pod.uid)
        .filter_map(|membership| Some(index.sequences.get(membership.sequence)?.spec()?.gate.clone()))
        .collect();
    let ours = |gate: &&Arc<str>| gate.starts_with(names::PREFIX) && ***gate != *names::LAUNCH_GATE;
    pod.gates.iter().filter(ours).find(|gate| !memberships.contains(gate)).cloned()
}

fn unreleased(case: &Case<'_>, namespace: &str, gate: &str, pods: &[Pod]) -> DoctorFinding {
    let names: Vec<String> = pods.iter().map(|pod| pod.name.to_string()).collect();
    let oldest = pods.iter().map(|pod| pod.created).min().unwrap_or(case.seen.now);
    let text = format!(
        "{} held by {gate} in namespace {namespace} for up to {}, but no PodSequence selects them: {}",
        number(pods.len(), "pod"),
        age(oldest, case.seen.now),
        some(&names)
    );
    let release =
        |pod: &str| case.command_line.rollcall(format!("release pod/{pod} -n {namespace} --gate {gate}"));
    let fix = match names.as_slice() {
        [one] => release(one),
        several => {
            let several = several.iter().take(AT_ONCE).map(String::as_str).collect::<Vec<_>>().join(" ");
            format!("for pod in {several}; do {}; done", release("$pod"))
        }
    };
    Check::Leftovers.problem(text).fix(fix)
}

/// Kind of mark that a sequence sets on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mark {
    Label,
    Taint,
    Journal,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Marked {
    mark: Mark,
    key: String,
    /// Uid of the sequence, as written on the node.
    sequence: String,
}

fn nodes(case: &Case<'_>, sequences: &[SequenceObject]) -> Vec<DoctorFinding> {
    let nodes = match &case.seen.nodes {
        Fetched::Found(nodes) => nodes.as_slice(),
        Fetched::Absent => &[],
        Fetched::Forbidden(why) => return vec![Check::Leftovers.unknown("marks on nodes", why)],
    };
    let living: BTreeSet<Uid> = sequences.iter().map(|object| object.metadata.uid()).collect();
    // In Lite mode no controller removes marks that Full mode has set.
    let lite = case.installed.is_lite();
    let mut found: BTreeMap<Marked, Vec<String>> = BTreeMap::new();
    for node in nodes.iter().map(|node| node.facts()) {
        let gone = |marked: &Marked| lite || !living.contains(&Uid::new(&marked.sequence));
        for marked in marks(&node).into_iter().filter(gone) {
            found.entry(marked).or_default().push(node.name.to_string());
        }
    }
    found.iter().map(|(marked, nodes)| left_on(case, marked, nodes)).collect()
}

fn marks(node: &Node) -> Vec<Marked> {
    let labels = node.labels.iter().map(|(key, value)| (Mark::Label, key, value));
    let taints = node.taints.iter().map(|taint| (Mark::Taint, &taint.key, &taint.value));
    let keys = labels.chain(taints).filter(|(_, key, _)| keys::is_key(key));
    let keys =
        keys.map(|(mark, key, value)| Marked { mark, key: key.to_string(), sequence: value.to_string() });
    let journals = node.journals.keys().map(|uid| Marked {
        mark: Mark::Journal,
        key: journal_key(*uid),
        sequence: uid.to_string(),
    });
    keys.chain(journals).collect()
}

fn left_on(case: &Case<'_>, marked: &Marked, nodes: &[String]) -> DoctorFinding {
    let Marked { mark, key, sequence } = marked;
    let these = nodes.iter().take(AT_ONCE).map(String::as_str).collect::<Vec<_>>().join(" ");
    let on = format!(
        "on {} is a leftover of a deleted or unserved sequence: {}",
        number(nodes.len(), "node"),
        some(nodes)
    );
    match mark {
        Mark::Label => Check::Leftovers
            .problem(format!("label {key} {on}; pods that avoid the label cannot be scheduled there"))
            .fix(case.command_line.kubectl(format!("label nodes -l {key}={sequence} {key}-"))),
        Mark::Taint => Check::Leftovers
            .problem(format!("taint {key} {on}; pods without a toleration cannot be scheduled there"))
            .fix(case.command_line.kubectl(format!("taint nodes {these} {key}-"))),
        Mark::Journal => Check::Leftovers
            .note(format!("annotation {key} {on}"))
            .fix(case.command_line.kubectl(format!("annotate nodes {these} {key}-"))),
    }
}

/// Notes of deleted sequences, which name the pods to release. A leading controller processes them at once.
fn notes(case: &Case<'_>, sequences: &[SequenceObject]) -> Option<DoctorFinding> {
    let notes = match &case.seen.notes {
        Fetched::Found(notes) => notes,
        Fetched::Absent => return None,
        Fetched::Forbidden(why) => return Some(Check::Leftovers.unknown("notes", why)),
    };
    let living: BTreeSet<Uid> = sequences.iter().map(|object| object.metadata.uid()).collect();
    let left = notes.iter().filter(|note| note.facts().is_none_or(|facts| !living.contains(&facts.sequence)));
    let left: Vec<String> = left.map(|note| note.metadata.name.clone()).collect();
    (!left.is_empty()).then(|| {
        let count = number(left.len(), "note");
        let text =
            format!("{count} of deleted sequences, to be processed when a controller leads: {}", some(&left));
        Check::Leftovers.note(text)
    })
}
