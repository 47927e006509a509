//! The sequences: whether the controller can and may do what they require.

use super::{Case, number};
use crate::commands::doctor::command_line::quoted;
use crate::commands::doctor::fetched::{DEPLOYMENT, Fetched};
use crate::commands::doctor::finding::{Check, DoctorFinding};
use crate::commands::install::Mode;
use rollcall_api::names;
use rollcall_api::watch::NamespaceObject;
use rollcall_core::sequence::Sequence;
use rollcall_core::sequence::spec::{NodeGuard, Scope, Spec};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Prefixes of the gates that the limits permit the controller to remove in any namespace.
const OUR_GATES: [&str; 2] = [names::PREFIX, "korder.dev/"];

pub fn check(case: &Case<'_>) -> Vec<DoctorFinding> {
    let sequences: Vec<Sequence> = match &case.seen.sequences {
        Fetched::Found(sequences) => sequences.iter().map(|object| object.facts()).collect(),
        // Without the CRD there are no sequences; the definition check reports that.
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

/// Sequences of scope Node while the controller runs in Lite mode.
fn by_nodes(case: &Case<'_>, valid: &[(&Sequence, &Spec)]) -> Vec<DoctorFinding> {
    let by_node = valid.iter().filter(|(_, spec)| spec.scope == Scope::Node).map(|(sequence, _)| *sequence);
    let by_node: Vec<&Sequence> = by_node.collect();
    if by_node.is_empty() || !case.installed.is_lite() {
        return Vec::new();
    }
    let count = number(by_node.len(), "PodSequence");
    let text = format!("{count} of scope Node, which Lite mode does not support: {}", names_of(&by_node));
    vec![Check::Sequences.problem(text).fix(case.command_line.install(&case.installed, Mode::Full, None))]
}

fn taints_nodes(spec: &Spec) -> bool {
    spec.scope == Scope::Node && spec.guard == NodeGuard::Taints
}

/// Where sequences taint nodes, the controller must tolerate the taints: if it has to move while all nodes are blocked, it could
/// not start anywhere to open them. Each sequence has keys of its own, so only a toleration of all keys is enough.
fn kept_out(case: &Case<'_>, tainting: &[&Sequence]) -> Option<DoctorFinding> {
    let deployment = case.seen.object(DEPLOYMENT).value()?;
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
        "{} with node taints that the controller does not tolerate; if it has to move while all nodes are blocked, it cannot start: {}",
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

fn permissions(case: &Case<'_>, valid: &[(&Sequence, &Spec)]) -> Vec<DoctorFinding> {
    let namespaces: BTreeMap<&str, &NamespaceObject> = match &case.seen.namespaces {
        Fetched::Found(objects) => {
            objects.iter().map(|object| (object.metadata.name.as_str(), object)).collect()
        }
        Fetched::Absent => BTreeMap::new(),
        Fetched::Forbidden(why) => {
            return vec![Check::Sequences.unknown("permissions that namespaces grant", why)];
        }
    };
    let (mut findings, mut tainting) = (Vec::new(), Vec::new());
    for (sequence, spec) in valid {
        let Some(target) = namespaces.get(&*spec.pod_namespace) else {
            let who = format!("PodSequence {}/{}", sequence.namespace, sequence.name);
            findings.push(Check::Sequences.note(format!(
                "{who} manages pods of namespace {}, which does not exist",
                spec.pod_namespace
            )));
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

/// Command that adds a value to an annotation with a comma-separated list.
fn annotate(case: &Case<'_>, namespace: &NamespaceObject, key: &str, value: &str) -> String {
    let name = &namespace.metadata.name;
    let list = match namespace.metadata.annotation(key).filter(|there| !there.trim().is_empty()) {
        Some(there) => format!("{there},{value}"),
        None => value.to_owned(),
    };
    case.command_line.kubectl(format!("annotate --overwrite namespace {name} {key}={}", quoted(&list)))
}

fn guest(
    case: &Case<'_>,
    sequence: &Sequence,
    spec: &Spec,
    target: &NamespaceObject,
) -> Option<DoctorFinding> {
    let (home, name) = (&sequence.namespace, &sequence.name);
    if spec.pod_namespace == *home || target.facts().allows(home) {
        return None;
    }
    let text = format!(
        "PodSequence {home}/{name} manages pods of namespace {}, which does not permit it ({})",
        spec.pod_namespace,
        names::ALLOW_FROM
    );
    Some(Check::Sequences.problem(text).fix(annotate(case, target, names::ALLOW_FROM, home)))
}

fn taints(
    case: &Case<'_>,
    sequence: &Sequence,
    spec: &Spec,
    home: &NamespaceObject,
) -> Option<DoctorFinding> {
    let wanted = taints_nodes(spec) && case.installed.mode == Mode::Full;
    if !wanted || home.facts().allow_node_taints {
        return None;
    }
    let (namespace, name, key) = (&sequence.namespace, &sequence.name, names::ALLOW_NODE_TAINTS);
    let text = format!(
        "PodSequence {namespace}/{name} requires node taints, which namespace {namespace} does not permit ({key})"
    );
    let fix = case.command_line.kubectl(format!("annotate --overwrite namespace {namespace} {key}=true"));
    Some(Check::Sequences.problem(text).fix(fix))
}

/// The limits permit the controller to remove only Rollcall's own gates, unless a namespace permits others.
fn gate(
    case: &Case<'_>,
    sequence: &Sequence,
    spec: &Spec,
    target: &NamespaceObject,
) -> Option<DoctorFinding> {
    let held = case.seen.has("ValidatingAdmissionPolicyBinding/podsequence-controller-pods");
    if !held || OUR_GATES.iter().any(|prefix| spec.gate.starts_with(prefix)) {
        return None;
    }
    let allowed = target.metadata.annotation(names::ALLOW_GATES).unwrap_or_default();
    if allowed.split(',').map(str::trim).any(|gate| gate == "*" || gate == &*spec.gate) {
        return None;
    }
    let text = format!(
        "PodSequence {}/{} uses the gate {}, which the limits do not permit the controller to remove in namespace {} ({})",
        sequence.namespace,
        sequence.name,
        spec.gate,
        spec.pod_namespace,
        names::ALLOW_GATES
    );
    Some(Check::Sequences.problem(text).fix(annotate(case, target, names::ALLOW_GATES, &spec.gate)))
}
