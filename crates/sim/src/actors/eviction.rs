//! Evicts pods from nodes with taints that they do not tolerate, or only tolerate for a limited time.

use super::bound::Bound;
use super::common::placement::bears;
use super::{Actor, Agenda};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::server::pods::set_condition;
use crate::store::{Change, Key};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Evictions {
    agenda: Agenda,
    pods: Bound,
    /// Since when each pod has been on a node with taints that it tolerates for a limited time.
    bearing: BTreeMap<Key, Timestamp>,
}

impl Actor for Evictions {
    fn on_change(&mut self, change: &Change, cluster: &Cluster) {
        match change.key.kind {
            Kind::Node if !change.deleted => {
                let before = change.before.as_ref().map(|old| &old["spec"]["taints"]);
                if before.unwrap_or(&Value::Null) != &change.object["spec"]["taints"] {
                    self.pods.on(&change.key.name).cloned().for_each(|key| self.agenda.add(key));
                }
            }
            Kind::Pod if change.deleted => {
                self.pods.on_change(change);
                self.agenda.forget(&change.key);
                self.bearing.remove(&change.key);
            }
            Kind::Pod => {
                let bound = self.pods.on_change(change).is_some();
                let asked_again = || {
                    let differs =
                        |old: &Value| old["spec"]["tolerations"] != change.object["spec"]["tolerations"];
                    change.before.as_ref().is_some_and(|old| differs(old))
                };
                let node = change.object["spec"]["nodeName"].as_str().unwrap_or_default();
                let is_tainted = || {
                    let node = cluster.store.find(Kind::Node, "", node);
                    node.is_some_and(|node| taints(node).next().is_some())
                };
                if !node.is_empty() && (bound || asked_again()) && is_tainted() {
                    self.agenda.add(change.key.clone());
                }
            }
            _ => {}
        }
    }

    fn act(&mut self, cluster: &mut Cluster) -> Option<Timestamp> {
        while let Some(key) = self.agenda.pop(cluster.now()) {
            self.look_at(cluster, &key);
        }
        self.agenda.next_moment()
    }
}

fn taints(node: &Value) -> impl Iterator<Item = &Value> {
    let all = node["spec"]["taints"].as_array().into_iter().flatten();
    all.filter(|taint| taint["effect"] == "NoExecute")
}

/// How long a pod tolerates all taints of a node; `None` means indefinitely.
fn patience(pod: &Value, node: &Value) -> Option<SignedDuration> {
    let tolerations = pod["spec"]["tolerations"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut least: Option<i64> = None;
    for taint in taints(node) {
        let mut borne = false;
        for toleration in tolerations.iter().filter(|toleration| bears(toleration, taint)) {
            borne = true;
            if let Some(seconds) = toleration["tolerationSeconds"].as_i64() {
                least = Some(least.map_or(seconds, |least| least.min(seconds)).max(0));
            }
        }
        if !borne {
            return Some(SignedDuration::ZERO);
        }
    }
    least.map(SignedDuration::from_secs)
}

impl Evictions {
    fn look_at(&mut self, cluster: &mut Cluster, key: &Key) {
        let Some(pod) = cluster.store.get(key) else { return };
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        let node = cluster.store.find(Kind::Node, "", node);
        let Some(patience) = node.and_then(|node| patience(pod, node)) else {
            self.bearing.remove(key);
            return;
        };
        let now = cluster.now();
        let since = *self.bearing.entry(key.clone()).or_insert(now);
        let over = since.checked_add(patience).unwrap_or(Timestamp::MAX);
        if over > now {
            return self.agenda.add_at(over, key.clone());
        }
        let stamp = cluster.stamp();
        let _ = cluster.update_status(key, |pod| {
            let condition = json!({
                "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
                "message": "Taint manager: deleting due to NoExecute taint",
                "lastTransitionTime": stamp, "observedGeneration": pod["metadata"]["generation"],
            });
            set_condition(&mut pod["status"], condition);
        });
        let _ = cluster.delete(key);
    }
}
