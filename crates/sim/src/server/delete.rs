//! Delete: grace, preconditions, what becomes of the dependents.

use super::change::is_finished;
use super::refusal::Refusal;
use crate::cluster::{Cluster, seconds};
use crate::kinds::Kind;
use crate::store::{Key, Stored};
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::sync::Arc;

/// Keeps an object until its dependents are gone.
pub const FOREGROUND: &str = "foregroundDeletion";
/// Keeps an object until its dependents have forgotten it.
pub const ORPHAN: &str = "orphan";

/// How it is to be deleted.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// Seconds; what the pod says, if it is not given.
    pub grace: Option<i64>,
    pub uid: Option<String>,
    pub version: Option<String>,
    pub propagation: Propagation,
    pub dry_run: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    #[default]
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

pub fn delete(cluster: &mut Cluster, key: &Key, wish: &Wish) -> Result<Deleted, Refusal> {
    let Some(old) = cluster.store.get(key).cloned() else {
        return Err(Refusal::not_found(key.kind, &key.name));
    };
    check_preconditions(key, &old, wish)?;
    let at = cluster.now();
    let grace = grace(key.kind, &old, wish);
    let mut new = old.value.clone();
    let finalizer = match wish.propagation {
        Propagation::Background => None,
        Propagation::Foreground => Some(FOREGROUND),
        Propagation::Orphan => Some(ORPHAN),
    };
    if let Some(finalizer) = finalizer {
        add_finalizer(&mut new, finalizer);
    }
    let ends = at.checked_add(SignedDuration::from_secs(grace)).unwrap_or(at);
    let already = old["metadata"]["deletionGracePeriodSeconds"].as_i64();
    // Asking again can only shorten the time.
    if !old.is_terminating() || already.is_some_and(|already| grace < already) {
        new["metadata"]["deletionTimestamp"] = seconds(ends).into();
        new["metadata"]["deletionGracePeriodSeconds"] = grace.into();
    }
    if key.kind == Kind::Namespace {
        new["status"]["phase"] = "Terminating".into();
    }
    if wish.dry_run {
        return Ok(Deleted::Terminating(Arc::new(Stored::draft(new))));
    }
    if new == old.value {
        return Ok(Deleted::Terminating(old));
    }
    // Being deleted is a new generation, where generations are counted.
    if key.kind.info().generation && !old.is_terminating() {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or_default() + 1;
        new["metadata"]["generation"] = generation.into();
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

fn check_preconditions(key: &Key, old: &Stored, wish: &Wish) -> Result<(), Refusal> {
    let differs = |wanted: &Option<String>, is: &str| wanted.as_deref().is_some_and(|wanted| wanted != is);
    if differs(&wish.uid, old.uid()) {
        let wanted = wish.uid.as_deref().unwrap_or_default();
        let why =
            format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {}", old.uid());
        return Err(Refusal::conflict(key.kind, &key.name, &why));
    }
    if differs(&wish.version, &old.version.to_string()) {
        let wanted = wish.version.as_deref().unwrap_or_default();
        let why = format!(
            "Precondition failed: ResourceVersion in precondition: {wanted}, ResourceVersion in object meta: {}",
            old.version
        );
        return Err(Refusal::conflict(key.kind, &key.name, &why));
    }
    Ok(())
}

/// Only pods get time to end, and only those that have been somewhere and still run.
fn grace(kind: Kind, object: &Value, wish: &Wish) -> i64 {
    if kind != Kind::Pod {
        return 0;
    }
    let asked = wish.grace.or(object["spec"]["terminationGracePeriodSeconds"].as_i64()).unwrap_or(30);
    let nowhere = object["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
    let over = matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if nowhere || over { 0 } else { asked }
}

fn add_finalizer(object: &mut Value, finalizer: &str) {
    let list = &mut object["metadata"]["finalizers"];
    if !list.is_array() {
        *list = json!([]);
    }
    if let Some(list) = list.as_array_mut()
        && !list.iter().any(|one| one == finalizer)
    {
        list.push(finalizer.into());
    }
}
