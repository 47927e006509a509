//! Checks that the containers of a pod start in the order of their ranks, and checks all writes for that purpose. Pods are
//! identified by uid. Ranks are read from the environment variables that refer to keys of the ConfigMap.

use super::history::Violation;
use super::seen::Seen;
use super::world::{self, World};
use crate::store::{Change, Key};
use rollcall_api::names;
use rollcall_core::launch::ranks::{Priority, Spelling, barrier_name};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The pods whose containers start in order, as committed so far.
pub struct LaunchOrder {
    world: &'static World,
    seen: Seen,
    /// By uid.
    pods: BTreeMap<String, LaunchOrderPod>,
}

struct LaunchOrderPod {
    key: Key,
    there: bool,
    containers: Vec<OrderedContainer>,
    /// Whether an exit with code 0 counts as ready, because the pod does not restart such containers.
    exits: bool,
    /// The keys that its own ConfigMap has contained.
    opened: BTreeSet<String>,
    /// Whether its own ConfigMap has existed.
    has_barrier: bool,
    written: u64,
    nudged: u64,
}

struct OrderedContainer {
    name: String,
    priority: Priority,
    /// The key in the ConfigMap of the pod.
    key: String,
    started: bool,
    passed: bool,
}

/// Number of writes for a pod whose containers start in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderedPod {
    pub name: String,
    pub ranks: u64,
    /// Committed writes of the controllers, without repeated nudges.
    pub written: u64,
    /// How often the kubelet was nudged to sync the pod again.
    pub nudged: u64,
}

impl OrderedPod {
    /// Limit of the writes: replacing the ConfigMap of an earlier pod, removing the gate, then a key and an annotation for
    /// each further rank.
    pub fn most_written(&self) -> u64 {
        2 * self.ranks + 1
    }
}

fn broken(invariant: &'static str, detail: String) -> Violation {
    Violation { invariant, detail }
}

impl LaunchOrder {
    pub fn new(world: &'static World, seen: Seen) -> LaunchOrder {
        LaunchOrder { world, seen, pods: BTreeMap::new() }
    }

    pub fn pods(&self) -> Vec<OrderedPod> {
        let summary = |pod: &LaunchOrderPod| OrderedPod {
            name: pod.key.name.to_string(),
            ranks: pod.ranks().len() as u64,
            written: pod.written,
            nudged: pod.nudged,
        };
        self.pods.values().map(summary).collect()
    }

    /// Records a change of a pod by any author. Checks that all containers of higher ranks were ready before a container
    /// starts.
    pub fn pod(&mut self, change: &Change) -> Vec<Violation> {
        if !self.world.launch {
            return Vec::new();
        }
        let uid = change.object.uid();
        if !self.pods.contains_key(uid) {
            let Some(pod) = LaunchOrderPod::new(change) else { return Vec::new() };
            self.pods.insert(uid.to_owned(), pod);
        }
        let Some(pod) = self.pods.get_mut(uid) else { return Vec::new() };
        pod.there = !change.deleted;
        pod.see_statuses(&change.object)
    }

    /// Records a change of a ConfigMap by any author.
    pub fn config_map(&mut self, change: &Change) {
        let owner = change.after().and_then(|there| only_owner(there));
        let Some(pod) = owner.and_then(|owner| self.pods.get_mut(owner)) else { return };
        if change.key.name[..] == barrier_name(&pod.key.name) {
            pod.has_barrier = true;
            pod.opened.extend(keys(&change.object).cloned());
        }
    }

    /// Checks a change of a pod by a controller for the launch order.
    pub fn wrote_pod(&mut self, before: &Value, change: &Change) -> Vec<Violation> {
        let name = &change.key.name;
        let Some(pod) = self.pods.get_mut(change.object.uid()) else {
            return vec![broken(
                "S6",
                format!("pod {name} was changed although its containers have no launch order"),
            )];
        };
        let set = |annotation: &str| {
            let now = change.object["metadata"]["annotations"].get(annotation)?.as_str()?;
            (before["metadata"]["annotations"][annotation] != now).then_some(now)
        };
        let mut found = Vec::new();
        let gone = world::has_gate(before, names::LAUNCH_GATE)
            && !world::has_gate(&change.object, names::LAUNCH_GATE);
        if gone && !pod.has_barrier {
            found.push(broken("S5", format!("pod {name} was released without its own ConfigMap")));
        }
        let rank = set(names::LAUNCH_RANK);
        let is_open = |rank: &str| {
            let mut of_rank = pod.containers.iter().filter(|is| is.priority.to_string() == rank);
            of_rank.all(|container| pod.opened.contains(&container.key))
        };
        if let Some(rank) = rank.filter(|rank| !is_open(rank)) {
            found.push(broken("S5", format!("pod {name} reports rank {rank} as open, but it never was")));
        }
        let completed = set(names::LAUNCHED).is_some();
        if completed && !pod.containers.iter().all(|container| pod.opened.contains(&container.key)) {
            found.push(broken("S5", format!("pod {name} reports every rank as open, but some are not")));
        }
        match gone || rank.is_some() || completed {
            true => pod.written += 1,
            false => pod.nudged += 1,
        }
        found
    }

    /// Checks a write of a controller to a ConfigMap in the namespace of the pods.
    pub fn wrote_barrier(&mut self, change: &Change, process: usize) -> Vec<Violation> {
        let name = &change.key.name;
        let wrong = |invariant, what: &str| vec![broken(invariant, format!("ConfigMap {name}: {what}"))];
        let owner = only_owner(change.before.as_deref().unwrap_or(&change.object));
        let Some(pod) = owner.and_then(|owner| self.pods.get_mut(owner)) else {
            return self.wrote_barrier_of_unknown(change, owner);
        };
        if change.key.name[..] != barrier_name(&pod.key.name) || change.key.namespace != pod.key.namespace {
            return wrong("S6", "it does not have the name that its pod refers to");
        }
        pod.written += 1;
        if change.deleted {
            return if pod.there { wrong("S6", "deleted although its pod exists") } else { Vec::new() };
        }
        if only_owner(&change.object) != owner {
            return wrong("S6", "its owner changed");
        }
        if !owner.is_some_and(|owner| self.seen.knew(process, owner)) {
            return wrong("S7", "the writing controller has not seen its pod");
        }
        let none = Value::Null;
        let before = change.before.as_deref().map_or(&none, |before| &before.value);
        if keys(before).any(|key| change.object["data"][key] != before["data"][key]) {
            return wrong("S6", "a key was removed or changed");
        }
        let added = keys(&change.object).filter(|key| before["data"][key.as_str()].is_null());
        added.filter_map(|key| pod.too_early(key)).map(|why| broken("S5", format!("{name}: {why}"))).collect()
    }

    /// Checks a ConfigMap without an owner among the pods of this run. A pod from before the run may have left it behind.
    fn wrote_barrier_of_unknown(&self, change: &Change, owner: Option<&str>) -> Vec<Violation> {
        let name = &change.key.name;
        match owner {
            Some(_) if change.deleted => Vec::new(),
            _ => vec![broken("S6", format!("ConfigMap {name} was written although it belongs to no pod"))],
        }
    }
}

impl LaunchOrderPod {
    /// Returns `None` if its containers have no launch order.
    fn new(change: &Change) -> Option<LaunchOrderPod> {
        let (pod, barrier) = (&change.object, barrier_name(&change.key.name));
        let containers = items(&pod["spec"]["containers"]).filter_map(|container| {
            let variables = items(&container["env"]);
            let (priority, key) = variables.filter_map(|variable| rank_of(variable, &barrier)).next_back()?;
            let name = container["name"].as_str()?.to_owned();
            Some(OrderedContainer { name, priority, key, started: false, passed: false })
        });
        let containers: Vec<OrderedContainer> = containers.collect();
        (!containers.is_empty()).then(|| LaunchOrderPod {
            key: change.key.clone(),
            there: true,
            containers,
            exits: matches!(pod["spec"]["restartPolicy"].as_str(), Some("Never" | "OnFailure")),
            opened: BTreeSet::new(),
            has_barrier: false,
            written: 0,
            nudged: 0,
        })
    }

    fn ranks(&self) -> BTreeSet<Priority> {
        self.containers.iter().map(|container| container.priority).collect()
    }

    fn see_statuses(&mut self, pod: &Value) -> Vec<Violation> {
        let mut found = Vec::new();
        let mut passed = Vec::new();
        for status in items(&pod["status"]["containerStatuses"]) {
            let place = self.containers.iter().position(|container| status["name"] == container.name);
            let Some(place) = place else { continue };
            let state = &status["state"];
            // A container that was never created is reported as terminated, without a start time, when its pod ends.
            let has_started = !state["running"].is_null() || !state["terminated"]["startedAt"].is_null();
            let container = &mut self.containers[place];
            if has_started && !std::mem::replace(&mut container.started, true) {
                let name = container.name.clone();
                let above = self.missing_above(self.containers[place].priority);
                found.extend(above.map(|above| {
                    let pod = &self.key.name;
                    broken("S5", format!("container {name} of pod {pod} started before {above} was ready"))
                }));
            }
            if status["ready"] == true || self.exits && state["terminated"]["exitCode"] == 0 {
                passed.push(place);
            }
        }
        passed.into_iter().for_each(|place| self.containers[place].passed = true);
        found
    }

    /// A container of a higher rank that has never been ready.
    fn missing_above(&self, rank: Priority) -> Option<&str> {
        let mut above = self.containers.iter().filter(|container| container.priority > rank);
        above.find(|container| !container.passed).map(|container| container.name.as_str())
    }

    /// Why a key must not be in the ConfigMap yet.
    fn too_early(&self, key: &str) -> Option<String> {
        let Some(container) = self.containers.iter().find(|container| container.key == key) else {
            return Some(format!("no container waits for the key {key}"));
        };
        let above = self.missing_above(container.priority)?;
        Some(format!("the key {key} was written before {above} was ready"))
    }
}

fn items(value: &Value) -> impl DoubleEndedIterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn keys(config_map: &Value) -> impl Iterator<Item = &String> {
    config_map["data"].as_object().into_iter().flatten().map(|(key, _)| key)
}

/// The uid of the pod that is the only owner of an object.
fn only_owner(object: &Value) -> Option<&str> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    let [owner] = owners.as_slice() else { return None };
    (owner["kind"] == "Pod" && owner["apiVersion"] == "v1").then(|| owner["uid"].as_str())?
}

/// The rank of the container with this variable, and the key that it waits for.
fn rank_of(variable: &Value, barrier: &str) -> Option<(Priority, String)> {
    let spelling = Spelling::of_barrier(variable["name"].as_str()?)?;
    let reference = &variable["valueFrom"]["configMapKeyRef"];
    let key = reference["key"].as_str().filter(|_| reference["name"] == barrier)?;
    Some((spelling.priority_of_key(key)?, key.to_owned()))
}

/// Summary of the pod's containers for the log; empty if they have no launch order.
pub fn describe_pod(pod: &Value) -> String {
    let ordered = items(&pod["spec"]["containers"])
        .flat_map(|container| items(&container["env"]))
        .any(|variable| variable["name"].as_str().is_some_and(|name| Spelling::of_barrier(name).is_some()));
    if !ordered {
        return String::new();
    }
    let gated = if world::has_gate(pod, names::LAUNCH_GATE) { " launch-gate" } else { "" };
    let annotations = &pod["metadata"]["annotations"];
    let statuses = items(&pod["status"]["containerStatuses"]).map(|status| {
        let state = status["state"].as_object().into_iter().flatten().next();
        let state = state.map_or("", |(state, _)| state.as_str());
        let ready = if status["ready"] == true { "ready" } else { state };
        format!(" {}={ready}", status["name"].as_str().unwrap_or_default())
    });
    let statuses: String = statuses.collect();
    format!(
        "{gated} rank {} nudge {}{statuses}",
        annotations[names::LAUNCH_RANK],
        annotations[names::LAUNCH_NUDGE]
    )
}
