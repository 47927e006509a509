//! Index of objects by label, so that a new selector finds its members without a scan of all objects.

use crate::{Uid, labels::Labels};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

type LabelPair = (Arc<str>, Arc<str>);

#[derive(Debug, Default)]
pub struct Labelled {
    namespaces: BTreeMap<Arc<str>, NamespaceObjects>,
}

#[derive(Debug, Default)]
struct NamespaceObjects {
    all: BTreeSet<Uid>,
    by_pair: BTreeMap<LabelPair, BTreeSet<Uid>>,
}

impl Labelled {
    pub fn insert(&mut self, namespace: &Arc<str>, labels: &Labels, uid: Uid) {
        let here = self.namespaces.entry(namespace.clone()).or_default();
        here.all.insert(uid);
        for pair in labels.iter() {
            here.by_pair.entry(pair.clone()).or_default().insert(uid);
        }
    }

    pub fn remove(&mut self, namespace: &Arc<str>, labels: &Labels, uid: Uid) {
        let Some(here) = self.namespaces.get_mut(namespace) else { return };
        here.all.remove(&uid);
        for pair in labels.iter() {
            if let Some(uids) = here.by_pair.get_mut(pair) {
                uids.remove(&uid);
                if uids.is_empty() {
                    here.by_pair.remove(pair);
                }
            }
        }
        if here.all.is_empty() {
            self.namespaces.remove(namespace);
        }
    }

    /// Returns a superset of the objects in the namespace that `selector` matches: those with a pair that it requires.
    pub fn candidates(&self, namespace: &str, selector: &crate::selector::Selector) -> Vec<Uid> {
        let Some(here) = self.namespaces.get(namespace) else { return Vec::new() };
        let sets = |key: &Arc<str>, values: &[Arc<str>]| -> Vec<&BTreeSet<Uid>> {
            let pairs = values.iter().map(|value| (key.clone(), value.clone()));
            pairs.filter_map(|pair| here.by_pair.get(&pair)).collect()
        };
        let smallest = selector
            .equalities()
            .map(|(key, values)| sets(key, values))
            .min_by_key(|sets| sets.iter().map(|set| set.len()).sum::<usize>());
        match smallest {
            Some(sets) => sets.into_iter().flatten().copied().collect(),
            None => here.all.iter().copied().collect(),
        }
    }
}
