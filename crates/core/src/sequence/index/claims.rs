//! Which groups claim a pod: by its name, or by its labels.
//!
//! A selector is filed under one label pair it insists on, so that a pod is compared with the few selectors
//! that could match it, not with all of them. Selectors that insist on no value are in a short list aside.

use crate::{
    Uid,
    cluster::Claim,
    labels::Labels,
    selector::Selector,
    sequence::spec::{Group, Members, Spec},
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

type Pair = (Arc<str>, Arc<str>);

/// Under this key stands, among the labels of a pod or a template, where it says itself that it belongs: `<sequence>/<group>`,
/// the group counted from 0. No label can have this key, so no selector means it.
pub const MEMBERSHIP_KEY: &str = "podsequence.example.com/belongs to";

#[derive(Debug, Default)]
pub struct Claims {
    namespaces: BTreeMap<Arc<str>, InNamespace>,
}

#[derive(Debug, Default)]
struct InNamespace {
    by_name: BTreeMap<Arc<str>, Vec<Claim>>,
    by_pair: BTreeMap<Pair, Vec<(Claim, Arc<Spec>)>>,
    others: Vec<(Claim, Arc<Spec>)>,
    /// By what pods say themselves; only sequences of the same namespace can be meant.
    by_annotation: BTreeMap<Arc<str>, Claim>,
}

/// How a pod says that it belongs to a group.
pub fn membership_value(sequence: &str, group: usize) -> Arc<str> {
    format!("{sequence}/{group}").into()
}

impl Claims {
    pub fn insert(&mut self, sequence: Uid, spec: &Arc<Spec>, name_if_own_namespace: Option<&str>) {
        let here = self.namespaces.entry(spec.pod_namespace.clone()).or_default();
        for (group, Group { members, .. }) in spec.groups.iter().enumerate() {
            let claim = Claim { sequence, group: group as u32 };
            if let Some(name) = name_if_own_namespace {
                here.by_annotation.insert(membership_value(name, group), claim);
            }
            match members {
                Members::Names(names) => {
                    for name in names {
                        here.by_name.entry(name.clone()).or_default().push(claim);
                    }
                }
                Members::Selector(selector) => match anchor(selector) {
                    Some(pairs) => {
                        for pair in pairs {
                            here.by_pair.entry(pair).or_default().push((claim, spec.clone()));
                        }
                    }
                    None => here.others.push((claim, spec.clone())),
                },
            }
        }
    }

    pub fn remove(&mut self, sequence: Uid, spec: &Arc<Spec>) {
        let Some(here) = self.namespaces.get_mut(&spec.pod_namespace) else { return };
        for Group { members, .. } in &spec.groups {
            match members {
                Members::Names(names) => {
                    for name in names {
                        drop_claims(&mut here.by_name, name, |claim| claim.sequence != sequence);
                    }
                }
                Members::Selector(selector) => {
                    for pair in anchor(selector).unwrap_or_default() {
                        drop_claims(&mut here.by_pair, &pair, |(claim, _)| claim.sequence != sequence);
                    }
                }
            }
        }
        here.others.retain(|(claim, _)| claim.sequence != sequence);
        here.by_annotation.retain(|_, claim| claim.sequence != sequence);
        if here.by_annotation.is_empty()
            && here.by_name.is_empty()
            && here.by_pair.is_empty()
            && here.others.is_empty()
        {
            self.namespaces.remove(&spec.pod_namespace);
        }
    }

    /// The sequences that claim anything in a namespace.
    pub fn sequences_in(&self, namespace: &str) -> BTreeSet<Uid> {
        let Some(InNamespace { by_name, by_pair, others, by_annotation: _ }) = self.namespaces.get(namespace)
        else {
            return BTreeSet::new();
        };
        let by_selector = by_pair.values().flatten().chain(others).map(|(claim, _)| claim);
        by_name.values().flatten().chain(by_selector).map(|claim| claim.sequence).collect()
    }

    /// All claims on a pod of that name and labels, sorted, each once.
    pub fn on_pod(&self, namespace: &str, name: &str, labels: &Labels) -> Vec<Claim> {
        let Some(here) = self.namespaces.get(namespace) else { return Vec::new() };
        let mut claims = here.by_name.get(name).cloned().unwrap_or_default();
        here.by_labels(labels, &mut claims);
        claims.sort_unstable();
        claims.dedup();
        claims
    }

    /// All claims by selectors on what carries those labels: a workload's template.
    pub fn on_labels(&self, namespace: &str, labels: &Labels) -> Vec<Claim> {
        let Some(here) = self.namespaces.get(namespace) else { return Vec::new() };
        let mut claims = Vec::new();
        here.by_labels(labels, &mut claims);
        claims.sort_unstable();
        claims.dedup();
        claims
    }
}

impl InNamespace {
    fn by_labels(&self, labels: &Labels, claims: &mut Vec<Claim>) {
        claims.extend(labels.get(MEMBERSHIP_KEY).and_then(|word| self.by_annotation.get(word)));
        let filed = labels.iter().filter_map(|pair| self.by_pair.get(pair)).flatten();
        for (claim, spec) in filed.chain(&self.others) {
            match &spec.groups[claim.group as usize].members {
                Members::Selector(selector) if selector.matches(labels) => claims.push(*claim),
                Members::Selector(_) | Members::Names(_) => {}
            }
        }
    }
}

/// The pairs under which a selector is filed: the requirement with the fewest values, of those the longest
/// text, which tends to be the most particular one (`app.kubernetes.io/name=orders` before `tier=db`).
fn anchor(selector: &Selector) -> Option<Vec<Pair>> {
    let (key, values) = selector
        .equalities()
        .filter(|(_, values)| !values.is_empty())
        .min_by_key(|(key, values)| (values.len(), std::cmp::Reverse(key.len() + values[0].len())))?;
    Some(values.iter().map(|value| (key.clone(), value.clone())).collect())
}

fn drop_claims<K: Ord, T>(filed: &mut BTreeMap<K, Vec<T>>, key: &K, keep: impl Fn(&T) -> bool) {
    if let Some(claims) = filed.get_mut(key) {
        claims.retain(keep);
        if claims.is_empty() {
            filed.remove(key);
        }
    }
}
