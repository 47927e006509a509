//! Creates the objects of a plan in an empty cluster, as a user would.

use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::plan::{Given, NodePool, Plan, USUAL_NODES};
use crate::program_behaviour::{BehaviourRule, PodFilter, ProgramBehaviour};
use anyhow::{Result, anyhow};
use jiff::SignedDuration;
use rollcall_api::names;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Returns the behaviour of the pods. In a plan the last matching rule counts, in [`ProgramBehaviour`] the first.
pub fn program_behaviour(plan: &Plan) -> ProgramBehaviour {
    let duration = |time: Duration| SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
    let ready = plan.ready_after.iter().map(|rule| BehaviourRule {
        pods: PodFilter::Selected(rule.pods.clone()),
        ready_after: Some(duration(rule.after)),
        ..BehaviourRule::default()
    });
    let fail = plan.fail.iter().map(|rule| BehaviourRule {
        pods: PodFilter::Selected(rule.pods.clone()),
        fail_after: Some(duration(rule.after.unwrap_or_default())),
        ..BehaviourRule::default()
    });
    let mut rules: Vec<BehaviourRule> = ready.chain(fail).collect();
    rules.reverse();
    ProgramBehaviour {
        rules,
        unprobed_pods_end: true,
        agents_show_what_is_asked: true,
        ..ProgramBehaviour::default()
    }
}

/// Creates nodes, namespaces and objects. Returns notes on objects that are not simulated.
pub fn create_objects(cluster: &mut Cluster, plan: &Plan) -> Result<Vec<String>> {
    create_nodes(cluster, plan)?;
    let (known, unknown): (Vec<&Given>, Vec<&Given>) =
        plan.objects.iter().partition(|given| kind_of(&given.value).is_some());
    let mut notes = left_out(&unknown);
    let (these, made) = in_order_of_creation(&known);
    for namespace in namespaces(&these, cluster).into_iter().chain([names::OWN_NAMESPACE.to_owned()]) {
        let _ = cluster.create(Kind::Namespace, json!({ "metadata": { "name": namespace } }));
    }
    notes.extend(made);
    for given in these {
        create(cluster, given)?;
    }
    Ok(notes)
}

pub fn kind_of(object: &Value) -> Option<Kind> {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    Kind::named(text("apiVersion"), text("kind"))
}

/// Creates one object. An error names the file and line of the object and the cause.
pub fn create(cluster: &mut Cluster, given: &Given) -> Result<()> {
    let Some(kind) = kind_of(&given.value) else { return Ok(()) };
    let mut object = given.value.clone();
    if kind.info().namespaced && object["metadata"]["namespace"].as_str().is_none_or(str::is_empty) {
        object["metadata"]["namespace"] = "default".into();
    }
    // Exported objects contain fields that only a server can set.
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
    match cluster.create(kind, object) {
        Ok(_) => Ok(()),
        // These exist in every new cluster.
        Err(refusal) if refusal.code == 409 && matches!(kind, Kind::Namespace | Kind::ServiceAccount) => {
            Ok(())
        }
        Err(refusal) => Err(anyhow!("{}: {}", given.origin, refusal.message)),
    }
}

/// Sorts objects so that prerequisites are created first; the others keep their order. Drops ReplicaSets that have owners.
fn in_order_of_creation<'a>(known: &[&'a Given]) -> (Vec<&'a Given>, Vec<String>) {
    let mut these: Vec<&Given> = known.to_vec();
    let place = |given: &&Given| kind_of(&given.value).filter(|kind| *kind <= Kind::PodSequence);
    these.sort_by_key(|given| place(given).map_or((1, None), |kind| (0, Some(kind))));
    let mut notes = Vec::new();
    let pods: Vec<&Given> =
        these.iter().filter(|given| kind_of(&given.value) == Some(Kind::ReplicaSet)).copied().collect();
    let owned = pods.iter().filter(|given| given.value["metadata"]["ownerReferences"].is_array()).count();
    if owned > 0 {
        notes.push(format!("skipped {owned} ReplicaSets with owners: their owners create new ones"));
        these.retain(|given| {
            kind_of(&given.value) != Some(Kind::ReplicaSet)
                || !given.value["metadata"]["ownerReferences"].is_array()
        });
    }
    (these, notes)
}

/// Namespaces that objects refer to and that the manifests do not create.
fn namespaces(these: &[&Given], cluster: &Cluster) -> BTreeSet<String> {
    let named = these.iter().filter_map(|given| given.value["metadata"]["namespace"].as_str());
    let created: BTreeSet<&str> = these
        .iter()
        .filter(|given| kind_of(&given.value) == Some(Kind::Namespace))
        .filter_map(|given| given.value["metadata"]["name"].as_str())
        .collect();
    named
        .filter(|name| !name.is_empty() && !created.contains(name))
        .filter(|name| cluster.store.find(Kind::Namespace, "", name).is_none())
        .map(str::to_owned)
        .collect()
}

fn left_out(unknown: &[&Given]) -> Vec<String> {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for given in unknown {
        *kinds.entry(given.value["kind"].as_str().unwrap_or("objects without a kind")).or_default() += 1;
    }
    let list: Vec<String> = kinds
        .into_iter()
        .map(|(kind, number)| if number == 1 { kind.to_owned() } else { format!("{kind} ({number})") })
        .collect();
    match list.is_empty() {
        true => Vec::new(),
        false => vec![format!("not simulated: {}", list.join(", "))],
    }
}

fn create_nodes(cluster: &mut Cluster, plan: &Plan) -> Result<()> {
    let given = plan.objects.iter().any(|given| kind_of(&given.value) == Some(Kind::Node));
    let usual = [NodePool { count: USUAL_NODES, capacity: BTreeMap::new() }];
    let pools = match (plan.nodes.as_slice(), given) {
        ([], true) => &[],
        ([], false) => usual.as_slice(),
        (pools, _) => pools,
    };
    let mut number = 0;
    for pool in pools {
        for _ in 0..pool.count {
            number += 1;
            create_node(cluster, &format!("node-{number}"), &pool.capacity)?;
        }
    }
    Ok(())
}

pub fn create_node(cluster: &mut Cluster, name: &str, capacity: &BTreeMap<String, String>) -> Result<()> {
    let mut node = json!({ "metadata": { "name": name } });
    if !capacity.is_empty() {
        node["status"] = json!({ "capacity": capacity, "allocatable": capacity });
    }
    cluster.create(Kind::Node, node).map(drop).map_err(|refusal| anyhow!("node {name}: {}", refusal.message))
}
