//! What agents make of their nodes: CSI drivers that the kubelet registers, devices that it offers, conditions that they set.
//!
//! Every node has a CSINode, made by its kubelet. What an agent shows appears on its node some time after its pod is ready, for
//! a ready pod is not yet a registered driver, and goes when the pod goes.
//!
//! Which pod shows what: its annotations say it, or its container `node-driver-registrar`; or, where
//! [`crate::program_behaviour::ProgramBehaviour::agents_show_what_is_asked`] says so, what the sequences ask of the group that it
//! is in. What a group without members asks for comes from the pods of DaemonSets that look like it: a driver from one with a
//! registrar that does not name its driver, a resource from a device plugin.

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
use rollcall_core::roster::{Claimant, NewPod, PodOwner};
use rollcall_core::sequence::keys;
use rollcall_core::sequence::spec::{Group, Members, NodeReady, Scope};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// As everybody names it who takes the driver's side of the registration from the Kubernetes project.
const REGISTRAR: &str = "node-driver-registrar";
/// Its argument with the path of the driver's socket; the folder of that is named after the driver.
const REGISTRATION_PATH: &str = "--kubelet-registration-path=";
/// The folder of the kubelet in which device plugins have their sockets.
const DEVICE_PLUGINS: &str = "/var/lib/kubelet/device-plugins";
/// Devices of a plugin that does not say how many: as many as a large machine has.
const DEVICES: &str = "8";

/// Something that a node shows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Shown {
    Driver(String),
    /// A resource, and how much of it.
    Devices(String, String),
    Condition(String),
}

#[derive(Default)]
pub struct Agents {
    agenda: Agenda,
    pods: Bound,
    /// Since when pods have been ready that are still there.
    ready: BTreeMap<Key, Timestamp>,
    /// What was written on which node, by its name and uid.
    shown: BTreeMap<Arc<str>, (String, BTreeSet<Shown>)>,
}

impl Actor for Agents {
    fn heard(&mut self, change: &Change, _: &Cluster) {
        let key = &change.key;
        match key.kind {
            Kind::Node if change.deleted => {
                self.agenda.forget(key);
                self.shown.remove(&key.name);
            }
            Kind::Node if change.before.is_none() => self.agenda.add(key.clone()),
            // Somebody else's hands, or it went with another node of that name.
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
        self.pods.heard(change);
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

/// The CSINode as it is to be; one of an earlier node of that name goes by itself, and is heard of.
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

/// What stands in the status of the node itself.
fn offer(cluster: &mut Cluster, node: &Key, wanted: &BTreeSet<Shown>, gone: &BTreeSet<Shown>) {
    let stamp = cluster.stamp();
    let each = gone.iter().map(|shown| (shown, false)).chain(wanted.iter().map(|shown| (shown, true)));
    let _ = cluster.update_status(node, |node| {
        for (shown, there) in each {
            match shown {
                Shown::Driver(_) => {}
                // A plugin that is gone leaves its resource behind, and none of it.
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

/// What a pod shows on its node.
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

/// Whether a pod of a DaemonSet may be the agent that a group without members waits for.
fn may_show(pod: &Value, wanted: &NodeReady) -> bool {
    match wanted {
        NodeReady::CsiDriver(_) => registrar(pod).is_some() && registrar_of(pod).is_none(),
        NodeReady::Allocatable(_) => is_device_plugin(pod),
        NodeReady::Condition(_) => false,
    }
}

/// The driver that the registrar beside it registers.
fn registrar_of(pod: &Value) -> Option<String> {
    let registrar = registrar(pod)?;
    let words = ["command", "args"].iter().filter_map(|list| registrar[*list].as_array()).flatten();
    let path = words.filter_map(Value::as_str).find_map(|word| word.strip_prefix(REGISTRATION_PATH))?;
    path.rsplit('/').nth(1).map(str::to_owned)
}

/// What sequences wait for, beyond pods, where this pod is in the group or looks like the agent of one without members.
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
        let claimant = Claimant::of(&sequence, false, keys::PREFIX)?;
        let new = NewPod { name: &facts.name, labels: &facts.labels, owner };
        let own = claimant.group_of(new).filter(|_| spec.pod_namespace == facts.namespace);
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
