//! Which workloads belong to which group: by the membership of their pods in the core, or by names if they have no pods.

use super::world::{Workload, World, is_left};
use rollcall_core::Uid;
use rollcall_core::facts::{OwnerKind, Pod};
use rollcall_core::sequence::spec::{Members, Spec};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A group with its workloads and pods.
#[derive(Debug, Default)]
pub struct Tier {
    pub title: Arc<str>,
    /// Top-level owners of the members. A workload with members in several groups belongs to the earliest group.
    pub workloads: BTreeSet<Uid>,
    /// Pods without an owner.
    pub bare_pods: BTreeSet<Uid>,
    /// Pods with another kind of owner, such as an operator.
    pub pods_of_others: BTreeSet<Uid>,
}

/// The tiers of the sequence, in the order of its groups.
pub fn tiers(world: &World) -> Vec<Tier> {
    let (Some(entry), Some(spec)) = (world.entry(), world.spec()) else { return Vec::new() };
    let mut tiers: Vec<Tier> =
        spec.groups.iter().map(|group| Tier { title: group.title.clone(), ..Tier::default() }).collect();
    let mut homes = BTreeMap::new();
    let mut belongs = |owner: Uid, position: usize| {
        let Some(top) = world.top_of(owner) else { return };
        let home = homes.entry(top.uid).or_insert(position);
        *home = position.min(*home);
    };
    for (position, group) in spec.groups.iter().enumerate() {
        entry.cell(position).owners().for_each(|owner| belongs(owner, position));
        if let Members::Names(names) = &group.members {
            let sets = names.iter().filter_map(|name| stateful_set_of(world, spec, name));
            sets.for_each(|set| belongs(set, position));
        }
    }
    for (position, pod) in members(world) {
        match pod.owner {
            None => drop(tiers[position].bare_pods.insert(pod.uid)),
            Some(owner) if world.top_of(owner.uid).is_some() => belongs(owner.uid, position),
            Some(_) => drop(tiers[position].pods_of_others.insert(pod.uid)),
        }
    }
    for (workload, position) in homes {
        tiers[position].workloads.insert(workload);
    }
    tiers
}

/// Members of the sequence with their groups, including terminating pods.
fn members(world: &World) -> impl Iterator<Item = (usize, &Pod)> {
    let uid = world.sequence.metadata.uid();
    world.index.cluster.pods().filter(|pod| is_left(pod)).filter_map(move |pod| {
        let membership =
            world.index.facts().memberships_of(pod.uid).find(|membership| membership.sequence == uid)?;
        Some((membership.group as usize, pod))
    })
}

/// The StatefulSet that a pod of this name belongs to: `db` for `db-0`.
fn stateful_set_of(world: &World, spec: &Spec, pod: &str) -> Option<Uid> {
    let (name, ordinal) = pod.rsplit_once('-')?;
    ordinal.parse::<u32>().ok()?;
    let set = world.index.cluster.owner_named(&spec.pod_namespace, OwnerKind::StatefulSet, &name.into())?;
    Some(set.uid)
}

impl Tier {
    /// Its workloads, sorted by kind and name.
    pub fn workloads<'w>(&self, world: &'w World) -> Vec<&'w Workload> {
        let mut found: Vec<&Workload> =
            self.workloads.iter().filter_map(|uid| world.workloads.get(uid)).collect();
        found.sort_by_key(|workload| (workload.kind, workload.name().to_owned()));
        found
    }

    pub fn bare_pods<'w>(&self, world: &'w World) -> impl Iterator<Item = &'w Pod> {
        self.bare_pods.iter().filter_map(|uid| world.index.cluster.pod(*uid))
    }

    pub fn pods_of_others<'w>(&self, world: &'w World) -> impl Iterator<Item = &'w Pod> {
        self.pods_of_others.iter().filter_map(|uid| world.index.cluster.pod(*uid))
    }
}

/// All groups that a group waits for, directly or indirectly. Groups wait only for earlier ones.
pub fn waits_for(spec: &Spec, position: usize) -> BTreeSet<usize> {
    let mut found: BTreeSet<usize> = spec.groups[position].after.iter().copied().collect();
    for earlier in (0..position).rev() {
        if found.contains(&earlier) {
            found.extend(&spec.groups[earlier].after);
        }
    }
    found
}
