//! ReplicaSets: keep the desired number of pods.

use super::Actor;
use super::common::family::Family;
use super::common::numbers::put_counts;
use super::common::{
    born, conditions, controller_of, delete_this, number, pods, template, text, write_status,
};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::server::refusal::Refusal;
use crate::server::selectors::selects;
use crate::store::{Change, Key, Stored};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Limit of pods created or deleted in one reconciliation, as in the real controller.
const BURST: usize = 500;

pub struct ReplicaSets {
    family: Family,
}

impl Default for ReplicaSets {
    fn default() -> ReplicaSets {
        ReplicaSets { family: Family::new(Kind::ReplicaSet, Kind::Pod) }
    }
}

impl Actor for ReplicaSets {
    fn on_change(&mut self, change: &Change, cluster: &Cluster) {
        self.family.on_change(change, cluster);
    }

    fn act(&mut self, cluster: &mut Cluster) -> Option<Timestamp> {
        while let Some(key) = self.family.agenda.pop(cluster.now()) {
            if let Some(set) = cluster.store.get(&key).cloned() {
                self.reconcile(cluster, &key, &set);
            }
        }
        self.family.agenda.next_moment()
    }
}

type StoredPod = (Key, Arc<Stored>);

impl ReplicaSets {
    fn reconcile(&mut self, cluster: &mut Cluster, key: &Key, set: &Stored) {
        let all = self.family.claim(cluster, key, set, |_| true);
        let terminating = all.iter().filter(|(_, pod)| pod.is_terminating() && !pods::is_over(pod)).count();
        let active: Vec<StoredPod> = all.into_iter().filter(|(_, pod)| pods::is_active(pod)).collect();
        let outcome = match set.is_terminating() {
            true => Ok(()),
            false => manage(cluster, key, set, &active),
        };
        let now = cluster.now();
        let status = status(set, &active, terminating, outcome.as_ref().err(), now);
        write_status(cluster, key, status);
        match outcome {
            Ok(()) => self.family.succeeded(key),
            Err(_) => self.family.retry(now, key.clone()),
        }
        let min_ready = number(&set["spec"]["minReadySeconds"]);
        let ready = active.iter().map(|(_, pod)| &pod.value);
        if let Some(at) = pods::next_available(ready, min_ready, now) {
            self.family.agenda.add_at(at, key.clone());
        }
    }
}

fn wanted(set: &Value) -> usize {
    set["spec"]["replicas"].as_u64().unwrap_or(1) as usize
}

/// Creates missing pods, deletes surplus pods.
fn manage(cluster: &mut Cluster, key: &Key, set: &Stored, active: &[StoredPod]) -> Result<(), Refusal> {
    let wanted = wanted(set);
    if active.len() < wanted {
        let mut pod = template::pod(&set["spec"]["template"], key, set);
        pod["metadata"]["generateName"] = format!("{}-", key.name).into();
        for _ in 0..(wanted - active.len()).min(BURST) {
            cluster.create(Kind::Pod, pod.clone())?;
        }
    } else if active.len() > wanted {
        let surplus = (active.len() - wanted).min(BURST);
        for (pod_key, pod) in first_to_go(cluster, set, active).into_iter().take(surplus) {
            delete_this(cluster, &pod_key, &pod);
        }
    }
    Ok(())
}

/// The pods in their order of deletion.
fn first_to_go(cluster: &Cluster, set: &Stored, active: &[StoredPod]) -> Vec<StoredPod> {
    let neighbours = active_on_nodes(cluster, set);
    let now = cluster.now();
    let mut pods = active.to_vec();
    pods.sort_by_cached_key(|(_, pod)| {
        let node = pods::node(pod);
        let phase = match text(&pod["status"]["phase"]) {
            "Running" => 2,
            "Unknown" => 1,
            _ => 0,
        };
        let cost = text(&pod["metadata"]["annotations"]["controller.kubernetes.io/pod-deletion-cost"]);
        (
            (!node.is_empty(), phase, pods::is_ready(pod)),
            cost.parse::<i32>().unwrap_or_default(),
            Reverse(neighbours.get(node).copied().unwrap_or_default()),
            age_rank(pods::ready_since(pod), now),
            Reverse(pods::restarts(pod)),
            age_rank(born(pod), now),
            pod.uid().to_owned(),
        )
    });
    pods
}

/// The number of active pods on each node, counting the pods of this set and of other sets with the same owner.
fn active_on_nodes(cluster: &Cluster, set: &Stored) -> BTreeMap<String, usize> {
    let mut sets = vec![set.uid().to_owned()];
    if let Some(owner) = controller_of(set) {
        let siblings = cluster.store.owned(text(&owner["uid"]), Kind::ReplicaSet);
        sets.extend(siblings.map(|(_, set)| set.uid().to_owned()).filter(|uid| uid != set.uid()));
    }
    let mut count = BTreeMap::new();
    for uid in sets {
        for (_, pod) in cluster.store.owned(&uid, Kind::Pod).filter(|(_, pod)| pods::is_active(pod)) {
            *count.entry(pods::node(pod).to_owned()).or_default() += 1;
        }
    }
    count
}

/// Pod ages are compared by their order of magnitude, so that not always the youngest pods are deleted. Pods without a time
/// come first.
fn age_rank(since: Option<Timestamp>, now: Timestamp) -> i32 {
    let Some(since) = since else { return -2 };
    let age = now.duration_since(since).as_nanos();
    if age <= 0 { -1 } else { age.ilog2() as i32 }
}

fn status(
    set: &Stored,
    active: &[StoredPod],
    terminating: usize,
    refusal: Option<&Refusal>,
    now: Timestamp,
) -> Value {
    let min_ready = number(&set["spec"]["minReadySeconds"]);
    let template_labels = json!({ "matchLabels": set["spec"]["template"]["metadata"]["labels"] });
    let count = |holds: &dyn Fn(&Value) -> bool| active.iter().filter(|(_, pod)| holds(pod)).count() as i64;
    let mut status = Map::new();
    status.insert("replicas".into(), active.len().into());
    put_counts(
        &mut status,
        &[
            ("fullyLabeledReplicas", count(&|pod| selects(&template_labels, &pod["metadata"]["labels"]))),
            ("readyReplicas", count(&pods::is_ready)),
            ("availableReplicas", count(&|pod| pods::is_available(pod, min_ready, now))),
        ],
    );
    status.insert("terminatingReplicas".into(), terminating.into());
    status.insert("observedGeneration".into(), set["metadata"]["generation"].clone());
    let mut status = Value::Object(status);
    if let Some(old) = set["status"].get("conditions") {
        status["conditions"] = old.clone();
    }
    match refusal {
        // The first failure stays until no request fails.
        Some(refusal) if conditions::find(&status, "ReplicaFailure").is_none() => {
            let reason = if active.len() < wanted(set) { "FailedCreate" } else { "FailedDelete" };
            let condition = json!({
                "type": "ReplicaFailure", "status": "True", "lastTransitionTime": crate::cluster::seconds(now),
                "reason": reason, "message": refusal.message,
            });
            conditions::set(&mut status, condition);
        }
        Some(_) => {}
        None => conditions::remove(&mut status, "ReplicaFailure"),
    }
    status
}
