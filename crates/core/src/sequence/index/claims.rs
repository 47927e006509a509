//! Which groups claim a pod: by its name, by its labels, or by the workload that owns it.
//!
//! A selector is filed under one label pair it insists on, so that a pod is compared with the few selectors
//! that could match it, not with all of them. Selectors that insist on no value are in a short list aside.

use crate::{
    Uid,
    cluster::Claim,
    facts::{Owner, OwnerKind, Pod},
    labels::Labels,
    selector::Selector,
    sequence::spec::{Group, Members, Spec, WorkloadRef},
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
    /// Namespaces to be read once more, because a selector there names a key that none named before, or because what is known
    /// may be too old.
    to_read: BTreeSet<Arc<str>>,
}

#[derive(Debug, Default)]
struct InNamespace {
    by_name: BTreeMap<Arc<str>, Vec<Claim>>,
    by_pair: BTreeMap<Pair, Vec<(Claim, Arc<Spec>)>>,
    others: Vec<(Claim, Arc<Spec>)>,
    by_workload: BTreeMap<WorkloadRef, Vec<Claim>>,
    /// The keys of labels that selectors name, and how many groups do.
    keys: BTreeMap<Arc<str>, u32>,
    /// By what pods say themselves; only groups with a selector, of sequences in the same namespace, can be meant.
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
            let selects = matches!(members, Members::Selector(_));
            if let Some(name) = name_if_own_namespace.filter(|_| selects) {
                here.by_annotation.insert(membership_value(name, group), claim);
            }
            match members {
                Members::Names(names) => {
                    for name in names {
                        here.by_name.entry(name.clone()).or_default().push(claim);
                    }
                }
                Members::Selector(selector) => {
                    for key in selector.keys() {
                        let groups = here.keys.entry(key.clone()).or_default();
                        *groups += 1;
                        if *groups == 1 {
                            self.to_read.insert(spec.pod_namespace.clone());
                        }
                    }
                    match anchor(selector) {
                        Some(pairs) => {
                            for pair in pairs {
                                here.by_pair.entry(pair).or_default().push((claim, spec.clone()));
                            }
                        }
                        None => here.others.push((claim, spec.clone())),
                    }
                }
                Members::Workload(workload) => {
                    here.by_workload.entry(workload.clone()).or_default().push(claim);
                }
                Members::None => {}
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
                    for key in selector.keys() {
                        if let Some(groups) = here.keys.get_mut(key) {
                            *groups -= 1;
                        }
                    }
                    here.keys.retain(|_, groups| *groups > 0);
                    for pair in anchor(selector).unwrap_or_default() {
                        drop_claims(&mut here.by_pair, &pair, |(claim, _)| claim.sequence != sequence);
                    }
                }
                Members::Workload(workload) => {
                    drop_claims(&mut here.by_workload, workload, |claim| claim.sequence != sequence);
                }
                Members::None => {}
            }
        }
        here.others.retain(|(claim, _)| claim.sequence != sequence);
        here.by_annotation.retain(|_, claim| claim.sequence != sequence);
        if here.by_annotation.is_empty()
            && here.by_name.is_empty()
            && here.by_pair.is_empty()
            && here.by_workload.is_empty()
            && here.others.is_empty()
        {
            self.namespaces.remove(&spec.pod_namespace);
        }
    }

    /// The sequences that claim anything in a namespace.
    pub fn sequences_in(&self, namespace: &str) -> BTreeSet<Uid> {
        let Some(InNamespace { by_name, by_pair, others, by_workload, keys: _, by_annotation: _ }) =
            self.namespaces.get(namespace)
        else {
            return BTreeSet::new();
        };
        let by_selector = by_pair.values().flatten().chain(others).map(|(claim, _)| claim);
        let named = by_name.values().flatten().chain(by_workload.values().flatten());
        named.chain(by_selector).map(|claim| claim.sequence).collect()
    }

    /// The keys of labels that selectors name in a namespace: of no other label is anything known, if it is read by need.
    pub fn label_keys(&self, namespace: &str) -> impl Iterator<Item = &Arc<str>> {
        self.namespaces.get(namespace).into_iter().flat_map(|here| here.keys.keys())
    }

    /// The namespaces to be read once more, since the last call.
    pub fn take_namespaces_to_read(&mut self) -> BTreeSet<Arc<str>> {
        std::mem::take(&mut self.to_read)
    }

    /// What is known of a namespace may be too old for what is to be decided.
    pub fn read_again(&mut self, namespace: &Arc<str>) {
        self.to_read.insert(namespace.clone());
    }

    /// Whether anybody names a workload there, so that claims depend on who owns a pod.
    pub fn has_workloads(&self, namespace: &str) -> bool {
        self.namespaces.get(namespace).is_some_and(|here| !here.by_workload.is_empty())
    }

    /// All claims on a workload by its name.
    pub fn on_workload(&self, owner: &Owner) -> &[Claim] {
        let Some(here) = self.namespaces.get(&owner.namespace) else { return &[] };
        if here.by_workload.is_empty() {
            return &[];
        }
        let workload = WorkloadRef::naming(owner);
        here.by_workload.get(&workload).map_or(&[], Vec::as_slice)
    }

    /// The claims on a Deployment or CronJob after which a ReplicaSet or Job is called: `web` of `web-7d9c5`.
    pub fn on_namesake(&self, owner: &Owner) -> impl Iterator<Item = &Claim> {
        let here = self.namespaces.get(&owner.namespace).filter(|here| !here.by_workload.is_empty());
        let kind = match owner.kind {
            OwnerKind::ReplicaSet => Some(OwnerKind::Deployment),
            OwnerKind::Job => Some(OwnerKind::CronJob),
            OwnerKind::Deployment
            | OwnerKind::StatefulSet
            | OwnerKind::DaemonSet
            | OwnerKind::CronJob
            | OwnerKind::Other => None,
        };
        let name = owner.name.rsplit_once('-').map(|(name, _)| name);
        let claims = here
            .zip(kind)
            .zip(name)
            .and_then(|((here, kind), name)| here.by_workload.get(&WorkloadRef { kind, name: name.into() }));
        claims.into_iter().flatten()
    }

    /// All claims on a pod of that name, labels and owners, sorted, each once.
    pub fn on_pod<'o>(&self, pod: &Pod, owners: impl Iterator<Item = &'o Owner>) -> Vec<Claim> {
        let Some(here) = self.namespaces.get(&pod.namespace) else { return Vec::new() };
        let mut claims = here.by_name.get(&pod.name).cloned().unwrap_or_default();
        here.by_labels(&pod.labels, &mut claims);
        if !here.by_workload.is_empty() {
            owners.for_each(|owner| claims.extend(self.on_workload(owner)));
        }
        claims.sort_unstable();
        claims.dedup();
        claims
    }

    /// All claims on a workload: by the labels of its template, if it counts for itself, and by its name. A run of a CronJob is
    /// claimed by the CronJob's name, too.
    pub fn on_owner(&self, owner: &Owner, parent: Option<&Owner>, counts_itself: bool) -> Vec<Claim> {
        let Some(here) = self.namespaces.get(&owner.namespace) else { return Vec::new() };
        let mut claims = self.on_workload(owner).to_vec();
        if counts_itself {
            here.by_labels(&owner.template_labels, &mut claims);
        }
        if let Some(cron_job) = parent.filter(|parent| parent.kind == OwnerKind::CronJob) {
            claims.extend(self.on_workload(cron_job));
        }
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
                Members::Selector(_) | Members::Names(_) | Members::Workload(_) | Members::None => {}
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
