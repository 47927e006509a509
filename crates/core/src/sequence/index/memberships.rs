//! An index of the groups that select a pod: by its name, its labels, or the workload that owns it.
//!
//! A selector is indexed under one label pair that it requires, so that a pod is compared only with the few selectors that could
//! match it. Selectors that require no particular value are in a separate list.

use crate::{
    Uid,
    cluster::Membership,
    facts::{Owner, OwnerKind, Pod},
    labels::Labels,
    selector::Selector,
    sequence::spec::{Group, Members, Spec, WorkloadRef},
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

type RequiredLabel = (Arc<str>, Arc<str>);

/// The internal label key for the group that a pod or template names in its annotation. The value is `<sequence>/<group>`, with
/// the group counted from 0. The key is not a valid label key, so no selector can match it by accident.
pub const MEMBERSHIP_KEY: &str = "podsequence.example.com/belongs to";

#[derive(Debug, Default)]
pub struct MembershipIndex {
    namespaces: BTreeMap<Arc<str>, NamespaceMemberships>,
    /// Namespaces to read again: a selector uses a label key that none used before, or the known state may be too old.
    to_read: BTreeSet<Arc<str>>,
}

#[derive(Debug, Default)]
struct NamespaceMemberships {
    by_name: BTreeMap<Arc<str>, Vec<Membership>>,
    by_pair: BTreeMap<RequiredLabel, Vec<(Membership, Arc<Spec>)>>,
    others: Vec<(Membership, Arc<Spec>)>,
    by_workload: BTreeMap<WorkloadRef, Vec<Membership>>,
    /// The label keys that selectors use, with the number of groups that use them.
    keys: BTreeMap<Arc<str>, u32>,
    /// By the annotation of a pod, which can name only groups with a selector, of sequences in the same namespace.
    by_annotation: BTreeMap<Arc<str>, Membership>,
}

/// The value under [`MEMBERSHIP_KEY`] for a group.
pub fn membership_value(sequence: &str, group: usize) -> Arc<str> {
    format!("{sequence}/{group}").into()
}

impl MembershipIndex {
    pub fn insert(&mut self, sequence: Uid, spec: &Arc<Spec>, name_if_own_namespace: Option<&str>) {
        let here = self.namespaces.entry(spec.pod_namespace.clone()).or_default();
        for (group, Group { members, .. }) in spec.groups.iter().enumerate() {
            let membership = Membership { sequence, group: group as u32 };
            let selects = matches!(members, Members::Selector(_));
            if let Some(name) = name_if_own_namespace.filter(|_| selects) {
                here.by_annotation.insert(membership_value(name, group), membership);
            }
            match members {
                Members::Names(names) => {
                    for name in names {
                        here.by_name.entry(name.clone()).or_default().push(membership);
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
                                here.by_pair.entry(pair).or_default().push((membership, spec.clone()));
                            }
                        }
                        None => here.others.push((membership, spec.clone())),
                    }
                }
                Members::Workload(workload) => {
                    here.by_workload.entry(workload.clone()).or_default().push(membership);
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
                        drop_memberships(&mut here.by_name, name, |membership| {
                            membership.sequence != sequence
                        });
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
                        drop_memberships(&mut here.by_pair, &pair, |(membership, _)| {
                            membership.sequence != sequence
                        });
                    }
                }
                Members::Workload(workload) => {
                    drop_memberships(&mut here.by_workload, workload, |membership| {
                        membership.sequence != sequence
                    });
                }
                Members::None => {}
            }
        }
        here.others.retain(|(membership, _)| membership.sequence != sequence);
        here.by_annotation.retain(|_, membership| membership.sequence != sequence);
        if here.by_annotation.is_empty()
            && here.by_name.is_empty()
            && here.by_pair.is_empty()
            && here.by_workload.is_empty()
            && here.others.is_empty()
        {
            self.namespaces.remove(&spec.pod_namespace);
        }
    }

    /// The sequences that select pods in a namespace.
    pub fn sequences_in(&self, namespace: &str) -> BTreeSet<Uid> {
        let Some(NamespaceMemberships { by_name, by_pair, others, by_workload, keys: _, by_annotation: _ }) =
            self.namespaces.get(namespace)
        else {
            return BTreeSet::new();
        };
        let by_selector = by_pair.values().flatten().chain(others).map(|(membership, _)| membership);
        let named = by_name.values().flatten().chain(by_workload.values().flatten());
        named.chain(by_selector).map(|membership| membership.sequence).collect()
    }

    /// The label keys that selectors use in a namespace. Watches may keep only these labels.
    pub fn label_keys(&self, namespace: &str) -> impl Iterator<Item = &Arc<str>> {
        self.namespaces.get(namespace).into_iter().flat_map(|here| here.keys.keys())
    }

    /// Returns the namespaces to read again since the last call.
    pub fn take_namespaces_to_read(&mut self) -> BTreeSet<Arc<str>> {
        std::mem::take(&mut self.to_read)
    }

    /// Requests that a namespace is read again, because its known state may be too old for a decision.
    pub fn read_again(&mut self, namespace: &Arc<str>) {
        self.to_read.insert(namespace.clone());
    }

    /// Whether a group names a workload in a namespace, so that memberships depend on the owners of pods.
    pub fn has_workloads(&self, namespace: &str) -> bool {
        self.namespaces.get(namespace).is_some_and(|here| !here.by_workload.is_empty())
    }

    /// The groups that name a workload.
    pub fn on_workload(&self, owner: &Owner) -> &[Membership] {
        let Some(here) = self.namespaces.get(&owner.namespace) else { return &[] };
        if here.by_workload.is_empty() {
            return &[];
        }
        let workload = WorkloadRef::naming(owner);
        here.by_workload.get(&workload).map_or(&[], Vec::as_slice)
    }

    /// The groups that name the Deployment or CronJob that a ReplicaSet or Job is named after: `web` for `web-7d9c5`.
    pub fn on_namesake(&self, owner: &Owner) -> impl Iterator<Item = &Membership> {
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
        let memberships = here
            .zip(kind)
            .zip(name)
            .and_then(|((here, kind), name)| here.by_workload.get(&WorkloadRef { kind, name: name.into() }));
        memberships.into_iter().flatten()
    }

    /// The groups that select a pod by its name, labels or owners: sorted, without duplicates.
    pub fn on_pod<'o>(&self, pod: &Pod, owners: impl Iterator<Item = &'o Owner>) -> Vec<Membership> {
        let Some(here) = self.namespaces.get(&pod.namespace) else { return Vec::new() };
        let mut memberships = here.by_name.get(&pod.name).cloned().unwrap_or_default();
        here.by_labels(&pod.labels, &mut memberships);
        if !here.by_workload.is_empty() {
            owners.for_each(|owner| memberships.extend(self.on_workload(owner)));
        }
        memberships.sort_unstable();
        memberships.dedup();
        memberships
    }

    /// The groups that select a workload: by its name and, if it counts by itself, by the labels of its template. A run of a
    /// CronJob is also selected by the name of the CronJob.
    pub fn on_owner(&self, owner: &Owner, parent: Option<&Owner>, counts_itself: bool) -> Vec<Membership> {
        let Some(here) = self.namespaces.get(&owner.namespace) else { return Vec::new() };
        let mut memberships = self.on_workload(owner).to_vec();
        if counts_itself {
            here.by_labels(&owner.template_labels, &mut memberships);
        }
        if let Some(cron_job) = parent.filter(|parent| parent.kind == OwnerKind::CronJob) {
            memberships.extend(self.on_workload(cron_job));
        }
        memberships.sort_unstable();
        memberships.dedup();
        memberships
    }
}

impl NamespaceMemberships {
    fn by_labels(&self, labels: &Labels, memberships: &mut Vec<Membership>) {
        memberships.extend(labels.get(MEMBERSHIP_KEY).and_then(|word| self.by_annotation.get(word)));
        let filed = labels.iter().filter_map(|pair| self.by_pair.get(pair)).flatten();
        for (membership, spec) in filed.chain(&self.others) {
            match &spec.groups[membership.group as usize].members {
                Members::Selector(selector) if selector.matches(labels) => memberships.push(*membership),
                Members::Selector(_) | Members::Names(_) | Members::Workload(_) | Members::None => {}
            }
        }
    }
}

/// The label pairs that index a selector: those of the requirement with the fewest values. Among equals, the longest text wins,
/// because it tends to be the most specific (`app.kubernetes.io/name=orders` before `tier=db`).
fn anchor(selector: &Selector) -> Option<Vec<RequiredLabel>> {
    let (key, values) = selector
        .equalities()
        .filter(|(_, values)| !values.is_empty())
        .min_by_key(|(key, values)| (values.len(), std::cmp::Reverse(key.len() + values[0].len())))?;
    Some(values.iter().map(|value| (key.clone(), value.clone())).collect())
}

fn drop_memberships<K: Ord, T>(filed: &mut BTreeMap<K, Vec<T>>, key: &K, keep: impl Fn(&T) -> bool) {
    if let Some(memberships) = filed.get_mut(key) {
        memberships.retain(keep);
        if memberships.is_empty() {
            filed.remove(key);
        }
    }
}
