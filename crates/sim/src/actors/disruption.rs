//! PodDisruptionBudgets: compute how many of their pods may be evicted now.

use super::common::numbers::{Round, int_or_percent};
use super::common::{controller_of, moment, number, pods, text};
use super::{Actor, Agenda};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::server::eviction::covers;
use crate::server::pods::set_condition;
use crate::store::{Change, Key, Stored};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An allowed eviction counts as pending for this long. After that it is assumed to have failed.
const EVICTION_LASTS: SignedDuration = SignedDuration::from_secs(120);

#[derive(Default)]
pub struct Disruptions {
    agenda: Agenda,
}

impl Actor for Disruptions {
    fn on_change(&mut self, change: &Change, cluster: &Cluster) {
        match change.key.kind {
            Kind::PodDisruptionBudget if change.deleted => self.agenda.forget(&change.key),
            Kind::PodDisruptionBudget => self.agenda.add(change.key.clone()),
            Kind::Pod | Kind::Deployment | Kind::ReplicaSet | Kind::StatefulSet => {
                for (key, _) in cluster.store.list(Kind::PodDisruptionBudget, Some(&change.key.namespace)) {
                    self.agenda.add(key.clone());
                }
            }
            _ => {}
        }
    }

    fn act(&mut self, cluster: &mut Cluster) -> Option<Timestamp> {
        while let Some(key) = self.agenda.pop(cluster.now()) {
            if let Some(budget) = cluster.store.get(&key).cloned() {
                self.count(cluster, &key, &budget);
            }
        }
        self.agenda.next_moment()
    }
}

impl Disruptions {
    fn count(&mut self, cluster: &mut Cluster, key: &Key, budget: &Stored) {
        let now = cluster.now();
        let members: Vec<Arc<Stored>> = cluster
            .store
            .list(Kind::Pod, Some(&key.namespace))
            .filter(|(_, pod)| covers(budget, pod))
            .map(|(_, pod)| pod.clone())
            .collect();
        let disrupted = disrupted(budget, &members, now);
        let healthy = members.iter().filter(|pod| {
            !pods::is_terminating(pod)
                && pods::is_ready(pod)
                && !disrupted.contains_key(text(&pod["metadata"]["name"]))
        });
        let healthy = healthy.count() as i64;
        let (expected, desired) = wanted(cluster, &budget["spec"], &members);
        let allowed = if expected > 0 { (healthy - desired).max(0) } else { 0 };
        for since in disrupted.values().filter_map(moment) {
            self.agenda.add_at(since + EVICTION_LASTS, key.clone());
        }
        let stamp = cluster.stamp();
        let generation = budget["metadata"]["generation"].clone();
        let _ = cluster.update_status(key, |budget| {
            let status = &mut budget["status"];
            let mut new = json!({
                "conditions": status["conditions"], "currentHealthy": healthy, "desiredHealthy": desired,
                "disruptionsAllowed": allowed, "expectedPods": expected, "observedGeneration": generation,
            });
            if !disrupted.is_empty() {
                new["disruptedPods"] = disrupted.into();
            }
            let (holds, reason) = match allowed {
                0 => ("False", "InsufficientPods"),
                _ => ("True", "SufficientPods"),
            };
            let condition = json!({
                "type": "DisruptionAllowed", "status": holds, "reason": reason, "message": "",
                "lastTransitionTime": stamp, "observedGeneration": generation,
            });
            set_condition(&mut new, condition);
            *status = new;
        });
    }
}

/// Pods with an allowed eviction that are not terminating yet.
fn disrupted(budget: &Value, members: &[Arc<Stored>], now: Timestamp) -> Map<String, Value> {
    let noted = budget["status"]["disruptedPods"].as_object().cloned().unwrap_or_default();
    let is_open = |(name, since): &(String, Value)| {
        let member = members.iter().find(|pod| pod["metadata"]["name"] == **name);
        let waits = member.is_some_and(|pod| !pods::is_terminating(pod));
        waits && moment(since).is_some_and(|since| since + EVICTION_LASTS > now)
    };
    noted.into_iter().filter(is_open).collect()
}

/// The expected number of pods, and how many of them must be healthy.
fn wanted(cluster: &Cluster, spec: &Value, members: &[Arc<Stored>]) -> (i64, i64) {
    if !spec["maxUnavailable"].is_null() {
        let expected = scale(cluster, members);
        let unavailable = share(&spec["maxUnavailable"], expected);
        return (expected, (expected - unavailable).max(0));
    }
    match &spec["minAvailable"] {
        Value::Number(least) => (members.len() as i64, least.as_i64().unwrap_or_default()),
        share => {
            let expected = scale(cluster, members);
            (expected, self::share(share, expected))
        }
    }
}

/// The sum of the replicas that the owners of the pods ask for.
fn scale(cluster: &Cluster, members: &[Arc<Stored>]) -> i64 {
    let mut asked: BTreeMap<String, i64> = BTreeMap::new();
    for pod in members {
        let mut owner = controller_of(pod).and_then(|reference| owner(cluster, pod, reference));
        while let Some(above) =
            owner.as_ref().and_then(|one| Some((controller_of(one)?.clone(), one.clone())))
        {
            owner = self::owner(cluster, &above.1, &above.0);
        }
        if let Some(owner) = owner {
            asked.insert(owner.uid().to_owned(), number(&owner["spec"]["replicas"]));
        }
    }
    asked.values().sum()
}

fn owner(cluster: &Cluster, of: &Value, reference: &Value) -> Option<Arc<Stored>> {
    let kind = Kind::named(text(&reference["apiVersion"]), text(&reference["kind"]))?;
    let found = cluster.store.find(kind, text(&of["metadata"]["namespace"]), text(&reference["name"]));
    found.filter(|owner| reference["uid"] == *owner.uid()).cloned()
}

fn share(value: &Value, of: i64) -> i64 {
    int_or_percent(value, of, Round::Up).unwrap_or_default()
}
