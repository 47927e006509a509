//! Sequences in Node scope: first agents on each node, then other pods, kept off by labels or by taints. One node joins
//! later; one sequence is deleted half-way.

use super::super::fault::Fault;
use super::{
    AGENTS_LABEL, AgentTraits, DRIVER, Group, Guard, NAMESPACE, READY_AFTER, SequenceEnd, SequenceRule,
    UserAction, When, World, create_node, has_note, sequence, template,
};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::store::Key;
use rollcall_api::names;
use serde_json::{Value, json};

/// Joins while the other nodes are still starting.
const LATE_NODE: &str = "node-3";
/// Number of nodes at the beginning and at the end.
const AT_FIRST: usize = 2;
const FINALLY: usize = 3;

const fn agents(name: &'static str, agents: AgentTraits) -> Group {
    Group { finally: FINALLY, agents: Some(agents), ..Group::tier(name, AT_FIRST) }
}

const fn by_nodes(
    sequence: &'static str,
    groups: &'static [Group],
    end: SequenceEnd,
    guard: Guard,
) -> SequenceRule {
    let guard = Some(guard);
    SequenceRule { namespace: NAMESPACE, sequence, groups, end, permitted: true, lets_go: true, guard }
}

static BY_LABELS: SequenceRule = by_nodes(
    "labels",
    &[
        agents("agent", AgentTraits { labelled: false, driver: true }),
        agents("log", AgentTraits { labelled: true, driver: false }),
        Group::tier("web", 3),
    ],
    SequenceEnd::Completed,
    Guard::Labels,
);

static BY_TAINTS: SequenceRule = by_nodes(
    "taints",
    &[
        Group { settle_seconds: 1, ..agents("agent", AgentTraits { labelled: false, driver: false }) },
        Group::tier("store", 2),
        Group::tier("web", 2),
    ],
    SequenceEnd::Completed,
    Guard::Taints,
);

static RULES: [SequenceRule; 2] = [
    by_nodes(
        "stays",
        &[agents("agent", AgentTraits { labelled: true, driver: true }), Group::tier("web", 2)],
        SequenceEnd::Completed,
        Guard::Labels,
    ),
    // Deleted before any node is open for its last group. Its held pods and its leftovers on nodes must be cleaned up.
    by_nodes(
        "gone",
        &[
            Group { settle_seconds: 3600, ..agents("early", AgentTraits { labelled: false, driver: false }) },
            Group::tier("late", 2),
        ],
        SequenceEnd::Deleted,
        Guard::Taints,
    ),
];

const NODE_JOINS: UserAction = UserAction { when: When::At(2_500), act: add_node };

pub static LABELS: World = World {
    name: "nodes by labels",
    full: true,
    launch: false,
    reservation: false,
    rules: std::slice::from_ref(&BY_LABELS),
    manifests: || manifests(std::slice::from_ref(&BY_LABELS)),
    script: &[NODE_JOINS],
    held: &[],
    spared: &[],
};

pub static TAINTS: World = World {
    name: "nodes by taints",
    full: true,
    launch: false,
    reservation: false,
    rules: std::slice::from_ref(&BY_TAINTS),
    manifests: || manifests(std::slice::from_ref(&BY_TAINTS)),
    script: &[NODE_JOINS],
    held: &[],
    spared: &[],
};

pub static DELETION: World = World {
    name: "nodes, farewell",
    full: true,
    launch: false,
    reservation: false,
    rules: &RULES,
    manifests: || manifests(&RULES),
    script: &[
        UserAction { when: When::Once(2_500, has_note_of_gone), act: delete },
        UserAction { when: When::Finished, act: add_node },
    ],
    held: &[],
    // The first four are spared as in `deletion`. The others delay news of pods. If the sequence is deleted meanwhile, a
    // pod can stay held: its note is removed before the controller hears of the pod.
    spared: &[
        Fault::Forbidden,
        Fault::ListForbidden,
        Fault::Quota,
        Fault::NamespaceGone,
        Fault::Hang,
        Fault::Silence,
        Fault::Behind,
        Fault::Unseen,
        Fault::ServerRestart,
    ],
};

/// Installs Rollcall's admission in a namespace that opts in and permits taints.
pub fn install(cluster: &mut Cluster) {
    cluster.admission.installed = true;
    let _ = cluster.update(&Key::new(Kind::Namespace, "", NAMESPACE), |there| {
        there["metadata"]["labels"][names::ENABLED_LABEL] = names::ENABLED_VALUE.into();
        there["metadata"]["annotations"][names::ALLOW_NODE_TAINTS] = "true".into();
    });
}

fn manifests(rules: &[SequenceRule]) -> Vec<(Kind, Value)> {
    let mut all = Vec::new();
    for rule in rules {
        let guard = if rule.guard == Some(Guard::Taints) { "Taints" } else { "Labels" };
        let groups: Vec<Value> = rule.groups.iter().map(group).collect();
        all.push(sequence(rule, json!({ "scope": "Node", "nodeGuard": guard, "podGroups": groups })));
        all.extend(rule.groups.iter().map(|group| workload(rule, group)));
    }
    all
}

fn selector(group: &Group) -> Value {
    json!({ "matchLabels": { "tier": group.name } })
}

fn group(group: &Group) -> Value {
    let mut spec = json!({ "name": group.name, "podSelector": selector(group) });
    if group.settle_seconds > 0 {
        spec["waitDuration"] = format!("{}s", group.settle_seconds).into();
    }
    if group.agents.is_some_and(|agents| agents.driver) {
        spec["nodeReady"] = json!({ "csiDriver": DRIVER });
    }
    spec
}

/// The workload of a group. Agents have no gate in their template, because admission adds it. Pods that outlive their
/// sequence have no gate either, because it would hold them forever.
fn workload(rule: &SequenceRule, group: &Group) -> (Kind, Value) {
    let metadata = json!({ "name": group.name, "namespace": NAMESPACE });
    let mut template = template(group.name, "Always");
    if group.agents.is_some() || rule.end == SequenceEnd::Deleted {
        template["spec"]["schedulingGates"] = json!([]);
    }
    let Some(agents) = group.agents else {
        let spec = json!({ "replicas": group.required, "selector": selector(group), "template": template });
        return (Kind::Deployment, json!({ "metadata": metadata, "spec": spec }));
    };
    template["spec"]["tolerations"] = json!([{ "operator": "Exists" }]);
    template["metadata"]["annotations"] = json!({ READY_AFTER: "700ms" });
    if agents.labelled {
        template["spec"]["nodeSelector"] = json!({ AGENTS_LABEL: "yes" });
    }
    if agents.driver {
        template["metadata"]["annotations"]["testbed.rollcall.dev/csi-driver"] = DRIVER.into();
    }
    let spec = json!({ "selector": selector(group), "template": template });
    (Kind::DaemonSet, json!({ "metadata": metadata, "spec": spec }))
}

fn add_node(cluster: &mut Cluster) {
    create_node(cluster, LATE_NODE);
}

fn has_note_of_gone(cluster: &Cluster) -> bool {
    has_note(cluster, &RULES[1])
}

fn delete(cluster: &mut Cluster) {
    let _ = cluster.delete(&RULES[1].key());
}
