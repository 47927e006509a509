//! Finds or creates the ReplicaSet of the current template, and numbers it.

use super::limits::{max_surge, replicas};
use super::sets::{DESIRED, HASH, MAX, REVISION, REVISION_HISTORY, Set, Sets};
use super::status;
use crate::actors::common::template::{self, controller_reference};
use crate::actors::common::{conditions, text};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::server::refusal::Refusal;
use crate::store::{Key, Stored};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Annotations of a Deployment that are not copied to its ReplicaSets.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED,
    MAX,
    "deprecated.deployment.rollback.to",
];
/// Maximum length of a ReplicaSet's revision history, in characters.
const LONGEST_HISTORY: usize = 2000;
/// Maximum length of an object's name.
const LONGEST_NAME: usize = 253;

/// The current ReplicaSets. Also updates the revision of the newest one, there and in the Deployment.
pub fn look(
    cluster: &mut Cluster,
    key: &Key,
    deployment: Arc<Stored>,
) -> Result<(Arc<Stored>, Sets), Refusal> {
    let mut sets = Sets::owned_by(cluster, &deployment);
    let Some(new) = sets.new.take() else { return Ok((deployment, sets)) };
    let revision = next_revision(&sets);
    let object = cluster.update(&new.key, |set| {
        annotate(set, &deployment, revision);
        match &deployment["spec"]["minReadySeconds"] {
            Value::Null => drop(set["spec"].as_object_mut().map(|spec| spec.remove("minReadySeconds"))),
            seconds => set["spec"]["minReadySeconds"] = seconds.clone(),
        }
    })?;
    let new = Set { key: new.key, object };
    let found = format!("Found new replica set {:?}", &*new.key.name);
    let stamp = cluster.stamp();
    let deployment = cluster.update_status(key, |deployment| {
        set_revision(deployment, new.annotation(REVISION));
        if status::deadline(deployment).is_some()
            && conditions::find(&deployment["status"], "Progressing").is_none()
        {
            let condition = status::condition("Progressing", "True", "FoundNewReplicaSet", &found, &stamp);
            conditions::set(&mut deployment["status"], condition);
        }
    })?;
    sets.new = Some(new);
    Ok((deployment, sets))
}

/// Like [`look`], but creates the ReplicaSet of the current template if it is missing.
pub fn look_or_make(
    cluster: &mut Cluster,
    key: &Key,
    deployment: Arc<Stored>,
    sets: Sets,
) -> Result<(Arc<Stored>, Sets), Refusal> {
    if sets.new.is_some() {
        return Ok((deployment, sets));
    }
    let revision = next_revision(&sets);
    let set = draft(key, &deployment, &sets, revision);
    let name = text(&set["metadata"]["name"]).to_owned();
    let stamp = cluster.stamp();
    let object = match cluster.create(Kind::ReplicaSet, set) {
        Ok(object) => object,
        Err(refusal) => {
            note_refusal(cluster, key, &name, &refusal);
            return Err(refusal);
        }
    };
    let message = format!("Created new replica set {name:?}");
    let deployment = cluster.update_status(key, |deployment| {
        set_revision(deployment, &revision.to_string());
        if status::deadline(deployment).is_some() {
            let condition =
                status::condition("Progressing", "True", "NewReplicaSetCreated", &message, &stamp);
            conditions::set(&mut deployment["status"], condition);
        }
    })?;
    let new = Set { key: Key::from_object(Kind::ReplicaSet, &object), object };
    Ok((deployment, Sets { new: Some(new), old: sets.old }))
}

/// Records that the ReplicaSet could not be created. If its name is taken by another template, the next attempt uses
/// another name.
fn note_refusal(cluster: &mut Cluster, key: &Key, name: &str, refusal: &Refusal) {
    let stamp = cluster.stamp();
    let _ = cluster.update_status(key, |deployment| {
        if refusal.reason == "AlreadyExists" {
            let collisions = deployment["status"]["collisionCount"].as_i64().unwrap_or_default();
            deployment["status"]["collisionCount"] = (collisions + 1).into();
        } else if status::deadline(deployment).is_some() {
            let message = format!("Failed to create new replica set {name:?}: {}", refusal.message);
            let condition =
                status::condition("Progressing", "False", "ReplicaSetCreateError", &message, &stamp);
            conditions::set(&mut deployment["status"], condition);
        }
    });
}

fn draft(key: &Key, deployment: &Stored, sets: &Sets, revision: i64) -> Value {
    let mut template = deployment["spec"]["template"].clone();
    let hash = template::hash(&template, deployment["status"]["collisionCount"].as_i64());
    template["metadata"]["labels"][HASH] = hash.clone().into();
    let mut selector = deployment["spec"]["selector"].clone();
    selector["matchLabels"][HASH] = hash.clone().into();
    let start: String = key.name.chars().take(LONGEST_NAME - 1 - hash.len()).collect();
    let mut spec = json!({
        "replicas": first_size(deployment, sets), "selector": selector, "template": template,
    });
    if !deployment["spec"]["minReadySeconds"].is_null() {
        spec["minReadySeconds"] = deployment["spec"]["minReadySeconds"].clone();
    }
    let mut set = json!({
        "metadata": {
            "namespace": &*key.namespace, "name": format!("{start}-{hash}"),
            "labels": spec["template"]["metadata"]["labels"],
            "ownerReferences": [controller_reference(key, deployment)],
        },
        "spec": spec,
    });
    annotate(&mut set, deployment, revision);
    tell_size(&mut set, deployment);
    set
}

/// The initial size of a new ReplicaSet.
fn first_size(deployment: &Stored, sets: &Sets) -> i64 {
    let wanted = replicas(deployment);
    if !super::limits::is_rolling(deployment) {
        return wanted;
    }
    (wanted + max_surge(deployment) - sets.replicas()).clamp(0, wanted)
}

fn next_revision(sets: &Sets) -> i64 {
    sets.old.iter().map(Set::revision).max().unwrap_or_default() + 1
}

fn annotations(object: &mut Value) -> Option<&mut Map<String, Value>> {
    let annotations = &mut object["metadata"]["annotations"];
    if !annotations.is_object() {
        *annotations = json!({});
    }
    annotations.as_object_mut()
}

/// Writes the annotations that distinguish scaling from a rollout.
pub fn tell_size(set: &mut Value, deployment: &Value) {
    let wanted = replicas(deployment);
    if let Some(annotations) = annotations(set) {
        annotations.insert(DESIRED.into(), wanted.to_string().into());
        annotations.insert(MAX.into(), (wanted + max_surge(deployment)).to_string().into());
    }
}

/// Copies the annotations of a Deployment to its ReplicaSet, and writes the revision if it is higher than before.
fn annotate(set: &mut Value, deployment: &Stored, revision: i64) {
    let Some(annotations) = annotations(set) else { return };
    for (name, value) in deployment["metadata"]["annotations"].as_object().into_iter().flatten() {
        if !NOT_COPIED.contains(&name.as_str()) {
            annotations.insert(name.clone(), value.clone());
        }
    }
    let was = annotations.get(REVISION).and_then(Value::as_str).map(str::to_owned);
    if was.as_ref().and_then(|was| was.parse().ok()).unwrap_or(0i64) >= revision {
        return;
    }
    annotations.insert(REVISION.into(), revision.to_string().into());
    // The ReplicaSet had another revision before, so this is a rollback.
    if let Some(was) = was {
        let history = annotations.get(REVISION_HISTORY).map(text).unwrap_or_default();
        let mut numbers: Vec<&str> = history.split(',').filter(|number| !number.is_empty()).collect();
        numbers.push(&was);
        while numbers.iter().map(|number| number.len() + 1).sum::<usize>() > LONGEST_HISTORY {
            numbers.remove(0);
        }
        let history = numbers.join(",");
        annotations.insert(REVISION_HISTORY.into(), history.into());
    }
}

fn set_revision(deployment: &mut Value, revision: &str) {
    if let Some(annotations) = annotations(deployment) {
        annotations.insert(REVISION.into(), revision.into());
    }
}
