//! The committed objects, with one version number per commit.
//!
//! Every change of the embedded cluster is committed here. A commit gets the next resourceVersion and is passed to all
//! observers, watches and actors.

use crate::kinds::Kind;
use bytes::Bytes;
use jiff::Timestamp;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock};

/// Number of changes kept per kind. A watch can resume from these; older versions are "too old".
const WINDOW: usize = 4096;

/// Identifies an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub kind: Kind,
    /// Empty for kinds without namespaces.
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl Key {
    pub fn new(kind: Kind, namespace: &str, name: &str) -> Key {
        Key { kind, namespace: namespace.into(), name: name.into() }
    }

    /// The key of an object.
    pub fn from_object(kind: Kind, object: &Value) -> Key {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        Key::new(kind, text("namespace"), text("name"))
    }
}

/// An object at one version.
#[derive(Debug)]
pub struct Stored {
    pub value: Value,
    pub version: u64,
    json: OnceLock<Bytes>,
}

impl Stored {
    /// The JSON that watches send, serialised only once.
    pub fn json(&self) -> &Bytes {
        self.json.get_or_init(|| serde_json::to_vec(&self.value).unwrap_or_default().into())
    }

    /// An object that is not stored, such as the result of a dry run.
    pub fn draft(value: Value) -> Stored {
        let version = value["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok());
        Stored { value, version: version.unwrap_or_default(), json: OnceLock::new() }
    }

    pub fn uid(&self) -> &str {
        self.value["metadata"]["uid"].as_str().unwrap_or_default()
    }

    pub fn is_terminating(&self) -> bool {
        self.value["metadata"]["deletionTimestamp"].is_string()
    }
}

impl std::ops::Deref for Stored {
    type Target = Value;
    fn deref(&self) -> &Value {
        &self.value
    }
}

/// The author of a commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Author {
    /// The components of the cluster itself.
    #[default]
    Cluster,
    /// Users of the cluster: people, their tools, other controllers.
    User,
    /// Rollcall's controller, by the number of its process.
    Controller(usize),
}

/// One commit.
#[derive(Clone, Debug)]
pub struct Change {
    pub key: Key,
    pub at: Timestamp,
    pub author: Author,
    pub before: Option<Arc<Stored>>,
    /// The committed object; for a deletion, its last state with the version of the deletion.
    pub object: Arc<Stored>,
    pub deleted: bool,
}

impl Change {
    /// The object after the change; `None` after a deletion.
    pub fn after(&self) -> Option<&Arc<Stored>> {
        (!self.deleted).then_some(&self.object)
    }
}

/// Sees every commit, in order.
pub trait Observer: Send {
    fn committed(&mut self, change: &Change);
}

/// A callback of a watch, called for each commit. Returning `false` ends the watch.
pub type Listener = Box<dyn FnMut(&Change) -> bool + Send>;

#[derive(Default)]
pub struct Store {
    /// The author of the following commits.
    pub author: Author,
    objects: BTreeMap<Key, Arc<Stored>>,
    version: u64,
    /// The objects that have a given uid among their owners.
    owned: BTreeMap<String, BTreeSet<Key>>,
    window: BTreeMap<Kind, VecDeque<Arc<Change>>>,
    /// Per kind, the newest version that fell out of the window.
    forgotten: BTreeMap<Kind, u64>,
    listeners: BTreeMap<Kind, Vec<Listener>>,
    observers: Vec<Box<dyn Observer>>,
    news: VecDeque<Arc<Change>>,
}

impl Store {
    pub fn version(&self) -> u64 {
        self.version
    }

    pub fn get(&self, key: &Key) -> Option<&Arc<Stored>> {
        self.objects.get(key)
    }

    pub fn find(&self, kind: Kind, namespace: &str, name: &str) -> Option<&Arc<Stored>> {
        self.objects.get(&Key::new(kind, namespace, name))
    }

    /// The objects of a kind by namespace and name, optionally of one namespace only.
    pub fn list<'a>(
        &'a self,
        kind: Kind,
        namespace: Option<&str>,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Stored>)> + use<'a> {
        let only: Option<Arc<str>> = namespace.map(Into::into);
        let from = Key::new(kind, namespace.unwrap_or_default(), "");
        self.objects.range(from..).take_while(move |(key, _)| {
            key.kind == kind && only.as_ref().is_none_or(|only| key.namespace == *only)
        })
    }

    /// The objects of a kind that `uid` owns.
    pub fn owned<'a>(
        &'a self,
        uid: &str,
        kind: Kind,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Stored>)> + use<'a> {
        let keys = self.owned.get(uid).into_iter().flatten().filter(move |key| key.kind == kind);
        keys.filter_map(|key| self.objects.get_key_value(key))
    }

    /// Every object that names `uid` as an owner.
    pub fn dependents(&self, uid: &str) -> Vec<Key> {
        self.owned.get(uid).into_iter().flatten().cloned().collect()
    }

    pub fn observe(&mut self, observer: Box<dyn Observer>) {
        self.observers.push(observer);
    }

    pub fn listen(&mut self, kind: Kind, listener: Listener) {
        self.listeners.entry(kind).or_default().push(listener);
    }

    /// The changes of a kind after `version`; `None` if some of them are no longer kept.
    pub fn since(&self, kind: Kind, version: u64) -> Option<Vec<Arc<Change>>> {
        if self.forgotten.get(&kind).is_some_and(|forgotten| *forgotten > version) {
            return None;
        }
        let Some(window) = self.window.get(&kind) else { return Some(Vec::new()) };
        let first = window.partition_point(|change| change.object.version <= version);
        Some(window.range(first..).cloned().collect())
    }

    /// Forgets all changes, as a compaction does. A watch that wants to resume must list again.
    pub fn compact(&mut self) {
        for (kind, window) in &mut self.window {
            if let Some(last) = window.back() {
                self.forgotten.insert(*kind, last.object.version);
            }
            window.clear();
        }
    }

    /// Commits an object, new or changed.
    pub fn put(&mut self, key: Key, mut value: Value, at: Timestamp) -> Arc<Stored> {
        self.version += 1;
        value["metadata"]["resourceVersion"] = self.version.to_string().into();
        let object = Arc::new(Stored { value, version: self.version, json: OnceLock::new() });
        let before = self.objects.insert(key.clone(), object.clone());
        if let Some(before) = &before {
            self.disown(&key, before);
        }
        for owner in owners(&object) {
            self.owned.entry(owner).or_default().insert(key.clone());
        }
        self.tell(Change { key, at, author: self.author, before, object: object.clone(), deleted: false });
        object
    }

    /// Removes an object and commits the deletion.
    pub fn remove(&mut self, key: &Key, at: Timestamp) -> Option<Arc<Stored>> {
        let before = self.objects.remove(key)?;
        self.disown(key, &before);
        self.version += 1;
        let mut value = before.value.clone();
        value["metadata"]["resourceVersion"] = self.version.to_string().into();
        let object = Arc::new(Stored { value, version: self.version, json: OnceLock::new() });
        self.tell(Change {
            key: key.clone(),
            at,
            author: self.author,
            before: Some(before),
            object: object.clone(),
            deleted: true,
        });
        Some(object)
    }

    /// The next commit that the actors have not processed yet.
    pub fn next_news(&mut self) -> Option<Arc<Change>> {
        self.news.pop_front()
    }

    fn disown(&mut self, key: &Key, object: &Stored) {
        for owner in owners(object) {
            if let Some(keys) = self.owned.get_mut(&owner) {
                keys.remove(key);
                if keys.is_empty() {
                    self.owned.remove(&owner);
                }
            }
        }
    }

    fn tell(&mut self, change: Change) {
        for observer in &mut self.observers {
            observer.committed(&change);
        }
        if let Some(listeners) = self.listeners.get_mut(&change.key.kind) {
            listeners.retain_mut(|listener| listener(&change));
        }
        let change = Arc::new(change);
        let window = self.window.entry(change.key.kind).or_default();
        if window.len() == WINDOW
            && let Some(oldest) = window.pop_front()
        {
            self.forgotten.insert(change.key.kind, oldest.object.version);
        }
        window.push_back(change.clone());
        self.news.push_back(change);
    }
}

fn owners(object: &Value) -> impl Iterator<Item = String> {
    let references = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    references.filter_map(|reference| reference["uid"].as_str().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(name: &str) -> (Key, Value) {
        let value =
            json!({ "metadata": { "namespace": "a", "name": name, "ownerReferences": [{ "uid": "o" }] } });
        (Key::from_object(Kind::Pod, &value), value)
    }

    #[test]
    fn versions_windows_and_owners() {
        let mut store = Store::default();
        let now = Timestamp::UNIX_EPOCH;
        let (one, value) = pod("one");
        store.put(one.clone(), value, now);
        let (two, value) = pod("two");
        store.put(two.clone(), value, now);
        assert_eq!(store.owned("o", Kind::Pod).count(), 2);
        store.remove(&one, now);
        assert_eq!((store.version(), store.owned("o", Kind::Pod).count()), (3, 1));
        let since = store.since(Kind::Pod, 1).expect("no change was dropped");
        let seen: Vec<_> = since.iter().map(|change| (change.object.version, change.deleted)).collect();
        assert_eq!(seen, [(2, false), (3, true)]);
        store.compact();
        assert!(store.since(Kind::Pod, 1).is_none());
        assert!(store.since(Kind::Pod, 3).is_some_and(|changes| changes.is_empty()));
    }
}
