//! The history of a template, stored as ControllerRevisions.

use super::template::{self, controller_reference};
use super::{born, is_controlled_by, number, text};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::server::refusal::Refusal;
use crate::store::{Key, Stored};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Default number of unused revisions that are kept.
const HISTORY: i64 = 10;
/// Maximum length of the prefix of a revision's name.
const LONGEST_START: usize = 223;

/// A revision of a template.
#[derive(Clone)]
pub struct Revision {
    pub key: Key,
    pub object: Arc<Stored>,
}

impl Revision {
    pub fn name(&self) -> &str {
        &self.key.name
    }

    pub fn label(&self, name: &str) -> &str {
        text(&self.object["metadata"]["labels"][name])
    }

    fn number(&self) -> i64 {
        number(&self.object["revision"])
    }

    /// The template of this revision.
    pub fn template(&self) -> Value {
        let mut template = self.object["data"]["spec"]["template"].clone();
        if let Some(template) = template.as_object_mut() {
            template.remove("$patch");
        }
        template
    }
}

/// The stored patch, which restores the template.
pub fn data(template: &Value) -> Value {
    let mut template = template.clone();
    template["$patch"] = "replace".into();
    json!({ "spec": { "template": template } })
}

/// The revisions of an owner, oldest first.
pub fn of_owner(cluster: &Cluster, owner: &Stored) -> Vec<Revision> {
    let revisions = cluster.store.owned(owner.uid(), Kind::ControllerRevision);
    let mut revisions: Vec<Revision> = revisions
        .filter(|(_, revision)| is_controlled_by(revision, owner.uid()))
        .map(|(key, object)| Revision { key: key.clone(), object: object.clone() })
        .collect();
    revisions
        .sort_by_cached_key(|revision| (revision.number(), born(&revision.object), revision.key.clone()));
    revisions
}

/// How an owner names its revisions.
pub struct Naming {
    /// The label of a revision with its hash.
    pub label: &'static str,
    pub hash: fn(&Value, Option<i64>) -> String,
}

/// The revision of the current template. An existing one becomes the newest; otherwise a new one is created.
pub fn current(
    cluster: &mut Cluster,
    key: &Key,
    owner: &Stored,
    naming: &Naming,
    collisions: &mut i64,
) -> Result<Revision, Refusal> {
    let revisions = of_owner(cluster, owner);
    let data = data(&owner["spec"]["template"]);
    let next = revisions.last().map(Revision::number).unwrap_or_default() + 1;
    if let Some(equal) = revisions.iter().rev().find(|revision| revision.object["data"] == data) {
        if equal.number() + 1 == next {
            return Ok(equal.clone());
        }
        // The template was rolled back to this revision.
        let object = cluster.update(&equal.key, |revision| revision["revision"] = next.into())?;
        return Ok(Revision { key: equal.key.clone(), object });
    }
    make(cluster, key, owner, naming, collisions, next)
}

fn make(
    cluster: &mut Cluster,
    key: &Key,
    owner: &Stored,
    naming: &Naming,
    collisions: &mut i64,
    number: i64,
) -> Result<Revision, Refusal> {
    let template = &owner["spec"]["template"];
    let start: String = key.name.chars().take(LONGEST_START).collect();
    loop {
        let hash = (naming.hash)(template, Some(*collisions));
        let mut labels = template["metadata"]["labels"].as_object().cloned().unwrap_or_default();
        labels.insert(naming.label.into(), hash.clone().into());
        let mut revision = json!({
            "metadata": {
                "namespace": &*key.namespace, "name": format!("{start}-{hash}"), "labels": labels,
                "ownerReferences": [controller_reference(key, owner)],
            },
            "data": data(template), "revision": number,
        });
        if !owner["metadata"]["annotations"].is_null() {
            revision["metadata"]["annotations"] = owner["metadata"]["annotations"].clone();
        }
        match cluster.create(Kind::ControllerRevision, revision) {
            Ok(object) => {
                return Ok(Revision { key: Key::from_object(Kind::ControllerRevision, &object), object });
            }
            // Two templates have the same hash.
            Err(refusal) if refusal.reason == "AlreadyExists" => *collisions += 1,
            Err(refusal) => return Err(refusal),
        }
    }
}

/// The hash of a template as StatefulSets compute it, from the patch and the collision count.
pub fn hash_of_patch(template: &Value, collisions: Option<i64>) -> String {
    template::hash_of_text(&data(template).to_string(), collisions)
}

/// Deletes the oldest unused revisions beyond the limit. Revisions named in `in_use` stay.
pub fn forget(cluster: &mut Cluster, owner: &Stored, in_use: &BTreeSet<String>, label: Option<&str>) {
    let keep = owner["spec"]["revisionHistoryLimit"].as_i64().unwrap_or(HISTORY);
    let known_as =
        |revision: &Revision| label.map_or(revision.name(), |label| revision.label(label)).to_owned();
    let mut unused = of_owner(cluster, owner);
    unused.retain(|revision| !in_use.contains(&known_as(revision)));
    let surplus = (unused.len() as i64 - keep).max(0) as usize;
    for revision in unused.iter().take(surplus) {
        super::delete_this(cluster, &revision.key, &revision.object);
    }
}
