//! Provides a volume for every claim immediately. A deleted claim stays while a pod uses it.

use super::common::{pods, text};
use super::{Actor, Agenda};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::store::{Change, Key};
use jiff::Timestamp;
use serde_json::Value;

/// Annotations of a bound claim.
const BOUND: [&str; 2] = ["pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller"];
/// The finalizer of a claim in use.
const PROTECTION: &str = "kubernetes.io/pvc-protection";

#[derive(Default)]
pub struct VolumeClaims {
    agenda: Agenda,
}

impl Actor for VolumeClaims {
    fn on_change(&mut self, change: &Change, cluster: &Cluster) {
        match change.key.kind {
            Kind::PersistentVolumeClaim if change.deleted => self.agenda.forget(&change.key),
            Kind::PersistentVolumeClaim => self.agenda.add(change.key.clone()),
            // The claims of this pod may be unused now.
            Kind::Pod if change.deleted || pods::is_over(&change.object) => {
                for name in used_by(&change.object) {
                    let claim = Key::new(Kind::PersistentVolumeClaim, &change.key.namespace, name);
                    if cluster.store.get(&claim).is_some_and(|claim| claim.is_terminating()) {
                        self.agenda.add(claim);
                    }
                }
            }
            _ => {}
        }
    }

    fn act(&mut self, cluster: &mut Cluster) -> Option<Timestamp> {
        while let Some(key) = self.agenda.pop(cluster.now()) {
            let Some(claim) = cluster.store.get(&key) else { continue };
            if claim.is_terminating() {
                if !is_used(cluster, &key) {
                    remove_protection(cluster, &key);
                }
            } else if claim["status"]["phase"] != "Bound" {
                bind(cluster, &key);
            }
        }
        None
    }
}

/// The claims that the volumes of a pod refer to.
fn used_by(pod: &Value) -> impl Iterator<Item = &str> {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    volumes.filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str())
}

/// Whether an unfinished pod uses a claim.
fn is_used(cluster: &Cluster, claim: &Key) -> bool {
    let mut pods = cluster.store.list(Kind::Pod, Some(&claim.namespace));
    pods.any(|(_, pod)| !pods::is_over(pod) && used_by(pod).any(|name| name == &*claim.name))
}

fn remove_protection(cluster: &mut Cluster, key: &Key) {
    // This has no effect if the claim no longer exists.
    let _ = cluster.update(key, |claim| {
        if let Some(list) = claim["metadata"]["finalizers"].as_array_mut() {
            list.retain(|finalizer| finalizer != PROTECTION);
        }
    });
}

fn bind(cluster: &mut Cluster, key: &Key) {
    let Some(claim) = cluster.store.get(key) else { return };
    let volume = match text(&claim["spec"]["volumeName"]) {
        "" => format!("pvc-{}", claim.uid()),
        name => name.to_owned(),
    };
    let _ = cluster.update(key, |claim| {
        claim["spec"]["volumeName"] = volume.into();
        BOUND.iter().for_each(|key| claim["metadata"]["annotations"][*key] = "yes".into());
    });
    let _ = cluster.update_status(key, |claim| {
        let modes = claim["spec"]["accessModes"].clone();
        let storage = claim["spec"]["resources"]["requests"]["storage"].clone();
        claim["status"]["phase"] = "Bound".into();
        claim["status"]["accessModes"] = modes;
        claim["status"]["capacity"]["storage"] = storage;
    });
}
