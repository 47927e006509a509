//! The ReplicaSets of a Deployment.

use crate::actors::common::{born, number, text};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::store::{Key, Stored};
use serde_json::Value;
use std::cmp::Reverse;
use std::sync::Arc;

pub const HASH: &str = "pod-template-hash";
pub const REVISION: &str = "deployment.kubernetes.io/revision";
pub const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
pub const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
pub const MAX: &str = "deployment.kubernetes.io/max-replicas";

#[derive(Clone)]
pub struct Set {
    pub key: Key,
    pub object: Arc<Stored>,
}

impl Set {
    pub fn replicas(&self) -> i64 {
        self.object["spec"]["replicas"].as_i64().unwrap_or(1)
    }

    /// A count in its status.
    pub fn count(&self, field: &str) -> i64 {
        number(&self.object["status"][field])
    }

    pub fn available(&self) -> i64 {
        self.count("availableReplicas")
    }

    pub fn annotation(&self, name: &str) -> &str {
        text(&self.object["metadata"]["annotations"][name])
    }

    pub fn revision(&self) -> i64 {
        self.annotation(REVISION).parse().unwrap_or_default()
    }

    /// Sorts by age, oldest first; by name if created in the same second.
    pub fn age_key(&self) -> impl Ord + use<> {
        (born(&self.object), self.key.name.clone())
    }
}

/// The ReplicaSets of a Deployment: the one with the current template, and all others, oldest first.
#[derive(Clone)]
pub struct Sets {
    pub new: Option<Set>,
    pub old: Vec<Set>,
}

impl Sets {
    pub fn owned_by(cluster: &Cluster, deployment: &Stored) -> Sets {
        let mine = |set: &Value| crate::actors::common::is_controlled_by(set, deployment.uid());
        let mut all: Vec<Set> = cluster
            .store
            .owned(deployment.uid(), Kind::ReplicaSet)
            .filter(|(_, set)| mine(set))
            .map(|(key, object)| Set { key: key.clone(), object: object.clone() })
            .collect();
        all.sort_by_cached_key(Set::age_key);
        let template = &deployment["spec"]["template"];
        let new = all.iter().position(|set| is_same_template(&set.object["spec"]["template"], template));
        Sets { new: new.map(|at| all.remove(at)), old: all }
    }

    pub fn all(&self) -> impl Iterator<Item = &Set> {
        self.old.iter().chain(&self.new)
    }

    /// The ReplicaSets with a positive replica count.
    pub fn active(&self) -> Vec<Set> {
        self.all().filter(|set| set.replicas() > 0).cloned().collect()
    }

    pub fn replicas(&self) -> i64 {
        self.all().map(Set::replicas).sum()
    }

    pub fn available(&self) -> i64 {
        self.all().map(Set::available).sum()
    }

    /// The only ReplicaSet with a positive replica count, or the newest if there is none. `None` if there are several.
    pub fn active_or_latest(&self) -> Option<Set> {
        match self.active().as_slice() {
            [] => self.new.clone().or_else(|| self.old.iter().max_by_key(|set| set.age_key()).cloned()),
            [one] => Some(one.clone()),
            _ => None,
        }
    }
}

/// Sorts by size, largest first. `newer_first` decides between equal sizes.
pub fn by_size(sets: &mut [Set], newer_first: bool) {
    sets.sort_by_cached_key(|set| (Reverse(set.replicas()), set.age_key()));
    if newer_first {
        sets.sort_by(|one, other| {
            let size = other.replicas().cmp(&one.replicas());
            size.then_with(|| other.age_key().cmp(&one.age_key()))
        });
    }
}

/// Whether two templates are equal except for the label with their hash.
fn is_same_template(one: &Value, other: &Value) -> bool {
    let unlabelled = |template: &Value| {
        let mut labels = template["metadata"]["labels"].as_object().cloned().unwrap_or_default();
        labels.remove(HASH);
        labels
    };
    let others = |template: &Value| {
        let mut metadata = template["metadata"].as_object().cloned().unwrap_or_default();
        metadata.remove("labels");
        metadata.retain(|_, value| !value.is_null());
        metadata
    };
    one["spec"] == other["spec"] && unlabelled(one) == unlabelled(other) && others(one) == others(other)
}
