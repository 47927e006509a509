//! The scheduler's view of a node and of a pod, with totals that are updated incrementally.

use super::requests::{self, Amounts};
use crate::actors::common::placement;
use crate::store::{Key, Stored};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Limit of pods on a node that does not report one.
const USUAL_PODS: i64 = 110;
/// The load of a node with fully used CPU or memory.
const WHOLE: i128 = 1 << 20;

/// The properties of a pod that matter for scheduling.
#[derive(Debug)]
pub struct Needs {
    pub key: Key,
    pub pod: Arc<Stored>,
    pub priority: i64,
    pub requests: Amounts,
    usual: (i64, i64),
    pub ports: Vec<Port>,
    pub terminating: bool,
}

/// A host port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    number: i64,
    protocol: String,
    ip: String,
}

impl Needs {
    pub fn read(key: &Key, pod: &Arc<Stored>) -> Needs {
        let spec = &pod["spec"];
        let list = |name: &str| spec[name].as_array().map(Vec::as_slice).unwrap_or_default();
        let restartable = |container: &&Value| container["restartPolicy"] == "Always";
        let containers = list("containers").iter().chain(list("initContainers").iter().filter(restartable));
        let host_network = spec["hostNetwork"].as_bool().unwrap_or_default();
        let ports = containers.flat_map(|container| container["ports"].as_array().into_iter().flatten());
        let ports = ports.filter_map(|port| {
            let number = if host_network { &port["containerPort"] } else { &port["hostPort"] };
            let text = |field: &str, usual: &str| port[field].as_str().unwrap_or(usual).to_owned();
            let number = number.as_i64().filter(|number| *number > 0)?;
            Some(Port { number, protocol: text("protocol", "TCP"), ip: text("hostIP", "0.0.0.0") })
        });
        Needs {
            key: key.clone(),
            pod: pod.clone(),
            priority: spec["priority"].as_i64().unwrap_or_default(),
            requests: requests::of_pod(spec),
            usual: requests::usual_of_pod(spec),
            ports: ports.collect(),
            terminating: pod.is_terminating(),
        }
    }

    pub fn spec(&self) -> &Value {
        &self.pod["spec"]
    }

    pub fn labels(&self) -> &Value {
        &self.pod["metadata"]["labels"]
    }

    /// Start time, or creation time before the start. Of two pods with the same priority, the older one is more important.
    pub fn since(&self) -> &str {
        let started = self.pod["status"]["startTime"].as_str();
        started.or(self.pod["metadata"]["creationTimestamp"].as_str()).unwrap_or_default()
    }

    pub fn may_preempt(&self) -> bool {
        self.spec()["preemptionPolicy"] != "Never"
    }
}

impl Port {
    fn collides(&self, other: &Port) -> bool {
        let any = |port: &Port| port.ip == "0.0.0.0" || port.ip.is_empty();
        self.number == other.number
            && self.protocol == other.protocol
            && (any(self) || any(other) || self.ip == other.ip)
    }
}

#[derive(Clone, Debug)]
pub struct Node {
    pub name: Arc<str>,
    pub object: Arc<Stored>,
    pub room: Amounts,
    pub most_pods: i64,
    pub used: Amounts,
    usual: (i64, i64),
    pub pods: BTreeMap<Key, Arc<Needs>>,
    ports: Vec<Port>,
    priorities: BTreeMap<i64, usize>,
    /// Whether its kubelet has not reported yet.
    pub unregistered: bool,
    /// Whether it has taints that only discourage pods (PreferNoSchedule).
    pub discourages: bool,
    /// Pods that are nominated for this node.
    pub nominated: BTreeMap<Key, Arc<Needs>>,
}

pub fn is_unregistered(node: &Value) -> bool {
    let mut conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    !conditions.any(|is| is["type"] == "Ready")
}

impl Node {
    pub fn new(name: Arc<str>, object: &Arc<Stored>) -> Node {
        let mut node = Node {
            name,
            object: object.clone(),
            room: Amounts::default(),
            most_pods: 0,
            used: Amounts::default(),
            usual: (0, 0),
            pods: BTreeMap::new(),
            ports: Vec::new(),
            priorities: BTreeMap::new(),
            unregistered: false,
            discourages: false,
            nominated: BTreeMap::new(),
        };
        node.describe(object);
        node
    }

    pub fn describe(&mut self, object: &Arc<Stored>) {
        let status = &object["status"];
        let list =
            if status["allocatable"].is_object() { &status["allocatable"] } else { &status["capacity"] };
        self.room = Amounts::read(list);
        self.most_pods = self.room.others.remove("pods").unwrap_or(USUAL_PODS);
        self.unregistered = is_unregistered(object);
        self.object = object.clone();
        self.discourages = self.taints().iter().any(|taint| !placement::keeps_away(taint));
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.object["metadata"]["labels"][key].as_str()
    }

    pub fn taints(&self) -> &[Value] {
        self.object["spec"]["taints"].as_array().map(Vec::as_slice).unwrap_or_default()
    }

    pub fn put(&mut self, needs: Arc<Needs>) {
        self.used.add(&needs.requests);
        self.usual = (self.usual.0 + needs.usual.0, self.usual.1 + needs.usual.1);
        self.ports.extend(needs.ports.iter().cloned());
        *self.priorities.entry(needs.priority).or_default() += 1;
        self.pods.insert(needs.key.clone(), needs);
    }

    pub fn take(&mut self, key: &Key) -> Option<Arc<Needs>> {
        let needs = self.pods.remove(key)?;
        self.used.take(&needs.requests);
        self.usual = (self.usual.0 - needs.usual.0, self.usual.1 - needs.usual.1);
        for port in &needs.ports {
            if let Some(at) = self.ports.iter().position(|is| is == port) {
                self.ports.swap_remove(at);
            }
        }
        if let Some(count) = self.priorities.get_mut(&needs.priority) {
            *count -= 1;
            if *count == 0 {
                self.priorities.remove(&needs.priority);
            }
        }
        Some(needs)
    }

    /// Whether the node has a pod with lower priority.
    pub fn has_less_than(&self, priority: i64) -> bool {
        self.priorities.first_key_value().is_some_and(|(lowest, _)| *lowest < priority)
    }

    pub fn has_free(&self, ports: &[Port]) -> bool {
        ports.iter().all(|port| !self.ports.iter().any(|taken| taken.collides(port)))
    }

    /// The load: used shares of CPU and memory, then the number of pods.
    pub fn load(&self) -> (i128, usize) {
        let part = |used: i64, room: i64| {
            if room <= 0 { WHOLE } else { i128::from(used) * WHOLE / i128::from(room) }
        };
        (part(self.usual.0, self.room.cpu) + part(self.usual.1, self.room.memory), self.pods.len())
    }
}
