//! Verifies for Node scope that no pod was bound to a node too early, and that foreign data on nodes is unchanged.
//!
//! The answer to a binding contains no version. But all answers that the API server sent before the binding was requested were
//! committed before it, and the highest version among them counts. Between the arrival of an agent and a correct binding there
//! are several answers of the API server, so a correct order is never reported as wrong.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use rollcall_testbed::AuditEvent;
use serde_json::Value;

use super::Violation;
use super::history::{meant, version_of};
use super::judge::{arrived, claims};
use crate::common::nodes::foreign;
use crate::common::scene::name_of;

/// Processes the events of a log for one sequence; each of its groups waits for all earlier groups.
pub struct Placed {
    account: String,
    namespace: String,
    groups: Vec<Value>,
    /// Versions, and the times of the answers that contained them.
    answered: Vec<(Timestamp, u64)>,
    newest: u64,
    /// By UID.
    nodes: BTreeMap<String, Node>,
    members: BTreeMap<String, Member>,
    bindings: Vec<Binding>,
}

#[derive(Default)]
struct Node {
    name: String,
    versions: Vec<NodeVersion>,
}

struct NodeVersion {
    rv: u64,
    foreign: Value,
    /// Method and guarding UID of the write, if the checked account was its author.
    written: Option<(String, Option<String>)>,
}

#[derive(Default)]
struct Member {
    name: String,
    group: usize,
    bound: bool,
    /// By version: the node where the member had arrived from then on, or `None`.
    steps: BTreeMap<u64, Option<String>>,
    /// From this version on, the member is terminating or deleted.
    ended: Option<u64>,
}

struct Binding {
    uid: String,
    node: String,
    asked: Timestamp,
}

impl Placed {
    pub fn new(account: &str, namespace: &str, sequence: &Value) -> Placed {
        Placed {
            account: account.to_owned(),
            namespace: namespace.to_owned(),
            groups: sequence["spec"]["podGroups"].as_array().cloned().unwrap_or_default(),
            answered: Vec::new(),
            newest: 0,
            nodes: BTreeMap::new(),
            members: BTreeMap::new(),
            bindings: Vec::new(),
        }
    }

    pub fn see(&mut self, event: &AuditEvent) {
        if !event.is_committed() {
            return;
        }
        let version = version_of(&event.response_object);
        self.answered.extend(version.map(|version| (event.stage_time, version)));
        self.newest = self.newest.max(version.unwrap_or(0));
        let here = event.namespace == self.namespace;
        match (event.resource.as_str(), event.subresource.as_str()) {
            ("nodes", "") => self.see_node(event),
            ("pods", "binding") if here => {
                let text = |at: &str| {
                    let text = event.request_object.pointer(at).and_then(Value::as_str);
                    text.unwrap_or_default().to_owned()
                };
                let (uid, node) = (text("/metadata/uid"), text("/target/name"));
                self.bindings.push(Binding { uid, node, asked: event.request_received });
            }
            ("pods", _) if here => self.see_pod(event),
            _ => {}
        }
    }

    fn see_node(&mut self, event: &AuditEvent) {
        let object = &event.response_object;
        let uid = object["metadata"]["uid"].as_str();
        let (Some(uid), Some(rv)) = (uid, version_of(object)) else { return };
        let by_us = event.user == self.account;
        let how = || (format!("{} {}", event.verb, event.resource_path()), meant(&event.request_object));
        let node = self.nodes.entry(uid.to_owned()).or_default();
        node.name = name_of(object);
        node.versions.push(NodeVersion { rv, foreign: foreign(object), written: by_us.then(how) });
    }

    fn see_pod(&mut self, event: &AuditEvent) {
        let object = &event.response_object;
        if event.verb == "deletecollection" {
            let all = object["items"].as_array().into_iter().flatten();
            let newest = self.newest;
            return all.for_each(|pod| self.ends(pod["metadata"]["uid"].as_str(), newest));
        }
        let own = object["metadata"]["uid"].as_str();
        let rv = version_of(object).unwrap_or(self.newest);
        if event.verb == "delete" || object["metadata"]["deletionTimestamp"].is_string() {
            return self.ends(own.or(object["details"]["uid"].as_str()), rv);
        }
        let group = self.groups.iter().position(|group| claims(group, object));
        let (Some(uid), Some(group)) = (own, group) else { return };
        let node = object["spec"]["nodeName"].as_str();
        let member = self.members.entry(uid.to_owned()).or_default();
        (member.name, member.group) = (name_of(object), group);
        member.bound |= node.is_some();
        let there = node.filter(|_| arrived(&self.groups[group], object)).map(str::to_owned);
        member.steps.insert(rv, there);
    }

    fn ends(&mut self, uid: Option<&str>, rv: u64) {
        if let Some(member) = uid.and_then(|uid| self.members.get_mut(uid)) {
            member.ended = Some(member.ended.map_or(rv, |ended| ended.min(rv)));
        }
    }

    /// Returns the number of bound pods that had to wait, and the number of their nodes.
    pub fn landed(&self) -> (usize, usize) {
        let late = self.bindings.iter().filter(|binding| self.late(binding).is_some());
        let nodes: Vec<&str> = late.map(|binding| binding.node.as_str()).collect();
        (nodes.len(), nodes.iter().collect::<BTreeSet<_>>().len())
    }

    fn late(&self, binding: &Binding) -> Option<&Member> {
        self.members.get(&binding.uid).filter(|member| member.group > 0)
    }

    pub fn violations(mut self) -> Vec<Violation> {
        self.answered.sort();
        let mut highest = 0;
        for (_, version) in &mut self.answered {
            highest = highest.max(*version);
            *version = highest;
        }
        for node in self.nodes.values_mut() {
            // The answer to a write without effect has the version of another author's write.
            node.versions.sort_by_key(|version| (version.rv, version.written.is_some()));
            node.versions.dedup_by_key(|version| version.rv);
        }
        let mut found = self.too_early();
        found.extend(self.nodes.values().flat_map(|node| self.foreign_changes(node)));
        found
    }

    /// Checks S1 for each node.
    fn too_early(&self) -> Vec<Violation> {
        let times = self.times();
        let mut found = Vec::new();
        for binding in &self.bindings {
            let Some(member) = self.late(binding) else { continue };
            let place = self.answered.partition_point(|(when, _)| *when < binding.asked);
            let after = place.checked_sub(1).map_or(0, |last| self.answered[last].1);
            let born = self.born(&binding.node, after);
            for (group, name) in self.groups[..member.group].iter().map(|group| &group["name"]).enumerate() {
                let spans = times.get(&(group, binding.node.as_str())).map_or(&[][..], Vec::as_slice);
                let spans = spans.iter().filter(|(_, until)| *until > born);
                let first = spans.map(|(from, _)| *from).min();
                if first.is_none_or(|first| first > after) {
                    let when = first.map_or("never".to_owned(), |first| format!("at version {first}"));
                    let what = format!("{} was bound to {}, which was asked for", member.name, binding.node);
                    let detail = format!("{what} after version {after}; {name} arrived there {when}");
                    found.push(Violation { invariant: "S1", detail });
                }
            }
        }
        let bound: BTreeSet<&str> = self.bindings.iter().map(|binding| binding.uid.as_str()).collect();
        let unknown = self
            .members
            .iter()
            .filter(|(uid, member)| member.group > 0 && member.bound && !bound.contains(uid.as_str()));
        found.extend(unknown.map(|(_, member)| Violation {
            invariant: "S1",
            detail: format!("{} is on a node without a logged binding", member.name),
        }));
        found
    }

    /// Returns, by group and node, the ranges of versions with arrived members.
    fn times(&self) -> BTreeMap<(usize, &str), Vec<(u64, u64)>> {
        let mut times: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for member in self.members.values() {
            let end = member.ended.unwrap_or(u64::MAX);
            let next = member.steps.keys().skip(1).copied().chain([end]);
            for ((from, node), next) in member.steps.iter().zip(next).filter(|((from, _), _)| **from < end) {
                if let Some(node) = node {
                    times.entry((member.group, node.as_str())).or_default().push((*from, next.min(end)));
                }
            }
        }
        times
    }

    /// Returns the first version of the node that has this name at version `now`; arrivals on earlier nodes of the name do not
    /// count.
    fn born(&self, name: &str, now: u64) -> u64 {
        let namesakes = self.nodes.values().filter(|node| node.name == name);
        let births = namesakes.filter_map(|node| Some(node.versions.first()?.rv));
        births.filter(|born| *born <= now).max().unwrap_or(0)
    }

    /// Checks S3, and S7 for nodes: foreign data keeps its values and order, and writes are guarded with the node's UID.
    fn foreign_changes(&self, node: &Node) -> Vec<Violation> {
        let mut found = Vec::new();
        for pair in node.versions.windows(2) {
            let (before, after) = (&pair[0], &pair[1]);
            let Some((how, meant)) = &after.written else { continue };
            let what = format!("{} (rv {})", node.name, after.rv);
            if before.foreign != after.foreign {
                let detail = format!("{what}: {} became {}", before.foreign, after.foreign);
                found.push(Violation { invariant: "S3", detail });
            }
            let is_meant = meant.as_ref().and_then(|uid| self.nodes.get(uid));
            if how != "patch nodes" || !is_meant.is_some_and(|meant| std::ptr::eq(meant, node)) {
                let detail = format!("{what}: {how} was guarded with UID {meant:?}");
                found.push(Violation { invariant: "S7", detail });
            }
        }
        found
    }
}
