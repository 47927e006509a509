//! The sequences: whether there is somebody who may do what they ask for.

use super::{Case, number};
use crate::commands::doctor::command_line::quoted;
use crate::commands::doctor::fetched::{DEPLOYMENT, Fetched};
use crate::commands::doctor::finding::{Check, Finding};
use crate::commands::install::Mode;
use rollcall_api::names;
use rollcall_api::watch::NamespaceObject;
use rollcall_core::sequence::Sequence;
use rollcall_core::sequence::spec::{NodeGuard, Scope, Spec};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Gates that the limits let the controller take away anywhere begin with one of these.
const OUR_GATES: [&str; 2] = [names::PREFIX, "korder.dev/"];

pub fn check(case: &Case<'_>) -> Vec<Finding> {
    let sequences: Vec<Sequence> = match &case.seen.sequences {
        Fetched::Found(sequences) => sequences.iter().map(|object| object.facts()).collect(),
        // Without the definition there are none, which has been said.
        Fetched::Absent => return Vec::new(),
        Fetched::Forbidden(why) => return vec![Check::Sequences.unknown("PodSequences", why)],
    };
    let valid: Vec<(&Sequence, &Spec)> =
        sequences.iter().filter_map(|sequence| Some((sequence, &**sequence.spec.as_ref().ok()?))).collect();
    let mut findings = by_nodes(case, &valid);
    findings.extend(permissions(case, &valid));
    if findings.is_empty() {
        let text = format!("{}: all have the permissions they need", number(sequences.len(), "PodSequence"));
        findings.push(Check::Sequences.ok(text));
    }
    findings
}

fn names_of(sequences: &[&Sequence]) -> String {
    let names: Vec<String> =
        sequences.iter().map(|sequence| format!("{}/{}", sequence.namespace, sequence.name)).collect();
    super::some(&names)
}

/// Node scope, where only Lite mode is.
fn by_nodes(case: &Case<'_>, valid: &[(&Sequence, &Spec)]) -> Vec<Finding> {
    let by_node = valid.iter().filter(|(_, spec)| spec.scope == Scope::Node).map(|(sequence, _)| *sequence);
    let by_node: Vec<&Sequence> = by_node.collect();
    if by_node.is_empty() || !case.installed.is_lite() {
        return Vec::new();
    }
    let count = number(by_node.len(), "PodSequence");
    let text = format!("{count} of scope Node, and Lite mode does not act on them: {}", names_of(&by_node));
    vec![Check::Sequences.problem(text).fix(case.command_line.install(&case.installed, Mode::Full, None))]
}

fn taints_nodes(spec: &Spec) -> bool {
    spec.scope == Scope::Node && spec.guard == NodeGuard::Taints
}

/// Where sequences taint nodes, the controller must tolerate that: if it had to move while all nodes are closed, nobody would be
/// there to open them. A toleration names one key or all of them, and each sequence has keys of its own.
fn kept_out(case: &Case<'_>, tainting: &[&Sequence]) -> Option<Finding> {
    let deployment = case.seen.object(DEPLOYMENT).found()?;
    let pod = &deployment["spec"]["template"]["spec"];
    let everything = |toleration: &Value| {
        let empty = |key: &str| toleration[key].as_str().unwrap_or_default().is_empty();
        let effect = empty("effect") || toleration["effect"] == "NoSchedule";
        toleration["operator"] == "Exists" && empty("key") && effect
    };
    let tolerates = pod["tolerations"].as_array().is_some_and(|all| all.iter().any(everything));
    if tainting.is_empty() || tolerates || case.installed.mode == Mode::Lite {
        return None;
    }
    let text = format!(
        "{} taints nodes, which the controller does not tolerate: should it have to move while all nodes are closed, nobody opens them: {}",
        number(tainting.len(), "PodSequence"),
        names_of(tainting)
    );
    let toleration = json!({"operator": "Exists", "effect": "NoSchedule"});
    let patch = match pod["tolerations"].is_array() {
        true => json!([{"op": "add", "path": "/spec/template/spec/tolerations/-", "value": toleration}]),
        false => json!([{"op": "add", "path": "/spec/template/spec/tolerations", "value": [toleration]}]),
    };
    let fix = format!("patch deployment {} --type=json -p '{patch}'", names::CONTROLLER);
    Some(Check::Sequences.problem(text).fix(case.command_line.kubectl_here(fix)))
}

fn permissions(case: &Case<'_>, valid: &[(&Sequence, &Spec)]) -> Vec<Finding> {
    let namespaces: BTreeMap<&str, &NamespaceObject> = match &case.seen.namespaces {
        Fetched::Found(objects) => {
            objects.iter().map(|object| (object.metadata.name.as_str(), object)).collect()
        }
        Fetched::Absent => BTreeMap::new(),
        Fetched::Forbidden(why) => {
            return vec![Check::Sequences.unknown("what namespaces permit", why)];
        }
    };
    let (mut findings, mut tainting) = (Vec::new(), Vec::new());
    for (sequence, spec) in valid {
        let Some(target) = namespaces.get(&*spec.pod_namespace) else {
            let who = format!("PodSequence {}/{}", sequence.namespace, sequence.name);
            findings.push(
                Check::Sequences
                    .note(format!("{who} is about namespace {}, which does not exist", spec.pod_namespace)),
            );
            continue;
        };
        let home = namespaces.get(&*sequence.namespace);
        findings.extend(guest(case, sequence, spec, target));
        findings.extend(home.and_then(|home| taints(case, sequence, spec, home)));
        if taints_nodes(spec) && home.is_some_and(|home| home.facts().allow_node_taints) {
            tainting.push(*sequence);
        }
        findings.extend(gate(case, sequence, spec, target));
    }
    findings.extend(kept_out(case, &tainting));
    findings
}

/// Sets an annotation that is a list, with what stands there already.
fn annotate(case: &Case<'_>, namespace: &NamespaceObject, key: &str, value: &str) -> String {
    let name = &namespace.metadata.name;
    let list = match namespace.metadata.annotation(key).filter(|there| !there.trim().is_empty()) {
        Some(there) => format!("{there},{value}"),
        None => value.to_owned(),
    };
    case.command_line.kubectl(format!("annotate --overwrite namespace {name} {key}={}", quoted(&list)))
}

fn guest(case: &Case<'_>, sequence: &Sequence, spec: &Spec, target: &NamespaceObject) -> Option<Finding> {
    let (home, name) = (&sequence.namespace, &sequence.name);
    if spec.pod_namespace == *home || target.facts().allows(home) {
        return None;
    }
    let text = format!(
        "PodSequence {home}/{name} is about pods of namespace {}, which does not permit it ({})",
        spec.pod_namespace,
        names::ALLOW_FROM
    );
    Some(Check::Sequences.problem(text).fix(annotate(case, target, names::ALLOW_FROM, home)))
}

fn taints(case: &Case<'_>, sequence: &Sequence, spec: &Spec, home: &NamespaceObject) -> Option<Finding> {
    let wanted = taints_nodes(spec) && case.installed.mode == Mode::Full;
    if !wanted || home.facts().allow_node_taints {
        return None;
    }
    let (namespace, name, key) = (&sequence.namespace, &sequence.name, names::ALLOW_NODE_TAINTS);
    let text = format!(
        "PodSequence {namespace}/{name} wants to taint nodes, which namespace {namespace} does not permit ({key})"
    );
    let fix = case.command_line.kubectl(format!("annotate --overwrite namespace {namespace} {key}=true"));
    Some(Check::Sequences.problem(text).fix(fix))
}

/// The limits hold the controller to gates of our own, unless a namespace names others.
fn gate(case: &Case<'_>, sequence: &Sequence, spec: &Spec, target: &NamespaceObject) -> Option<Finding> {
    let held = case.seen.has("ValidatingAdmissionPolicyBinding/podsequence-controller-pods");
    if !held || OUR_GATES.iter().any(|prefix| spec.gate.starts_with(prefix)) {
        return None;
    }
    let allowed = target.metadata.annotation(names::ALLOW_GATES).unwrap_or_default();
    if allowed.split(',').map(str::trim).any(|gate| gate == "*" || gate == &*spec.gate) {
        return None;
    }
    let text = format!(
        "PodSequence {}/{} uses the gate {}, which the limits do not let the controller take away in namespace {} ({})",
        sequence.namespace,
        sequence.name,
        spec.gate,
        spec.pod_namespace,
        names::ALLOW_GATES
    );
    Some(Check::Sequences.problem(text).fix(annotate(case, target, names::ALLOW_GATES, &spec.gate)))
}
