//! Effects of agents on their nodes: CSI drivers that the kubelet registers, devices that it offers, conditions that agents
//! set.
//!
//! Every node has a CSINode, created by its kubelet. An agent's effect appears some time after its pod is ready, because a
//! driver registers only then. It disappears with the pod.
//!
//! The effects of a pod are determined by its annotations or its container `node-driver-registrar`. With
//! [`crate::program_behaviour::ProgramBehaviour::agents_show_what_is_asked`], a member also provides whatever the sequence
//! requires of its group. If the group has no members, DaemonSet pods that look like its agent provide it. A pod with a
//! registrar that does not name its driver provides the driver; a device plugin provides the resource.

use super::bound::Bound;
use super::common::pods::{is_over, is_ready};
use super::kubelet::{STOPPED, behaviour};
use super::{Actor, Agenda};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::server::pods::set_condition;
use crate::store::{Change, Key};
use jiff::Timestamp;
use rollcall_api::sequence::SequenceObject;
use rollcall_api::watch::{PodObject, owner_kind};
use rollcall_core::Uid;
use rollcall_core::facts::OwnerKind;
use rollcall_core::roster::{NewPod, PodOwner, SelectingSequence};
use rollcall_core::sequence::keys;
use rollcall_core::sequence::spec::{Group, Members, NodeReady, Scope};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The usual name of the sidecar from the Kubernetes project that registers a CSI driver.
const REGISTRAR: &str = "node-driver-registrar";
/// Its argument with the path of the driver's socket. The directory of the socket has the name of the driver.
const REGISTRATION_PATH: &str = "--kubelet-registration-path=";
/// The kubelet's directory with the sockets of device plugins.
const DEVICE_PLUGINS: &str = "/var/lib/kubelet/device-plugins";
/// Number of devices of a plugin that does not give one: as many as a large machine has.
const DEVICES: &str = "8";

/// An effect of an agent on its node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Shown {
    Driver(String),
    /// A resource and its amount.
    Devices(String, String),
    Condition(String),
}

#[derive(Default)]
pub struct Agents {
    agenda: Agenda,
    pods: Bound,
    /// Since when the existing pods have been ready.
    ready: BTreeMap<Key, Timestamp>,
    /// The effects written to each node, by name and uid of the node.
    shown: BTreeMap<Arc<str>, (String, BTreeSet<Shown>)>,
}

impl Actor for Agents {
    fn on_change(&mut self, change: &Change, _: &Cluster) {
        let key = &change.key;
        match key.kind {
            Kind::Node if change.deleted => {
                self.agenda.forget(key);
                self.shown.remove(&key.name);
            }
            Kind::Node if change.before.is_none() => self.agenda.add(key.clone()),
            // A foreign actor deleted it, or it was deleted with an earlier node of that name.
            Kind::CsiNode if change.deleted => self.agenda.add(Key::new(Kind::Node, "", &key.name)),
            Kind::Pod => self.heard_of_pod(change),
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

impl Agents {
    fn heard_of_pod(&mut self, change: &Change) {
        self.pods.on_change(change);
        let Some(node) = change.object["spec"]["nodeName"].as_str() else { return };
        let news = match self.ready.contains_key(&change.key) {
            true => change.deleted || is_over(&change.object),
            false => !change.deleted && is_ready(&change.object),
        };
        if news {
            if self.ready.remove(&change.key).is_none() {
                self.ready.insert(change.key.clone(), change.at);
            }
            self.agenda.add(Key::new(Kind::Node, "", node));
        }
    }

    fn look_at(&mut self, cluster: &mut Cluster, key: &Key) {
        let Some(node) = cluster.store.get(key).cloned() else { return };
        if node["metadata"]["annotations"][STOPPED] == "true" {
            return;
        }
        let now = cluster.now();
        let mut wanted = BTreeSet::new();
        for pod in self.pods.on(&key.name) {
            let (Some(since), Some(pod)) = (self.ready.get(pod), cluster.store.get(pod)) else { continue };
            let due = *since + cluster.programs.register;
            let shows = shown_by(cluster, pod);
            match due <= now {
                true => wanted.extend(shows),
                false if shows.is_empty() => {}
                false => self.agenda.add_at(due, key.clone()),
            }
        }
        let before = self.shown.remove(&key.name).filter(|(uid, _)| uid == node.uid());
        let before = before.map(|(_, shown)| shown).unwrap_or_default();
        let gone: BTreeSet<Shown> = before.difference(&wanted).cloned().collect();
        register(cluster, key, node.uid(), &wanted, &gone);
        if wanted != before {
            offer(cluster, key, &wanted, &gone);
        }
        self.shown.insert(key.name.clone(), (node.uid().to_owned(), wanted));
    }
}

/// Writes the CSINode of a node. The CSINode of an earlier node with that name is deleted separately, and triggers another
/// call.
fn register(cluster: &mut Cluster, node: &Key, uid: &str, wanted: &BTreeSet<Shown>, gone: &BTreeSet<Shown>) {
    let key = Key::new(Kind::CsiNode, "", &node.name);
    if cluster.store.get(&key).is_none() {
        let owner = json!({ "apiVersion": "v1", "kind": "Node", "name": &*node.name, "uid": uid });
        let metadata = json!({ "name": &*node.name, "ownerReferences": [owner] });
        let _ = cluster.create(Kind::CsiNode, json!({ "metadata": metadata, "spec": { "drivers": [] } }));
    }
    let name = |shown: &Shown| match shown {
        Shown::Driver(name) => Some(name.clone()),
        Shown::Devices(..) | Shown::Condition(_) => None,
    };
    let _ = cluster.update(&key, |csi| {
        let mut drivers = csi["spec"]["drivers"].as_array().cloned().unwrap_or_default();
        drivers.retain(|driver| !gone.iter().filter_map(name).any(|gone| driver["name"] == gone));
        for name in wanted.iter().filter_map(name) {
            if !drivers.iter().any(|driver| driver["name"] == name) {
                drivers.push(json!({ "name": name, "nodeID": &*node.name, "topologyKeys": null }));
            }
        }
        csi["spec"]["drivers"] = drivers.into();
    });
}

/// Writes devices and conditions into the status of the node.
fn offer(cluster: &mut Cluster, node: &Key, wanted: &BTreeSet<Shown>, gone: &BTreeSet<Shown>) {
    let stamp = cluster.stamp();
    let each = gone.iter().map(|shown| (shown, false)).chain(wanted.iter().map(|shown| (shown, true)));
    let _ = cluster.update_status(node, |node| {
        for (shown, there) in each {
            match shown {
                Shown::Driver(_) => {}
                // After the end of a device plugin its resource stays, with an amount of 0.
                Shown::Devices(resource, number) => {
                    node["status"]["capacity"][resource] = number.as_str().into();
                    node["status"]["allocatable"][resource] =
                        if there { number.as_str() } else { "0" }.into();
                }
                Shown::Condition(name) => set_condition(
                    &mut node["status"],
                    json!({
                        "type": name, "status": if there { "True" } else { "False" }, "reason": "AgentSays",
                        "message": "", "lastHeartbeatTime": stamp, "lastTransitionTime": stamp,
                    }),
                ),
            }
        }
    });
}

/// The effects of a pod on its node.
fn shown_by(cluster: &Cluster, pod: &Value) -> BTreeSet<Shown> {
    let said = |what: &str| behaviour::annotation(pod, what).map(str::to_owned);
    let devices = said("device").map(|text| match text.split_once('=') {
        Some((resource, number)) => Shown::Devices(resource.into(), number.into()),
        None => Shown::Devices(text, DEVICES.into()),
    });
    let driver = said("csi-driver").or_else(|| registrar_of(pod)).map(Shown::Driver);
    let own = driver.into_iter().chain(devices).chain(said("condition").map(Shown::Condition));
    let asked = cluster.programs.agents_show_what_is_asked.then(|| asked_of(cluster, pod));
    own.chain(asked.into_iter().flatten()).collect()
}

fn registrar(pod: &Value) -> Option<&Value> {
    pod["spec"]["containers"].as_array()?.iter().find(|container| container["name"] == REGISTRAR)
}

fn is_device_plugin(pod: &Value) -> bool {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    let mut paths = volumes.filter_map(|volume| volume["hostPath"]["path"].as_str());
    paths.any(|path| path.trim_end_matches('/') == DEVICE_PLUGINS)
}

/// Whether a DaemonSet pod may be the agent of a group without members.
fn may_show(pod: &Value, wanted: &NodeReady) -> bool {
    match wanted {
        NodeReady::CsiDriver(_) => registrar(pod).is_some() && registrar_of(pod).is_none(),
        NodeReady::Allocatable(_) => is_device_plugin(pod),
        NodeReady::Condition(_) => false,
    }
}

/// The driver that a pod's registrar registers.
fn registrar_of(pod: &Value) -> Option<String> {
    let registrar = registrar(pod)?;
    let words = ["command", "args"].iter().filter_map(|list| registrar[*list].as_array()).flatten();
    let path = words.filter_map(Value::as_str).find_map(|word| word.strip_prefix(REGISTRATION_PATH))?;
    path.rsplit('/').nth(1).map(str::to_owned)
}

/// The effects that sequences require of a pod, as a member of a group or as the likely agent of a group without members.
fn asked_of(cluster: &Cluster, pod: &Value) -> Vec<Shown> {
    let Ok(facts) = PodObject::deserialize(pod).map(|pod| pod.facts()) else { return Vec::new() };
    let owners = pod["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let owner = owners.filter(|owner| owner["controller"] == true).find_map(|owner| {
        let text = |field: &str| owner[field].as_str();
        let kind = owner_kind(text("apiVersion")?, text("kind")?);
        Some(PodOwner { kind, name: text("name")?, uid: Uid::new(text("uid")?) })
    });
    let sequences = cluster.store.list(Kind::PodSequence, None);
    let sequences = sequences.filter(|(_, sequence)| sequence["spec"]["scope"] == "Node");
    let is_daemon = owner.is_some_and(|owner| owner.kind == OwnerKind::DaemonSet);
    let asked = sequences.filter_map(|(_, sequence)| {
        let sequence = SequenceObject::deserialize(&sequence.value).ok()?.facts();
        let spec = sequence.spec.as_ref().ok().filter(|spec| spec.scope == Scope::Node)?;
        let selecting = SelectingSequence::from_sequence(&sequence, false, keys::PREFIX)?;
        let new = NewPod { name: &facts.name, labels: &facts.labels, owner };
        let own = selecting.group_of(new).filter(|_| spec.pod_namespace == facts.namespace);
        let brings = |(position, group): &(usize, &Group)| match (&group.members, &group.node_ready) {
            (Members::None, Some(wanted)) => is_daemon && may_show(pod, wanted),
            _ => own == Some(*position),
        };
        let groups = spec.groups.iter().enumerate().filter(brings);
        Some(groups.filter_map(|(_, group)| group.node_ready.as_ref().map(shown)).collect::<Vec<Shown>>())
    });
    asked.flatten().collect()
}

fn shown(wanted: &NodeReady) -> Shown {
    match wanted {
        NodeReady::CsiDriver(name) => Shown::Driver(name.to_string()),
        NodeReady::Allocatable(resource) => Shown::Devices(resource.to_string(), DEVICES.into()),
        NodeReady::Condition(name) => Shown::Condition(name.to_string()),
    }
}
