//! Explains why a pod waits in an init container: the marker, its agent, and why the agent is not ready on this node.

use super::recognise::Found;
use crate::{
    Timestamp,
    cluster::Target,
    facts::{Owner, Pod},
    kind::Kind,
    line::{Hint, Line, elapsed},
    node::{Node, Taint},
};
use std::sync::Arc;

/// A pod whose init container waits for files on its node.
#[derive(Clone, Debug)]
pub struct WaitingPod {
    pub pod: Pod,
    pub container: String,
    pub files: Vec<Found>,
    /// The start of the wait, over all attempts of the container.
    pub since: Timestamp,
    /// Whether the container gave up and restarts after a back-off.
    pub pauses: bool,
}

/// A DaemonSet that writes markers.
#[derive(Clone, Debug)]
pub struct Agent {
    pub daemon_set: Owner,
    /// Paths of its markers on nodes.
    pub markers: Vec<String>,
    /// Its pods on the node of the waiting pod.
    pub pods: Vec<Pod>,
}

/// Explains the wait. `node` is `None` if the caller is not permitted to read it.
pub fn explain(waiting: &WaitingPod, agents: &[Agent], node: Option<&Node>, now: Timestamp) -> Line {
    let WaitingPod { pod, container, files, since, pauses } = waiting;
    let names: Vec<&str> = files.iter().map(|file| file.host.as_deref().unwrap_or(&file.path)).collect();
    let place = pod.node.as_deref().unwrap_or("its node");
    let pauses = if *pauses { "; the container gave up and restarts after a back-off" } else { "" };
    let text = format!(
        "{} waits in its init container {container} for {} on {place} for {}{pauses}",
        pod.name,
        names.join(", "),
        elapsed(*since, now)
    );
    let log = Hint::kubectl("logs", &pod.namespace, format!("{} -c {container}", pod.name))
        .to("show the log of the init container");
    let below = files.iter().flat_map(|file| about_file(waiting, file, agents, node, now)).collect();
    Line::new("WaitsForAgent", text, *since, Target::of_pod(pod)).with(below).hint(log)
}

fn about_file(
    waiting: &WaitingPod,
    file: &Found,
    agents: &[Agent],
    node: Option<&Node>,
    now: Timestamp,
) -> Vec<Line> {
    let line = |code, text| Line::new(code, text, waiting.since, Target::of_pod(&waiting.pod));
    let Some(host) = &file.host else {
        let text = format!(
            "{} is not in a folder of the node; only this pod or its volumes can provide the file",
            file.path
        );
        return vec![line("MarkerNotOnNode", text)];
    };
    let writers: Vec<&Agent> = agents.iter().filter(|agent| agent.markers.contains(host)).collect();
    if writers.is_empty() {
        let annotate = Hint::Advice(format!(
            "annotate the DaemonSet that writes the file with rollcall.dev/marker: {host}"
        ));
        let text = format!("no visible DaemonSet declares that it writes {host}");
        return vec![line("AgentUnknown", text).hint(annotate)];
    }
    writers.into_iter().map(|agent| about_agent(waiting, file, agent, node, now)).collect()
}

fn about_agent(
    waiting: &WaitingPod,
    file: &Found,
    agent: &Agent,
    node: Option<&Node>,
    now: Timestamp,
) -> Line {
    let owner = &agent.daemon_set;
    let uid = Some(owner.uid);
    let object =
        Target { kind: Kind::DaemonSet, namespace: owner.namespace.clone(), name: owner.name.clone(), uid };
    let below = match agent.pods.iter().find(|pod| !pod.terminating).or(agent.pods.first()) {
        Some(pod) => about_pod(waiting, file, pod, now),
        None => absent(waiting, agent, node, &object),
    };
    let marker = file.host.as_deref().unwrap_or(&file.path);
    let text = format!("{marker} is written by DaemonSet {}/{}", owner.namespace, owner.name);
    Line::new("Agent", text, owner.created, object).with(vec![below])
}

/// The line about an agent that has a pod on the node.
fn about_pod(waiting: &WaitingPod, file: &Found, agent: &Pod, now: Timestamp) -> Line {
    let line = |code, text| Line::new(code, text, agent.since, Target::of_pod(agent));
    let (name, place) = (&agent.name, agent.node.as_deref().unwrap_or("the node"));
    let describe = Hint::kubectl("describe pod", &agent.namespace, name.to_string());
    let logs = Hint::kubectl("logs", &agent.namespace, name.to_string());
    if agent.terminating {
        return line("AgentNotReady", format!("{name} on {place} is being deleted")).hint(describe);
    }
    if !agent.ready {
        let why = agent.trouble.as_ref().map_or(String::new(), |trouble| format!(": {trouble}"));
        let text = format!("{name} on {place} has not been ready for {}{why}", elapsed(agent.since, now));
        return line("AgentNotReady", text).hint(logs).hint(describe);
    }
    if !file.propagated {
        let text = format!(
            "{name} on {place} is ready, but container {} cannot see mounts created after it started: its volume mount lacks \
             mountPropagation: HostToContainer",
            waiting.container
        );
        let fix = Hint::Advice(format!(
            "set mountPropagation: HostToContainer for {} in {}",
            file.path, waiting.container
        ));
        return line("MountNotPropagated", text).hint(fix);
    }
    let text = format!(
        "{name} on {place} is ready; if the wait does not end, the marker is stale or in another place, and the log says why"
    );
    line("AgentReady", text).hint(logs)
}

/// The line about an agent that has no pod on the node.
fn absent(waiting: &WaitingPod, agent: &Agent, node: Option<&Node>, object: &Target) -> Line {
    let owner = &agent.daemon_set;
    let line = |code, text| Line::new(code, text, waiting.since, object.clone());
    let describe = || Hint::kubectl("describe daemonset", &owner.namespace, owner.name.to_string());
    let place: Arc<str> = waiting.pod.node.clone().unwrap_or_else(|| "the node".into());
    let (Some(node), Some(placement)) = (node, &owner.placement) else {
        let text = format!("it has no pod on {place}; the cause is unknown because the node cannot be read");
        return line("AgentMissing", text).hint(describe());
    };
    if !placement.matches(node) {
        let text = format!(
            "it wants no pod on {place}: its node selector or affinity does not match the labels of the node"
        );
        let labels = Hint::kubectl_cluster("get node", format!("{place} --show-labels"));
        return line("AgentNotEligible", text).hint(labels).hint(describe());
    }
    // Unlike for sequences, taints of Rollcall count here too: any taint can keep the agent off the node.
    let refuses = |taint: &&Taint| {
        let alone = Node { taints: vec![(*taint).clone()], ..node.clone() };
        !placement.wants_daemon_on(&alone, |_| false)
    };
    if let Some(taint) = node.taints.iter().find(refuses) {
        let text = format!("it wants no pod on {place}: it does not tolerate the taint {taint}");
        let tolerate =
            Hint::Advice(format!("add a toleration for {} to the template of the DaemonSet", taint.key));
        return line("AgentNotEligible", text).hint(tolerate);
    }
    line("AgentMissing", format!("it has no pod on {place} yet")).hint(describe())
}
