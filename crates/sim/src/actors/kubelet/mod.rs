//! The kubelets, which run the pods of their nodes.
//!
//! - [`behaviour`]: the behaviour of programs in containers. [`config`]: the ConfigMaps and Secrets that they need.
//!   [`probes`]: results of probes.
//! - [`life`]: the state of a pod. [`advance`]: its progress.
//! - [`phase`], [`status`]: the reported status.
//!
//! A pod only costs time when its state changes: results of probes are computed in advance instead of probing periodically.

mod advance;
pub mod behaviour;
mod config;
mod life;
mod phase;
mod probes;
mod status;

pub use config::missing_volume;

use super::{Actor, Agenda};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::server::delete::{self, DeleteOptions};
use crate::store::{Change, Key, Stored};
use advance::{PodContext, advance, begin_stop};
use jiff::{SignedDuration, Timestamp};
use life::Life;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Annotation of a Node whose kubelet does not act.
pub const STOPPED: &str = "testbed.rollcall.dev/stopped";

#[derive(Default)]
pub struct Kubelet {
    agenda: Agenda,
    lives: BTreeMap<Key, Life>,
    /// Pods that others have changed since their last sync.
    nudged: BTreeSet<Key>,
    /// Pods on nodes without an active kubelet.
    unattended: BTreeMap<String, BTreeSet<Key>>,
    addresses: u32,
}

impl Actor for Kubelet {
    fn on_change(&mut self, change: &Change, _: &Cluster) {
        match change.key.kind {
            Kind::Pod if change.deleted => {
                self.agenda.forget(&change.key);
                self.nudged.remove(&change.key);
                self.lives.remove(&change.key);
            }
            Kind::Pod if concerns(change, self.lives.get(&change.key)) => {
                self.nudged.insert(change.key.clone());
                self.agenda.add(change.key.clone());
            }
            Kind::Node if !change.deleted => {
                if let Some(waiting) = self.unattended.remove(&*change.key.name) {
                    waiting.into_iter().for_each(|key| self.agenda.add(key));
                }
            }
            _ => {}
        }
    }

    fn act(&mut self, cluster: &mut Cluster) -> Option<Timestamp> {
        while let Some(key) = self.agenda.pop(cluster.now()) {
            let nudged = self.nudged.remove(&key);
            if let Some(pod) = cluster.store.get(&key).cloned() {
                self.look_after(cluster, &key, &pod, nudged);
            }
        }
        self.agenda.next_moment()
    }
}

/// Whether the kubelet must sync the pod after this change. It ignores only its own writes, and corrects a status that
/// others have changed.
fn concerns(change: &Change, life: Option<&Life>) -> bool {
    let bound = !change.object["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
    bound && life.is_none_or(|life| life.written != change.object.version)
}

impl Kubelet {
    fn look_after(&mut self, cluster: &mut Cluster, key: &Key, pod: &Stored, nudged: bool) {
        let node_name = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        let node = cluster.store.find(Kind::Node, "", node_name).filter(|node| is_attended(node));
        let Some(host) = node.map(|node| address(node)) else {
            self.unattended.entry(node_name.to_owned()).or_default().insert(key.clone());
            if nudged {
                self.nudged.insert(key.clone());
            }
            return;
        };
        let now = cluster.now();
        let known = self.lives.get(key).is_some_and(|life| life.uid == pod.uid());
        if !known {
            if is_over(pod) {
                if pod.is_terminating() {
                    delete(cluster, key, pod);
                }
                return;
            }
            self.lives.insert(key.clone(), Life::new(pod, now));
        }
        let Some(life) = self.lives.get_mut(key) else { return };
        // A pod that others have marked as finished stays finished.
        life.over |= is_over(pod);
        let behaviour = behaviour::of_pod(pod, &cluster.programs);
        let Cluster { store, programs, chance, .. } = cluster;
        let mut context = PodContext { pod, store, programs, chance, now, behaviour, nudged };
        if pod.is_terminating() {
            let shorter = |until: Timestamp| nudged && until > now + grace_left(pod);
            if life.stopping.as_ref().is_none_or(|stopping| !stopping.deletes || shorter(stopping.until)) {
                begin_stop(life, &context, true);
                life.over = false;
            }
        }
        let progress = advance(life, &mut context);
        if let Some(next) = progress.next {
            self.agenda.add_at(next.max(now), key.clone());
        }
        if life.ip.is_none() && life.units.iter().any(status::was_made) {
            self.addresses += 1;
            life.ip = Some(pod_address(self.addresses));
        }
        if progress.changed || nudged || !known {
            let stamp = cluster.stamp();
            let written = cluster.update_status(key, |pod| status::write(pod, life, &stamp, &host));
            life.written = written.map_or(life.written, |written| written.version);
        }
        if pod.is_terminating() && life.over {
            delete(cluster, key, pod);
        }
    }
}

fn is_attended(node: &Value) -> bool {
    node["metadata"]["annotations"][STOPPED] != "true"
}

fn is_over(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

fn grace_left(pod: &Value) -> SignedDuration {
    SignedDuration::from_secs(
        pod["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or_default().max(0),
    )
}

fn delete(cluster: &mut Cluster, key: &Key, pod: &Stored) {
    let options =
        DeleteOptions { grace: Some(0), uid: Some(pod.uid().to_owned()), ..DeleteOptions::default() };
    // The pod may already be deleted.
    let _ = delete::delete(cluster, key, &options);
}

fn address(node: &Value) -> String {
    let addresses = node["status"]["addresses"].as_array().into_iter().flatten();
    let mut internal = addresses.filter(|address| address["type"] == "InternalIP");
    internal.find_map(|address| address["address"].as_str()).unwrap_or("127.0.0.1").to_owned()
}

/// An address from a benchmarking range (RFC 2544), which is never routed and large enough for many pods.
fn pod_address(number: u32) -> String {
    let number = number % (1 << 17);
    format!("198.{}.{}.{}", 18 + (number >> 16), (number >> 8) & 0xff, number & 0xff)
}
