//! The ReplicaSets of a Deployment, as it looks at them.

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

    /// A count of its status.
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

    /// Oldest first; the name decides among those of one second.
    pub fn age_key(&self) -> impl Ord + use<> {
        (born(&self.object), self.key.name.clone())
    }
}

/// The sets of a Deployment: the one with its template, and all others, oldest first.
#[derive(Clone)]
pub struct Sets {
    pub new: Option<Set>,
    pub old: Vec<Set>,
}

impl Sets {
    pub fn of(cluster: &Cluster, deployment: &Stored) -> Sets {
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

    /// Those that want pods.
    pub fn active(&self) -> Vec<Set> {
        self.all().filter(|set| set.replicas() > 0).cloned().collect()
    }

    pub fn replicas(&self) -> i64 {
        self.all().map(Set::replicas).sum()
    }

    pub fn available(&self) -> i64 {
        self.all().map(Set::available).sum()
    }

    /// The only one that wants pods; if none does, the newest.
    pub fn active_or_latest(&self) -> Option<Set> {
        match self.active().as_slice() {
            [] => self.new.clone().or_else(|| self.old.iter().max_by_key(|set| set.age_key()).cloned()),
            [one] => Some(one.clone()),
            _ => None,
        }
    }
}

/// From the largest; among equals the newer or the older first.
pub fn by_size(sets: &mut [Set], newer_first: bool) {
    sets.sort_by_cached_key(|set| (Reverse(set.replicas()), set.age_key()));
    if newer_first {
        sets.sort_by(|one, other| {
            let size = other.replicas().cmp(&one.replicas());
            size.then_with(|| other.age_key().cmp(&one.age_key()))
        });
    }
}

/// Whether two templates are the same but for the label that their hash is written to.
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
