//! The scheduler: puts pods on nodes.

use super::common::placement::{fits_node, is_repelled};
use super::{Actor, Agenda};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::server::pods;
use crate::store::Change;
use jiff::Timestamp;
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Scheduler {
    agenda: Agenda,
    /// How many pods are on each node.
    load: BTreeMap<String, usize>,
}

impl Actor for Scheduler {
    fn heard(&mut self, change: &Change, _: &Cluster) {
        if change.key.kind == Kind::Pod && change.after().is_some() {
            self.agenda.add(change.key.clone());
        }
        if change.key.kind == Kind::Node && !change.deleted {
            self.load.entry(change.key.name.to_string()).or_default();
        }
    }

    fn act(&mut self, cluster: &mut Cluster) -> Option<Timestamp> {
        while let Some(key) = self.agenda.pop(cluster.now()) {
            let Some(pod) = cluster.store.get(&key) else { continue };
            let gated = pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty());
            if gated || pod["spec"]["nodeName"].is_string() || pod.is_terminating() {
                continue;
            }
            let fits = |name: &str| {
                let node = cluster.store.find(Kind::Node, "", name);
                node.is_some_and(|node| {
                    fits_node(&pod["spec"], node)
                        && !is_repelled(&pod["spec"], node, &["NoSchedule", "NoExecute"])
                })
            };
            let fitting = self.load.iter().filter(|(name, _)| fits(name));
            let Some((node, _)) = fitting.min_by_key(|(_, load)| **load) else { continue };
            let node = node.clone();
            if pods::bind(cluster, &key, &node).is_ok() {
                *self.load.entry(node).or_default() += 1;
            }
        }
        None
    }
}
