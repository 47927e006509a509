//! Deletion: grace periods, preconditions and propagation to dependents.

use super::change::is_finished;
use super::refusal::Refusal;
use crate::cluster::{Cluster, seconds};
use crate::kinds::Kind;
use crate::store::{Key, Stored};
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::sync::Arc;

/// Classes that cannot be deleted.
const SYSTEM_CLASSES: [&str; 2] = ["system-cluster-critical", "system-node-critical"];

/// The finalizer that keeps an object until its dependents are deleted.
pub const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer that keeps an object until its dependents no longer refer to it.
pub const ORPHAN: &str = "orphan";

/// The options of a deletion.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    /// The grace period in seconds; `None` means that of the pod.
    pub grace: Option<i64>,
    pub uid: Option<String>,
    pub version: Option<String>,
    /// `None` keeps the current policy.
    pub propagation: Option<Propagation>,
    pub dry_run: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// The result of a deletion.
pub enum Deleted {
    /// The object was removed; this was its last state.
    Gone(Arc<Stored>),
    /// The object is terminating.
    Terminating(Arc<Stored>),
}

pub fn delete(cluster: &mut Cluster, key: &Key, options: &DeleteOptions) -> Result<Deleted, Refusal> {
    let Some(old) = cluster.store.get(key).cloned() else {
        return Err(Refusal::not_found(key.kind, &key.name));
    };
    check_preconditions(key, &old, options)?;
    if key.kind == Kind::PriorityClass && SYSTEM_CLASSES.contains(&&*key.name) {
        let why = "this is a system priority class and cannot be deleted";
        return Err(Refusal::forbidden(key.kind, &key.name, why));
    }
    let at = cluster.now();
    let grace = grace(key.kind, &old, options);
    let mut new = old.value.clone();
    match options.propagation {
        None => {}
        Some(Propagation::Background) => set_finalizer(&mut new, None),
        Some(Propagation::Foreground) => set_finalizer(&mut new, Some(FOREGROUND)),
        Some(Propagation::Orphan) => set_finalizer(&mut new, Some(ORPHAN)),
    }
    let ends = at.checked_add(SignedDuration::from_secs(grace)).unwrap_or(at);
    let already = old["metadata"]["deletionGracePeriodSeconds"].as_i64();
    // A repeated request can only shorten the grace period.
    if !old.is_terminating() || already.is_some_and(|already| grace < already) {
        new["metadata"]["deletionTimestamp"] = seconds(ends).into();
        // Namespaces do not use a grace period.
        if key.kind != Kind::Namespace {
            new["metadata"]["deletionGracePeriodSeconds"] = grace.into();
        }
    }
    if key.kind == Kind::Namespace {
        new["status"]["phase"] = "Terminating".into();
    }
    if new == old.value {
        return Ok(Deleted::Terminating(old));
    }
    // The start of a deletion increments the generation, for kinds with generations.
    if key.kind.info().generation && !old.is_terminating() {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or_default() + 1;
        new["metadata"]["generation"] = generation.into();
    }
    if options.dry_run {
        return Ok(Deleted::Terminating(Arc::new(Stored::draft(new))));
    }
    if is_finished(&new) {
        // The commit with a grace period of 0 precedes the removal, and watches see both.
        if key.kind == Kind::Pod {
            cluster.store.put(key.clone(), new, at);
        }
        let last = cluster.store.remove(key, at).unwrap_or(old);
        return Ok(Deleted::Gone(last));
    }
    Ok(Deleted::Terminating(cluster.store.put(key.clone(), new, at)))
}

pub(super) fn check_preconditions(key: &Key, old: &Stored, options: &DeleteOptions) -> Result<(), Refusal> {
    let differs = |wanted: &Option<String>, is: &str| wanted.as_deref().is_some_and(|wanted| wanted != is);
    let refuse = |what: &str, wanted: &Option<String>, is: &str, so: &str| {
        let wanted = wanted.as_deref().unwrap_or_default();
        let why = format!(
            "the {what} in the precondition ({wanted}) does not match the {what} in record ({is}). The object might have been {so}"
        );
        let mut refusal = Refusal::conflict(key.kind, &key.name, &why);
        // In this message, the API server uses the kind instead of the resource.
        let info = key.kind.info();
        let named = info.qualified().replacen(info.plural, info.name, 1);
        refusal.message = refusal.message.replacen(&info.qualified(), &named, 1);
        refusal.details["kind"] = info.name.into();
        Err(refusal)
    };
    if differs(&options.uid, old.uid()) {
        return refuse("UID", &options.uid, old.uid(), "deleted and then recreated");
    }
    let version = old.version.to_string();
    if differs(&options.version, &version) {
        return refuse("ResourceVersion", &options.version, &version, "modified");
    }
    Ok(())
}

/// The grace period: 0 except for bound pods that have not ended.
fn grace(kind: Kind, object: &Value, options: &DeleteOptions) -> i64 {
    if kind != Kind::Pod {
        return 0;
    }
    let asked = options.grace.or(object["spec"]["terminationGracePeriodSeconds"].as_i64()).unwrap_or(30);
    let nowhere = object["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
    let over = matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if nowhere || over { 0 } else { asked }
}

/// Sets one of the garbage collector's two finalizers, or removes both.
fn set_finalizer(object: &mut Value, finalizer: Option<&str>) {
    let list = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    if finalizer.is_some_and(|finalizer| list.iter().any(|one| one == finalizer)) {
        return;
    }
    let mut new: Vec<Value> = list.into_iter().filter(|one| one != FOREGROUND && one != ORPHAN).collect();
    new.extend(finalizer.map(Value::from));
    match (new.is_empty(), object["metadata"].as_object_mut()) {
        (true, Some(metadata)) => drop(metadata.remove("finalizers")),
        _ => object["metadata"]["finalizers"] = json!(new),
    }
}
