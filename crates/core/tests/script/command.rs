//! The commands of a step, one per line. Words in capitals are placeholders.
//!
//! ```text
//! at SECONDS                               sets the clock, counted from the start
//! pod NAME [KEY=VALUE …] [of KIND/NAME] [in NAMESPACE] [nogate] [gate:NAME …] [exits]
//! NAME becomes ready | unready | running | started | succeeded | failed | terminating | gone | ungated | byhand
//! NAME labels KEY=VALUE,…
//! deployment | replicaset | statefulset | daemonset | job | cronjob NAME COUNT [KEY=VALUE …] [of NAME] [rev:N] [behind]
//!     all: [stopped] by `rollcall stop`; jobs also: [completions:N] [succeeded:N] [complete] [failed] [suspended] [exits]
//! gone KIND/NAME                           a workload is deleted
//! namespace NAME [allow:LIST]
//! gone namespace NAME
//! SEQUENCE begins again TOKEN              the annotation `begin-again`
//! delete SEQUENCE
//! recreate SEQUENCE                        the same name, another uid
//! restart | relist | away | back           the controller
//! answers prompt | lost | refused | gone   to subsequent releases
//! catch up                                 the watch delivers all outstanding events
//! status always | urgent                   which statuses are written
//! notes off
//! budget N
//! ```

use crate::support::{
    build::{self, GATE, HOME},
    world::{Answers, World, Writing},
};
use jiff::SignedDuration;
use rollcall_core::{
    Uid,
    facts::{Job, Namespace, Owner, OwnerKind, Pod, PodPhase},
    index::Object,
    sequence::Sequence,
};
use std::sync::Arc;

pub fn run(command: &str, world: &mut World) -> Result<(), String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    match words.as_slice() {
        ["at", seconds] => {
            let seconds: i64 = seconds.trim_end_matches('s').parse().map_err(|_| "not a number")?;
            world.now = build::start() + SignedDuration::from_secs(seconds);
        }
        ["pod", name, rest @ ..] => create_pod(name, rest, world)?,
        [name, "becomes", state] => becomes(name, state, world)?,
        [name, "labels", labels] => {
            let mut pod = find(world, name)?;
            pod.labels = build::labels(labels);
            world.apply(Object::Pod(pod));
        }
        ["gone", "namespace", name] => {
            let namespace = world.truth.namespaces.get(*name).cloned().ok_or("no such namespace")?;
            world.delete(Object::Namespace(namespace));
        }
        ["gone", workload] => {
            let uid = workload_uid(workload)?;
            let owner = world.truth.owners.get(&uid).cloned().ok_or("no such workload")?;
            world.delete(Object::Owner(owner));
        }
        ["namespace", name, rest @ ..] => {
            let allow_from = rest.iter().find_map(|word| word.strip_prefix("allow:")).map(Into::into);
            world.apply(Object::Namespace(Namespace {
                name: (*name).into(),
                version: 0,
                allow_from,
                allow_node_taints: false,
            }));
        }
        [name, "begins", "again", token] => {
            let known = world.truth.sequences.values().find(|sequence| *sequence.name == **name).cloned();
            let begin_again = Some(Arc::from(*token));
            world.apply(Object::Sequence(Sequence { begin_again, ..known.ok_or("no such sequence")? }));
        }
        ["delete", name] => {
            let sequence = world.truth.sequences.values().find(|sequence| *sequence.name == **name).cloned();
            world.delete(Object::Sequence(sequence.ok_or("no such sequence")?));
        }
        ["restart" | "back"] => world.restart(),
        ["relist"] => world.relist(),
        ["away"] => world.present = false,
        ["catch", "up"] => world.catch_up(),
        ["notes", "off"] => world.settings.notes = false,
        ["budget", number] => world.budget = number.parse().map_err(|_| "not a number")?,
        ["status", "always"] => world.writing = Writing::Always,
        ["status", "urgent"] => world.writing = Writing::OnlyUrgent,
        ["answers", "prompt"] => world.answers = Answers::Prompt,
        ["answers", "lost"] => world.answers = Answers::Lost,
        ["answers", "refused"] => world.answers = Answers::Refused,
        ["answers", "gone"] => world.answers = Answers::Gone,
        [kind, name, count, rest @ ..] => workload(kind, name, count, rest, world)?,
        _ => return Err("not understood".into()),
    }
    Ok(())
}

fn create_pod(name: &str, rest: &[&str], world: &mut World) -> Result<(), String> {
    // A pod with a known name is a different pod.
    let uid = format!("pod {name} {}", world.next_version());
    let mut pod = build::pod(HOME, name, &uid, "", world.now);
    let mut pairs = Vec::new();
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        match (*word, word.split_once('='), word.strip_prefix("gate:")) {
            ("nogate", _, _) => pod.gates.clear(),
            ("exits", _, _) => pod.runs_to_completion = true,
            ("in", _, _) => pod.namespace = (*words.next().ok_or("in what?")?).into(),
            ("of", _, _) => {
                let workload = words.next().ok_or("of what?")?;
                let (kind, _) = workload.split_once('/').ok_or("KIND/NAME")?;
                let kind = owner_kind(kind)?;
                pod.owner = Some(rollcall_core::facts::OwnerRef { kind, uid: workload_uid(workload)? });
            }
            (_, Some(pair), _) => pairs.push(pair),
            (_, None, Some(gate)) => {
                pod.gates.retain(|gate| **gate != *GATE || rest.contains(&"gated"));
                pod.gates.push(gate.into());
            }
            ("gated", None, None) => {}
            (other, None, None) => return Err(format!("what is {other}?")),
        }
    }
    pod.labels = pairs.into_iter().collect();
    // The deletion of the previous pod is not delivered: the new pod of that name implies it.
    world.truth.pods.retain(|_, known| known.name != pod.name || known.namespace != pod.namespace);
    world.apply(Object::Pod(pod));
    Ok(())
}

fn becomes(name: &str, state: &str, world: &mut World) -> Result<(), String> {
    let mut pod = find(world, name)?;
    let running = |pod: &mut Pod| {
        (pod.phase, pod.node) = (PodPhase::Running, Some("node-1".into()));
    };
    if !pod.gates.is_empty() && matches!(state, "ready" | "running" | "started" | "succeeded" | "failed") {
        return Err(format!("it is gated by {:?}", pod.gates));
    }
    pod.since = world.now;
    match state {
        "running" => running(&mut pod),
        "started" => {
            running(&mut pod);
            pod.started = true;
        }
        "ready" => {
            running(&mut pod);
            (pod.started, pod.ready) = (true, true);
        }
        "unready" => pod.ready = false,
        "succeeded" => (pod.phase, pod.node, pod.ready) = (PodPhase::Succeeded, Some("node-1".into()), false),
        "failed" => (pod.phase, pod.node, pod.ready) = (PodPhase::Failed, Some("node-1".into()), false),
        "terminating" => pod.terminating = true,
        "ungated" => pod.gates.retain(|gate| **gate != *GATE),
        "byhand" => {
            pod.gates.retain(|gate| **gate != *GATE);
            pod.released_by_hand = true;
        }
        "gone" => {
            world.delete(Object::Pod(pod));
            return Ok(());
        }
        other => return Err(format!("nothing becomes {other}")),
    }
    world.apply(Object::Pod(pod));
    Ok(())
}

fn workload(kind: &str, name: &str, count: &str, rest: &[&str], world: &mut World) -> Result<(), String> {
    let kind = owner_kind(kind)?;
    let desired = count.parse().map_err(|_| "how many?")?;
    let mut owner = build::owner(kind, HOME, name, "", desired);
    let known = world.truth.owners.get(&owner.uid);
    owner.created = known.map_or(world.now, |known| known.created);
    if kind == OwnerKind::CronJob {
        owner.desired = None;
    }
    let number = |text: &str| text.parse::<u32>().map_err(|_| format!("{text} is not a number"));
    let mut job = Job {
        completions: None,
        succeeded: 0,
        complete: false,
        failed: false,
        suspended: false,
        runs_to_completion: false,
    };
    let mut pairs = Vec::new();
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        match (*word, word.split_once('='), word.split_once(':')) {
            ("behind", _, _) => owner.desired = None,
            ("terminating", _, _) => owner.terminating = true,
            ("stopped", _, _) => owner.stopped = true,
            ("exits", _, _) => job.runs_to_completion = true,
            ("complete", _, _) => job.complete = true,
            ("failed", _, _) => job.failed = true,
            ("suspended", _, _) => job.suspended = true,
            ("of", _, _) => {
                let parent = words.next().ok_or("of what?")?;
                let above = if kind == OwnerKind::Job { OwnerKind::CronJob } else { OwnerKind::Deployment };
                owner.parent = Some(build::owner_ref(above, HOME, parent));
            }
            (_, Some(pair), _) => pairs.push(pair),
            (_, _, Some(("rev", revision))) => owner.revision = Some(revision.into()),
            (_, _, Some(("completions", text))) => job.completions = Some(number(text)?),
            (_, _, Some(("succeeded", text))) => job.succeeded = number(text)?,
            (other, _, _) => return Err(format!("what is {other}?")),
        }
    }
    owner.template_labels = pairs.into_iter().collect();
    owner.job = (kind == OwnerKind::Job).then_some(job);
    world.apply(Object::Owner(Owner { ..owner }));
    Ok(())
}

fn owner_kind(word: &str) -> Result<OwnerKind, String> {
    match word {
        "deployment" => Ok(OwnerKind::Deployment),
        "replicaset" => Ok(OwnerKind::ReplicaSet),
        "statefulset" => Ok(OwnerKind::StatefulSet),
        "daemonset" => Ok(OwnerKind::DaemonSet),
        "job" => Ok(OwnerKind::Job),
        "cronjob" => Ok(OwnerKind::CronJob),
        "other" => Ok(OwnerKind::Other),
        word => Err(format!("{word} is not a workload")),
    }
}

fn workload_uid(workload: &str) -> Result<Uid, String> {
    let (kind, name) = workload.split_once('/').ok_or("KIND/NAME")?;
    Ok(build::owner_uid(owner_kind(kind)?, HOME, name))
}

/// The pod of that name in the cluster.
fn find(world: &World, name: &str) -> Result<Pod, String> {
    let (namespace, name) = name.split_once('/').unwrap_or((HOME, name));
    world.pod_named(namespace, name).cloned().ok_or(format!("no pod {namespace}/{name}"))
}
