//! Nodes, and the pods that belong to each.

use super::Cluster;
use crate::{
    Uid,
    facts::{Pin, Pod},
    node::{Drivers, HOSTNAME, Node},
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Debug, Default)]
pub(super) struct Nodes {
    pub(super) by_name: BTreeMap<Arc<str>, Node>,
    by_uid: BTreeMap<Uid, Arc<str>>,
    pub(super) drivers: BTreeMap<Arc<str>, Drivers>,
    /// Names of nodes by hostname, where the two differ.
    hostnames: BTreeMap<Arc<str>, Arc<str>>,
    /// Pods that are pinned to a hostname.
    pub(super) pinned: BTreeMap<Arc<str>, BTreeSet<Uid>>,
    /// Unbound pods, by nominated node.
    pub(super) nominated: BTreeMap<Arc<str>, BTreeSet<Uid>>,
}

fn hostname(node: &Node) -> Option<&Arc<str>> {
    node.labels.get(HOSTNAME).filter(|host| **host != node.name)
}

impl Cluster {
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.by_name.get(name)
    }

    /// All nodes, by name, except terminating ones.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.all_nodes().filter(|node| !node.terminating)
    }

    pub fn all_nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.by_name.values()
    }

    /// Whether the node exists and is not terminating.
    pub fn takes_part(&self, name: &str) -> bool {
        self.node(name).is_some_and(|node| !node.terminating)
    }

    /// All nodes except terminating ones, in an order that starts at a different node for each `from`.
    pub fn nodes_from(&self, from: Uid) -> impl Iterator<Item = &Node> {
        let names = self.nodes.by_uid.range(from..).chain(self.nodes.by_uid.range(..from));
        names.filter_map(|(_, name)| self.node(name)).filter(|node| !node.terminating)
    }

    /// The node that a pod belongs to: the node it is bound to, or the only node it can be bound to.
    pub fn node_of(&self, pod: &Pod) -> Option<Arc<str>> {
        match (&pod.node, pod.pin()) {
            (Some(node), _) | (None, Some(Pin::Name(node))) => Some(node.clone()),
            (None, Some(Pin::Hostname(host))) => Some(self.nodes.hostnames.get(host).unwrap_or(host).clone()),
            (None, None) => None,
        }
    }

    pub fn drivers_on(&self, node: &str) -> Option<&Drivers> {
        self.nodes.drivers.get(node)
    }

    /// Whether the CSI driver is registered on the node.
    pub fn has_driver(&self, node: &Node, driver: &str) -> bool {
        let of_this_one = |drivers: &&Drivers| drivers.of.is_none_or(|uid| uid == node.uid);
        let drivers = self.drivers_on(&node.name).filter(of_this_one);
        drivers.is_some_and(|drivers| drivers.names.contains(driver))
    }

    pub fn put_drivers(&mut self, drivers: Drivers) {
        self.nodes.drivers.insert(drivers.node.clone(), drivers);
    }

    pub fn remove_drivers(&mut self, node: &str) {
        self.nodes.drivers.remove(node);
    }

    /// Updates the version of a node that has not changed otherwise.
    pub fn set_node_version(&mut self, name: &str, version: u64) {
        if let Some(node) = self.nodes.by_name.get_mut(name) {
            node.version = version;
        }
    }

    /// Returns the pods that belong to a different node once `new` replaces the facts of node `name`.
    pub fn pods_moved_by(&self, name: &str, new: Option<&Node>) -> BTreeSet<Uid> {
        let (was, is) = (self.node(name).and_then(hostname), new.and_then(hostname));
        match was != is {
            true => {
                let hosts = was.iter().chain(&is).filter_map(|host| self.nodes.pinned.get(*host));
                hosts.flatten().copied().collect()
            }
            false => BTreeSet::new(),
        }
    }

    /// Replaces the facts of a node; `None` means that the node is deleted. Returns the previous facts.
    pub fn set_node(&mut self, name: &Arc<str>, new: Option<Node>) -> Option<Node> {
        let old = self.nodes.by_name.remove(name);
        if let Some(old) = &old {
            self.nodes.by_uid.remove(&old.uid);
            hostname(old).map(|host| self.nodes.hostnames.remove(host));
        }
        if let Some(new) = new {
            hostname(&new).map(|host| self.nodes.hostnames.insert(host.clone(), name.clone()));
            self.nodes.by_uid.insert(new.uid, name.clone());
            self.nodes.by_name.insert(name.clone(), new);
        }
        old
    }
}
