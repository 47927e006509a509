//! The volumes of a StatefulSet: one claim per pod and claim template, and the owners of the claims.

use super::identity::is_in_range;
use crate::actors::common::template::controller_reference;
use crate::actors::common::text;
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::server::refusal::Refusal;
use crate::store::{Key, Stored};
use serde_json::{Value, json};

fn templates(set: &Value) -> impl Iterator<Item = &Value> {
    set["spec"]["volumeClaimTemplates"].as_array().into_iter().flatten()
}

fn name(template: &Value, set: &Key, ordinal: i64) -> String {
    format!("{}-{}-{ordinal}", text(&template["metadata"]["name"]), set.name)
}

fn keys(key: &Key, set: &Value, ordinal: i64) -> Vec<Key> {
    let key_of =
        |template| Key::new(Kind::PersistentVolumeClaim, &key.namespace, &name(template, key, ordinal));
    templates(set).map(key_of).collect()
}

/// Adds the volumes of its claims to a pod. They replace volumes with the same names.
pub fn mount(pod: &mut Value, key: &Key, set: &Value, ordinal: i64) {
    let volume = |template: &Value| {
        let claim = name(template, key, ordinal);
        json!({ "name": template["metadata"]["name"], "persistentVolumeClaim": { "claimName": claim } })
    };
    let mut volumes: Vec<Value> = templates(set).map(volume).collect();
    let own = pod["spec"]["volumes"].as_array().cloned().unwrap_or_default();
    let is_claimed = |own: &Value| templates(set).any(|template| template["metadata"]["name"] == own["name"]);
    volumes.extend(own.into_iter().filter(|own| !is_claimed(own)));
    if !volumes.is_empty() {
        pod["spec"]["volumes"] = volumes.into();
    }
}

/// Creates the missing claims of a pod.
pub fn create(cluster: &mut Cluster, key: &Key, set: &Stored, ordinal: i64) -> Result<(), Refusal> {
    for template in templates(set) {
        let name = name(template, key, ordinal);
        match cluster.store.find(Kind::PersistentVolumeClaim, &key.namespace, &name) {
            Some(claim) if claim.is_terminating() => {
                let why = format!("pvc {name} is being deleted");
                return Err(Refusal::conflict(Kind::PersistentVolumeClaim, &name, &why));
            }
            Some(_) => {}
            None => {
                let mut claim = template.clone();
                claim["metadata"]["name"] = name.into();
                claim["metadata"]["namespace"] = (*key.namespace).into();
                for (label, value) in set["spec"]["selector"]["matchLabels"].as_object().into_iter().flatten()
                {
                    claim["metadata"]["labels"][label] = value.clone();
                }
                cluster.create(Kind::PersistentVolumeClaim, claim)?;
            }
        }
    }
    Ok(())
}

/// Whether a claim awaits deletion together with an earlier pod.
pub fn are_stale(cluster: &Cluster, key: &Key, set: &Value, ordinal: i64) -> bool {
    deletes(set, "whenScaled")
        && keys(key, set, ordinal).iter().filter_map(|claim| cluster.store.get(claim)).any(|claim| {
            references(claim).iter().any(|reference| {
                reference["kind"] == "Pod" && text(&reference["name"]) == format!("{}-{ordinal}", key.name)
            })
        })
}

fn deletes(set: &Value, when: &str) -> bool {
    set["spec"]["persistentVolumeClaimRetentionPolicy"][when] == "Delete"
}

fn references(claim: &Value) -> Vec<Value> {
    claim["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default()
}

/// Sets the owner of a pod's claims to the set, the pod or none, according to the retention policy.
pub fn own(cluster: &mut Cluster, key: &Key, set: &Stored, (pod_key, pod): (&Key, &Stored), ordinal: i64) {
    let scaled_down = !is_in_range(set, ordinal);
    let by_pod = deletes(set, "whenScaled") && scaled_down;
    let by_set = deletes(set, "whenDeleted") && !by_pod;
    for claim_key in keys(key, set, ordinal) {
        let Some(claim) = cluster.store.get(&claim_key) else { continue };
        let refers = |reference: &Value, key: &Key| {
            reference["kind"] == key.kind.info().name && text(&reference["name"]) == &*key.name
        };
        let old = references(claim);
        // The garbage collector deletes claims of former sets or pods. Claims with another controller are left alone.
        let stale = old.iter().any(|reference| {
            refers(reference, key) && reference["uid"] != set.uid()
                || refers(reference, pod_key) && reference["uid"] != pod.uid()
        });
        let mut new = old.clone();
        new.retain(|reference| !refers(reference, key) && !refers(reference, pod_key));
        if stale || new.iter().any(|reference| reference["controller"] == true) {
            continue;
        }
        if by_set {
            new.push(controller_reference(key, set));
        }
        if by_pod {
            new.push(controller_reference(pod_key, pod));
        }
        if new != old {
            // The claim may already be deleted.
            let _ = cluster.update(&claim_key, |claim| match new.is_empty() {
                true => drop(claim["metadata"].as_object_mut().map(|map| map.remove("ownerReferences"))),
                false => claim["metadata"]["ownerReferences"] = new.into(),
            });
        }
    }
}
