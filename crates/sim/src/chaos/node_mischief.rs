//! Faults of nodes, at planned times.

use super::fault::Fault;
use super::mischief::{FAULT_LASTS, Mischief};
use super::world::{self, Guard, OURS};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::store::{Key, Stored};
use rollcall_api::names;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::time::sleep;

/// The name of the temporary node.
const TEMPORARY_NODE: &str = "node-9";

impl Mischief {
    pub(super) async fn strike_node(&mut self, fault: Fault) {
        let node = world::NODES[self.chance.below(world::NODES.len() as u64) as usize];
        match fault {
            Fault::NodeGone => {
                let lost = self.act(|cluster| delete_node(cluster, node));
                sleep(FAULT_LASTS).await;
                self.act(|cluster| {
                    self.world.create_node(cluster, node);
                    lost.iter().for_each(|pod| self.recreate_pod(cluster, pod));
                });
            }
            Fault::NodeVisits => {
                self.act(|cluster| self.world.create_node(cluster, TEMPORARY_NODE));
                sleep(2 * FAULT_LASTS).await;
                self.act(|cluster| {
                    let lost = delete_node(cluster, TEMPORARY_NODE);
                    lost.iter().for_each(|pod| self.recreate_pod(cluster, pod));
                });
            }
            Fault::ForeignTaint => {
                // The foreign taint is inserted first, so that a patch that addresses a taint by its index hits the wrong
                // one.
                let foreign = json!({ "key": "example.com/foreign", "effect": "NoSchedule" });
                self.change_taints(node, |taints| taints.insert(0, foreign));
                sleep(FAULT_LASTS).await;
                self.change_taints(node, |taints| {
                    taints.retain(|taint| taint["key"] != "example.com/foreign")
                });
            }
            Fault::Cordoned => {
                self.change_node(node, |node| node["spec"]["unschedulable"] = true.into());
                sleep(FAULT_LASTS).await;
                self.change_node(node, |node| node["spec"]["unschedulable"] = false.into());
            }
            Fault::Relabelled => {
                let label = |value: Value| {
                    self.change_node(node, |node| node["metadata"]["labels"][world::AGENTS_LABEL] = value);
                };
                label(Value::Null);
                sleep(FAULT_LASTS).await;
                label("yes".into());
            }
            Fault::AgentsRolled => self.act(roll_agents),
            Fault::MarksTaken => self.act(|cluster| remove_marks(cluster, node)),
            Fault::MarksAdded => self.act(|cluster| self.add_marks(cluster, node)),
            _ => {}
        }
    }

    fn change_node(&self, node: &str, change: impl FnOnce(&mut Value)) {
        self.act(|cluster| {
            let _ = cluster.update(&Key::new(Kind::Node, "", node), change);
        });
    }

    fn change_taints(&self, node: &str, change: impl FnOnce(&mut Vec<Value>)) {
        self.change_node(node, |node| {
            let mut taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
            change(&mut taints);
            node["spec"]["taints"] = taints.into();
        });
    }

    /// Adds the labels or taints that the controller would write if no group were complete on the node yet.
    fn add_marks(&self, cluster: &mut Cluster, node: &str) {
        let rule = &self.world.rules[0];
        let uid = cluster.store.get(&rule.key()).map(|sequence| sequence.uid().to_owned());
        let (Some(uid), Some(guard)) = (uid, rule.guard) else { return };
        let later = (1..rule.groups.len()).filter(|position| rule.groups[*position].agents.is_none());
        let keys: Vec<String> = later.map(|position| rule.node_key(position)).collect();
        let _ = cluster.update(&Key::new(Kind::Node, "", node), |node| {
            for key in keys {
                match guard {
                    Guard::Labels => node["metadata"]["labels"][key] = uid.as_str().into(),
                    Guard::Taints => {
                        let mut taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
                        taints.retain(|taint| taint["key"] != key);
                        taints.insert(0, json!({ "key": key, "value": uid, "effect": "NoSchedule" }));
                        node["spec"]["taints"] = taints.into();
                    }
                }
            }
        });
    }
}

fn roll_agents(cluster: &mut Cluster) {
    let all = cluster.store.list(Kind::DaemonSet, Some(world::NAMESPACE));
    let all: Vec<Key> = all.map(|(key, _)| key.clone()).collect();
    let turn = cluster.store.version().to_string();
    for key in all {
        let _ = cluster.update(&key, |set| {
            set["spec"]["template"]["metadata"]["annotations"]["example.com/turn"] = turn.as_str().into();
        });
    }
}

/// Whether a label or a taint with this key blocks a node.
pub fn is_closing_key(key: &str) -> bool {
    key == names::UNSEEN_LABEL || key.starts_with(OURS) && key.ends_with("-blocked")
}

fn remove_marks(cluster: &mut Cluster, node: &str) {
    let _ = cluster.update(&Key::new(Kind::Node, "", node), |node| {
        if let Some(labels) = node["metadata"]["labels"].as_object_mut() {
            labels.retain(|key, _| !is_closing_key(key));
        }
        if let Some(taints) = node["spec"]["taints"].as_array_mut() {
            taints.retain(|taint| !taint["key"].as_str().is_some_and(is_closing_key));
        }
    });
}

/// Deletes a node and its pods. Returns the pods.
fn delete_node(cluster: &mut Cluster, node: &str) -> Vec<Arc<Stored>> {
    let on_it = cluster.store.list(Kind::Pod, Some(world::NAMESPACE));
    let on_it: Vec<(Key, Arc<Stored>)> = on_it
        .filter(|(_, pod)| pod["spec"]["nodeName"] == node)
        .map(|(key, pod)| (key.clone(), pod.clone()))
        .collect();
    let _ = cluster.delete(&Key::new(Kind::Node, "", node));
    on_it.iter().for_each(|(key, _)| drop(cluster.delete_now(key)));
    on_it.into_iter().map(|(_, pod)| pod).collect()
}
