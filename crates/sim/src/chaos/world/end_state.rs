//! The end of a run: unfinished objects, and a summary to compare with the calm run.

use super::{
    Group, Members, OURS, SequenceEnd, SequenceRule, World, has_arrived, has_gate, reservation, tier,
};
use crate::chaos::unchanged;
use crate::cluster::Cluster;
use crate::kinds::Kind;
use rollcall_api::names;
use serde_json::{Value, json};

/// Describes something that has not reached its end state. All pods must have arrived, except those that must stay held,
/// and all sequences must report their end.
pub fn unfinished(world: &World, cluster: &Cluster, scripted: bool) -> Option<String> {
    for (key, pod) in cluster.store.list(Kind::Pod, None) {
        let name = &*key.name;
        if reservation::is_guardian(pod) {
            continue;
        }
        let gates = [names::SEQUENCE_GATE, names::LAUNCH_GATE, names::TICKET_GATE];
        match (world.held.contains(&name), gates.iter().any(|gate| has_gate(pod, gate))) {
            (true, true) => {}
            (true, false) => return Some(format!("pod {name} was released")),
            (false, true) => return Some(format!("pod {name} is held")),
            (false, false) if !has_arrived(pod) => return Some(format!("pod {name} has not arrived")),
            (false, false) => {}
        }
    }
    let of_sequences = || world.rules.iter().find_map(|rule| of_sequence(rule, cluster, scripted));
    let of_reservations = || if world.reservation { reservation::unfinished(cluster) } else { None };
    of_sequences()
        .or_else(|| on_nodes(world, cluster))
        .or_else(|| left_behind(cluster))
        .or_else(of_reservations)
}

/// A ConfigMap whose pod no longer exists.
fn left_behind(cluster: &Cluster) -> Option<String> {
    let living = |uid: &Value| cluster.store.list(Kind::Pod, None).any(|(_, pod)| uid == pod.uid());
    let mut all = cluster.store.list(Kind::ConfigMap, None);
    let left = all.find(|(_, map)| {
        let owner = &map["metadata"]["ownerReferences"][0];
        owner["kind"] == "Pod" && !living(&owner["uid"])
    });
    left.map(|(key, _)| format!("ConfigMap {} still exists although its pod does not", key.name))
}

/// A leftover key on a node. Only journals of existing sequences may stay. In Full mode without sequences in Node scope,
/// the label of new nodes may stay as well.
fn on_nodes(world: &World, cluster: &Cluster) -> Option<String> {
    let unseen_stays = world.full && world.rules.iter().all(|rule| rule.guard.is_none());
    let sequences = || cluster.store.list(Kind::PodSequence, None).map(|(_, sequence)| sequence.uid());
    let may_stay = |key: &String| {
        let uid = key.strip_prefix(names::JOURNAL_PREFIX);
        uid.is_some_and(|uid| sequences().any(|living| living == uid))
            || unseen_stays && key == names::UNSEEN_LABEL
    };
    let nodes = cluster.store.list(Kind::Node, None);
    let mut left =
        nodes.flat_map(|(key, node)| unchanged::own_keys(node).into_iter().map(move |mark| (key, mark)));
    left.find(|(_, mark)| !may_stay(mark)).map(|(key, mark)| format!("node {} still has {mark}", key.name))
}

fn of_sequence(rule: &SequenceRule, cluster: &Cluster, scripted: bool) -> Option<String> {
    let (name, found) = (rule.sequence, cluster.store.get(&rule.key()));
    let missing = rule.groups.iter().find_map(|group| of_group(group, cluster, scripted));
    let phase = match rule.end {
        SequenceEnd::Deleted if found.is_some() => return Some(format!("{name} still exists")),
        SequenceEnd::Deleted => return None,
        SequenceEnd::Failed => "Failed",
        SequenceEnd::Completed if missing.is_some() => return missing,
        SequenceEnd::Completed => "Completed",
    };
    let Some(sequence) = found else { return Some(format!("{name} is missing")) };
    let status = &sequence["status"];
    if status["phase"] != phase {
        return Some(format!("{name} is {}: {}", status["phase"], status["message"]));
    }
    if status["observedGeneration"] != sequence["metadata"]["generation"] {
        return Some(format!("the status of {name} is of generation {}", status["observedGeneration"]));
    }
    let groups = rule.groups.iter().filter(|_| rule.end == SequenceEnd::Completed);
    groups.enumerate().find_map(|(position, group)| {
        let (told, there) = (&status["groups"][position]["present"], count_pods(group, cluster));
        (told != there).then(|| format!("{name} reports {told} pods in {}, but {there} exist", group.name))
    })
}

/// The number of existing pods of a group.
fn count_pods(group: &Group, cluster: &Cluster) -> usize {
    let all = cluster.store.list(Kind::Pod, Some(super::NAMESPACE));
    all.filter(|(key, pod)| group.claims(&key.name, tier(pod))).count()
}

/// The pods that a group lacks at the end. Their arrival is checked elsewhere.
fn of_group(group: &Group, cluster: &Cluster, scripted: bool) -> Option<String> {
    let there = count_pods(group, cluster);
    let wanted = if scripted { group.finally } else { group.required.min(group.finally) };
    match group.members {
        // The Job is deleted at the end.
        Members::Job(name) => (scripted && there > 0).then(|| format!("pods of {name} still exist")),
        Members::Named(_) | Members::Tier(_) if there >= wanted => None,
        Members::Named(_) | Members::Tier(_) => Some(format!("{} has {there} of {wanted} pods", group.name)),
    }
}

/// A summary of the end of a run without times, uids, versions and generated names. Faults must not change it.
pub fn end_state(world: &World, cluster: &Cluster) -> Vec<String> {
    let mut lines = Vec::new();
    if world.full {
        let nodes = cluster.store.list(Kind::Node, None);
        lines.extend(nodes.map(|(key, node)| format!("nodes/{} {}", key.name, of_node(node))));
    }
    for kind in [Kind::PodSequence, Kind::Pod, Kind::ConfigMap] {
        for (key, object) in cluster.store.list(kind, None) {
            let (name, summary) = match kind {
                Kind::Pod if reservation::is_guardian(object) => continue,
                Kind::Pod => {
                    let owned = object["metadata"]["ownerReferences"].is_array();
                    let name = if owned { tier(object) } else { &*key.name };
                    let gates = &object["spec"]["schedulingGates"];
                    let mut summary =
                        vec![object["status"]["phase"].clone(), gates.clone(), has_arrived(object).into()];
                    if world.launch {
                        summary.push(of_launch(object));
                    }
                    (name, summary.into())
                }
                Kind::PodSequence => (&*key.name, of_status(object)),
                // The name of a note contains a uid.
                _ if &*key.namespace == names::OWN_NAMESPACE => {
                    ("note", json!(object["data"].as_object().map(|data| data.len())))
                }
                // A foreign actor may delete the ConfigMap after all containers have started, without effect.
                _ if object["metadata"]["ownerReferences"].is_array() => continue,
                _ => (&*key.name, object["data"].clone()),
            };
            lines.push(format!("{}/{name} {summary}", kind.info().plural));
        }
    }
    if world.reservation {
        lines.extend(reservation::end_state(cluster));
    }
    lines.sort();
    lines
}

/// The launch progress that a pod reports. It is not updated after the pod has succeeded.
fn of_launch(pod: &Value) -> Value {
    let annotations = &pod["metadata"]["annotations"];
    match pod["status"]["phase"] == "Succeeded" {
        true => Value::Null,
        false => json!([annotations[names::LAUNCH_RANK], annotations[names::LAUNCHED]]),
    }
}

/// The status of a sequence. It omits `expected` of a complete group without pods: its Jobs were deleted, and a controller
/// that later saw an older view of them does not know the number.
fn of_status(sequence: &Value) -> Value {
    let groups = sequence["status"]["groups"].as_array().into_iter().flatten();
    let fields = ["name", "state", "expected", "present", "released", "arrived"];
    let is_over = |group: &Value| group["state"] == "Complete" && group["present"] == 0;
    let shown = |group: &Value, field: &str| match field == "expected" && is_over(group) {
        true => Value::Null,
        false => group[field].clone(),
    };
    let groups: Vec<Value> =
        groups.map(|group| fields.iter().map(|field| shown(group, field)).collect()).collect();
    json!([sequence["status"]["phase"], sequence["spec"], groups, sequence["status"]["nodes"]])
}

/// Labels and taints of a node, and the groups that its journals report as open or complete.
fn of_node(node: &Value) -> Value {
    let annotations = node["metadata"]["annotations"].as_object().into_iter().flatten();
    let journals = annotations.filter(|(key, _)| key.starts_with(OURS)).map(|(_, text)| {
        let groups = unchanged::journal_groups(text).as_object().cloned().unwrap_or_default();
        let times = |times: Value| times.as_object().map(|times| times.keys().cloned().collect::<Vec<_>>());
        groups.into_iter().map(|(group, is)| json!([group, times(is)])).collect::<Vec<_>>()
    });
    let mut journals: Vec<Value> = journals.map(Value::from).collect();
    journals.sort_by_key(Value::to_string);
    json!([node["metadata"]["labels"], node["spec"]["taints"], journals])
}
