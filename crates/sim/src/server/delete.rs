//! Delete: grace, preconditions, what becomes of the dependents.

use super::change::is_finished;
use super::refusal::Refusal;
use crate::cluster::{Cluster, seconds};
use crate::kinds::Kind;
use crate::store::{Key, Stored};
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::sync::Arc;

/// Nobody takes these away.
const SYSTEM_CLASSES: [&str; 2] = ["system-cluster-critical", "system-node-critical"];

/// Keeps an object until its dependents are gone.
pub const FOREGROUND: &str = "foregroundDeletion";
/// Keeps an object until its dependents have forgotten it.
pub const ORPHAN: &str = "orphan";

/// How it is to be deleted.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    /// Seconds; what the pod says, if it is not given.
    pub grace: Option<i64>,
    pub uid: Option<String>,
    pub version: Option<String>,
    /// As before, if it is not said.
    pub propagation: Option<Propagation>,
    pub dry_run: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// What became of it.
pub enum Deleted {
    /// It is gone; this was its last state.
    Gone(Arc<Stored>),
    /// It is on its way.
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
    // Asking again can only shorten the time.
    if !old.is_terminating() || already.is_some_and(|already| grace < already) {
        new["metadata"]["deletionTimestamp"] = seconds(ends).into();
        // A namespace has its own way to wait.
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
    // Being deleted is a new generation, where generations are counted.
    if key.kind.info().generation && !old.is_terminating() {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or_default() + 1;
        new["metadata"]["generation"] = generation.into();
    }
    if options.dry_run {
        return Ok(Deleted::Terminating(Arc::new(Stored::draft(new))));
    }
    if is_finished(&new) {
        // That a pod has no time left is written down before it goes, and watches see both.
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
        // Here the kind stands for the resource.
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

/// Only pods get time to end, and only those that have been somewhere and still run.
fn grace(kind: Kind, object: &Value, options: &DeleteOptions) -> i64 {
    if kind != Kind::Pod {
        return 0;
    }
    let asked = options.grace.or(object["spec"]["terminationGracePeriodSeconds"].as_i64()).unwrap_or(30);
    let nowhere = object["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
    let over = matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if nowhere || over { 0 } else { asked }
}

/// Of the two finalizers of the garbage collector this one, or none.
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
