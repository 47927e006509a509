//! The history of all pods and sequences, version by version.

use std::collections::BTreeMap;

use rollcall_testbed::AuditEvent;
use serde_json::Value;

use super::Rules;
use crate::common::scene::gates;

/// A committed version of an object, and its author.
#[derive(Clone, Debug)]
pub struct Version {
    pub rv: u64,
    pub object: Value,
    pub user: String,
    pub verb: String,
    pub path: String,
    pub request: Value,
}

/// The versions of one object, identified by its UID.
#[derive(Clone, Debug, Default)]
pub struct Life {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub versions: Vec<Version>,
    /// From this version on, the object is terminating or deleted.
    pub ended: Option<u64>,
}

/// A gate that was removed from a pod.
#[derive(Clone, Debug)]
pub struct Release {
    pub rv: u64,
    pub pod: String,
    pub uid: String,
    pub gate: String,
    pub user: String,
}

#[derive(Clone, Debug, Default)]
pub struct History {
    pub pods: BTreeMap<String, Life>,
    pub sequences: BTreeMap<String, Life>,
    /// Writes of the checked account to objects other than pods and sequences.
    pub others: Vec<AuditEvent>,
}

impl History {
    pub fn from_events(events: &[AuditEvent], rules: &Rules) -> History {
        let mut history = History::default();
        // The log is in the order of answers. A deletion without a version is later than all events before it.
        let mut newest = 0;
        for event in events.iter().filter(|event| event.is_committed()) {
            let rv = version_of(&event.response_object).unwrap_or(newest);
            newest = newest.max(rv);
            match event.resource.as_str() {
                "pods" if event.namespace == rules.namespace => record(&mut history.pods, event, rv),
                // If the namespace or the CRD is deleted, the sequences are deleted without events of their own.
                "podsequences" if event.verb == "deletecollection" => {
                    history.end_sequences(&event.namespace, newest);
                }
                "customresourcedefinitions" if event.verb == "delete" => history.end_sequences("", newest),
                "podsequences" => record(&mut history.sequences, event, rv),
                _ if event.user == rules.account => history.others.push(event.clone()),
                _ => {}
            }
        }
        for life in history.pods.values_mut().chain(history.sequences.values_mut()) {
            life.versions.sort_by_key(|version| version.rv);
            // The answer to a patch without effect has the version of the existing object.
            life.versions.dedup_by(|later, earlier| later.rv == earlier.rv);
        }
        history
    }

    /// Marks all sequences of a namespace, or of all namespaces, as deleted from this version on.
    fn end_sequences(&mut self, namespace: &str, rv: u64) {
        let all = self.sequences.values_mut();
        for sequence in all.filter(|sequence| namespace.is_empty() || sequence.namespace == namespace) {
            sequence.ended = Some(sequence.ended.map_or(rv, |ended| ended.min(rv)));
        }
    }

    /// Returns all removals of gates in the order of their commits.
    pub fn releases(&self) -> Vec<Release> {
        let mut releases: Vec<Release> = self.pods.values().flat_map(Life::releases).collect();
        releases.sort_by_key(|release| release.rv);
        releases
    }

    /// Returns the version of the removal of the pod's gate; the last one if several pods had this name.
    pub fn released_at(&self, pod: &str) -> Option<u64> {
        self.releases().iter().rev().find(|release| release.pod == pod).map(|release| release.rv)
    }
}

impl Life {
    fn releases(&self) -> impl Iterator<Item = Release> + '_ {
        self.steps().flat_map(|(before, after)| {
            let left = gates(&after.object);
            let taken = gates(&before.object).into_iter().filter(move |gate| !left.contains(gate));
            taken.map(|gate| Release {
                rv: after.rv,
                pod: self.name.clone(),
                uid: self.uid.clone(),
                gate: gate.to_owned(),
                user: after.user.clone(),
            })
        })
    }

    /// Returns each version together with its predecessor.
    pub fn steps(&self) -> impl Iterator<Item = (&Version, &Version)> {
        self.versions.windows(2).map(|pair| (&pair[0], &pair[1]))
    }

    pub fn is_over(&self, rv: u64) -> bool {
        self.ended.is_some_and(|ended| ended <= rv)
    }

    /// Returns the newest version before `rv`.
    pub fn before(&self, rv: u64) -> Option<&Version> {
        self.versions.iter().rev().find(|version| version.rv < rv)
    }
}

fn record(lives: &mut BTreeMap<String, Life>, event: &AuditEvent, rv: u64) {
    let object = &event.response_object;
    let own = object["metadata"]["uid"].as_str();
    let uid = own.or(object["details"]["uid"].as_str()).unwrap_or(&event.uid).to_owned();
    if uid.is_empty() {
        return;
    }
    let life = lives.entry(uid.clone()).or_default();
    if own.is_some() {
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
        (life.namespace, life.name, life.uid) = (text("namespace"), text("name"), uid);
        life.versions.push(Version {
            rv,
            object: object.clone(),
            user: event.user.clone(),
            verb: event.verb.clone(),
            path: event.resource_path(),
            request: event.request_object.clone(),
        });
    }
    let terminating = object["metadata"]["deletionTimestamp"].is_string();
    let deleted = event.verb == "delete" && event.subresource.is_empty();
    if terminating || deleted {
        life.ended = Some(life.ended.map_or(rv, |ended| ended.min(rv)));
    }
}

pub fn version_of(object: &Value) -> Option<u64> {
    object["metadata"]["resourceVersion"].as_str()?.parse().ok()
}

/// Returns the UID that a patch is guarded with: a field, or a test in a JSON patch.
pub fn meant(request: &Value) -> Option<String> {
    let mut tests = request.as_array().into_iter().flatten().filter(|step| step["op"] == "test");
    let tested = tests.find(|step| step["path"] == "/metadata/uid").map(|step| &step["value"]);
    tested.unwrap_or(&request["metadata"]["uid"]).as_str().map(str::to_owned)
}
