//! Sequences and Orders as admission needs them: which of them a new pod belongs to, and which gates and tolerations it gets.

use crate::Uid;
use crate::cluster::Cluster;
use crate::facts::{Owner, OwnerKind};
use crate::gates;
use crate::index::Index;
use crate::key::Key;
use crate::labels::Labels;
use crate::reservation::admission::OrderRoster;
use crate::sequence::Facts;
use crate::sequence::keys::keys;
use crate::sequence::membership::{Asking, MemberCandidate};
use crate::sequence::spec::{Members, NodeGuard, Scope, Sequence, Spec, WorkloadRef};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A sequence that may select pods in its `spec.namespace`.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectingSequence {
    namespace: Arc<str>,
    name: Arc<str>,
    spec: Arc<Spec>,
    may_taint: bool,
    /// The taint key of each group, if `nodeGuard: Taints` is set and permitted.
    taints: Vec<Arc<str>>,
    /// The label keys that decide about membership in its groups.
    label_keys: BTreeSet<Arc<str>>,
    creators: PodCreators,
}

/// The parts of a new pod that sequences and Orders need. Admission need not decode the rest of the pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewPodParts<'r> {
    /// Label keys.
    pub labels: BTreeSet<&'r str>,
    pub gates: BTreeSet<&'r str>,
    /// Keys of taints that the pod may have to tolerate.
    pub taints: BTreeSet<&'r str>,
}

/// A pod in a create request.
#[derive(Clone, Copy, Debug)]
pub struct NewPod<'a> {
    /// Empty if the API server generates the name.
    pub name: &'a str,
    pub labels: &'a Labels,
    pub owner: Option<PodOwner<'a>>,
}

/// The controller in the owner references of a new pod.
#[derive(Clone, Copy, Debug)]
pub struct PodOwner<'a> {
    pub kind: OwnerKind,
    pub name: &'a str,
    pub uid: Uid,
}

/// Known ReplicaSets and Jobs that create pods for the Deployments and CronJobs that groups name.
#[derive(Clone, Debug, Default, PartialEq)]
struct PodCreators {
    /// The number of workload changes that this state includes.
    as_of: u64,
    /// The Deployment or CronJob that owns each of them, if any.
    created_for: BTreeMap<Uid, Option<WorkloadRef>>,
}

impl PodCreators {
    fn new(cluster: &Cluster, spec: &Spec) -> PodCreators {
        let mut creators = PodCreators { as_of: cluster.owner_changes(), ..PodCreators::default() };
        for group in &spec.groups {
            let Members::Workload(workload) = &group.members else { continue };
            let Some(kind) = made_by(workload.kind) else { continue };
            for creator in cluster.owners_in(&spec.pod_namespace, kind) {
                let above = cluster.parent_of(creator);
                let is_own = above.is_some_and(|above| workload.names(above));
                let is_alike = creator.name.starts_with(&*workload.name);
                if is_own || is_alike && !awaits_parent(cluster, creator, workload.kind) {
                    creators.created_for.insert(creator.uid, above.map(WorkloadRef::naming));
                }
            }
        }
        creators
    }

    /// Whether an owner creates pods for the workload that a group names. An unknown owner is recognised by its name.
    fn include(&self, workload: &WorkloadRef, owner: PodOwner<'_>, labels: &Labels) -> bool {
        if made_by(workload.kind) != Some(owner.kind) {
            return false;
        }
        if let Some(created_for) = self.created_for.get(&owner.uid) {
            return created_for.as_ref() == Some(workload);
        }
        let rest = owner.name.strip_prefix(&*workload.name).and_then(|rest| rest.strip_prefix('-'));
        rest.is_some_and(|rest| match workload.kind {
            // Only the Deployment controller sets this label, on its ReplicaSets and their pods.
            OwnerKind::Deployment => labels.get(TEMPLATE_HASH).is_some_and(|hash| **hash == *rest),
            // The CronJob controller appends the scheduled time of the run, in minutes.
            _ => !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()),
        })
    }
}

/// Whether a ReplicaSet or Job has an owner of this kind that is not known yet. The owner is then guessed from the name.
fn awaits_parent(cluster: &Cluster, creator: &Owner, kind: OwnerKind) -> bool {
    creator.parent.is_some_and(|parent| parent.kind == kind && cluster.owner(parent.uid).is_none())
}

/// The label that ties pods of a Deployment to their ReplicaSet.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// The label keys that decide about membership in any group.
fn label_keys(spec: &Spec) -> BTreeSet<Arc<str>> {
    let mut keys = BTreeSet::new();
    for group in &spec.groups {
        match &group.members {
            Members::Names(_) | Members::None => {}
            Members::Selector(selector) => {
                keys.extend(selector.requirements.iter().map(|requirement| requirement.key.clone()));
            }
            Members::Workload(_) => drop(keys.insert(TEMPLATE_HASH.into())),
        }
    }
    keys
}

/// The kind of the objects through which a workload creates its pods, if it does not create them directly.
fn made_by(kind: OwnerKind) -> Option<OwnerKind> {
    match kind {
        OwnerKind::Deployment => Some(OwnerKind::ReplicaSet),
        OwnerKind::CronJob => Some(OwnerKind::Job),
        OwnerKind::ReplicaSet
        | OwnerKind::StatefulSet
        | OwnerKind::DaemonSet
        | OwnerKind::Job
        | OwnerKind::Other => None,
    }
}

/// Whether any group needs a lookup of ReplicaSets or Jobs.
fn needs_creators(spec: &Spec) -> bool {
    let kinds = spec.groups.iter().filter_map(|group| match &group.members {
        Members::Workload(workload) => made_by(workload.kind),
        Members::Names(_) | Members::Selector(_) | Members::None => None,
    });
    kinds.count() > 0
}

/// A new pod, as a candidate for a sequence.
struct NewMember<'a> {
    pod: NewPod<'a>,
    selecting: &'a SelectingSequence,
}

impl MemberCandidate for NewMember<'_> {
    fn namespace(&self) -> &str {
        &self.selecting.spec.pod_namespace
    }

    fn labels(&self) -> &Labels {
        self.pod.labels
    }

    fn is_listed(&self, names: &BTreeSet<Arc<str>>) -> bool {
        names.contains(self.pod.name)
    }

    fn is_made_by(&self, workload: &WorkloadRef) -> bool {
        self.pod.owner.is_some_and(|owner| {
            owner.kind == workload.kind && *owner.name == *workload.name
                || self.selecting.creators.include(workload, owner, self.pod.labels)
        })
    }
}

impl SelectingSequence {
    /// Returns `None` for an invalid spec, which has no members. `may_taint` says whether the namespace allows taints.
    pub fn from_sequence(
        sequence: &Sequence,
        may_taint: bool,
        taint_prefix: &'static str,
    ) -> Option<SelectingSequence> {
        let spec = sequence.spec.as_ref().ok()?.clone();
        let taints = may_taint && spec.scope == Scope::Node && spec.guard == NodeGuard::Taints;
        let (namespace, name) = (sequence.namespace.clone(), sequence.name.clone());
        let taints = if taints { keys(taint_prefix, &namespace, &name, &spec.groups) } else { Vec::new() };
        let label_keys = label_keys(&spec);
        Some(SelectingSequence {
            namespace,
            name,
            spec,
            may_taint,
            taints,
            label_keys,
            creators: PodCreators::default(),
        })
    }

    /// Returns the group that a new pod in the sequence's `spec.namespace` belongs to.
    pub fn group_of(&self, pod: NewPod<'_>) -> Option<usize> {
        let asking = Asking { namespace: &self.namespace, name: &self.name, spec: &self.spec };
        asking.group_of(&NewMember { pod, selecting: self })
    }

    fn with_creators(self, cluster: &Cluster) -> SelectingSequence {
        match needs_creators(&self.spec) {
            true => SelectingSequence { creators: PodCreators::new(cluster, &self.spec), ..self },
            false => self,
        }
    }

    pub fn gate(&self) -> &str {
        &self.spec.gate
    }

    /// The taints of later groups, which members of a group must tolerate. The list may contain taints that are never used; a
    /// toleration for them does no harm.
    pub fn tolerated(&self, group: usize) -> impl Iterator<Item = &Arc<str>> {
        let later = self.taints.iter().zip(&self.spec.groups).skip(group + 1);
        later
            .filter(|(_, group)| !group.after.is_empty() && group.members != Members::None)
            .map(|(key, _)| key)
    }
}

/// The sequences and Orders that may select pods, by namespace. Updated one sequence or Order at a time.
#[derive(Debug, Default)]
pub struct Roster {
    by_target: BTreeMap<Arc<str>, BTreeMap<Uid, SelectingSequence>>,
    targets: BTreeMap<Uid, Arc<str>>,
    complete: bool,
    pub orders: OrderRoster,
}

impl Roster {
    /// Updates the roster from an index. `touched` contains the keys that have changed since the last call.
    pub fn follow(&mut self, index: &Index, touched: &BTreeSet<Key>) {
        for key in touched {
            match *key {
                Key::Sequence(uid) => self.update(index.facts(), uid),
                Key::Order(uid) => self.orders.update(index.reservation_facts(), uid),
                Key::Launch(_) | Key::Ticket(_) | Key::Claim(_) => {}
            }
        }
    }

    /// Updates one sequence. Most calls result from a change of a pod and change nothing here, so a comparison with the known
    /// state comes first.
    pub fn update(&mut self, facts: Facts<'_>, uid: Uid) {
        let now = selecting_sequence(facts, uid);
        let known = self.targets.get(&uid).and_then(|target| self.by_target.get(target)?.get(&uid));
        let same = match (known, now) {
            (None, None) => true,
            (Some(known), Some((sequence, may_taint))) => {
                let as_of = || known.creators.as_of == facts.cluster.owner_changes();
                known.may_taint == may_taint
                    && (!needs_creators(&known.spec) || as_of())
                    && sequence.spec.as_ref().is_ok_and(|spec| Arc::ptr_eq(spec, &known.spec))
            }
            (_, _) => false,
        };
        if !same {
            let prefix = facts.sequences.mode().taint_prefix;
            let selecting = now.and_then(|(sequence, may_taint)| {
                SelectingSequence::from_sequence(sequence, may_taint, prefix)
            });
            self.set(uid, selecting.map(|selecting| selecting.with_creators(facts.cluster)));
        }
    }

    pub fn set(&mut self, uid: Uid, selecting: Option<SelectingSequence>) {
        if let Some(old) = self.targets.remove(&uid)
            && let Some(there) = self.by_target.get_mut(&old)
        {
            there.remove(&uid);
            if there.is_empty() {
                self.by_target.remove(&old);
            }
        }
        if let Some(selecting) = selecting {
            let target = selecting.spec.pod_namespace.clone();
            self.targets.insert(uid, target.clone());
            self.by_target.entry(target).or_default().insert(uid, selecting);
        }
    }

    /// Whether the list of sequences was complete at least once.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Records that all sequences are known. This stays true during a later re-list, because the previous state is still usable.
    pub fn completed(&mut self) {
        self.complete = true;
    }

    /// The sequences that may select pods in a namespace.
    pub fn sequences_in(&self, namespace: &str) -> impl Iterator<Item = &SelectingSequence> {
        self.by_target.get(namespace).into_iter().flat_map(BTreeMap::values)
    }

    /// The parts that sequences and Orders need of a new pod in a namespace.
    pub fn needed_parts(&self, namespace: &str) -> NewPodParts<'_> {
        let mut wanted = NewPodParts::default();
        for selecting in self.sequences_in(namespace) {
            wanted.labels.extend(selecting.label_keys.iter().map(|key| &**key));
            wanted.gates.insert(selecting.gate());
            wanted.taints.extend(selecting.taints.iter().map(|key| &**key));
        }
        wanted.labels.extend(self.orders.label_keys(namespace));
        wanted.gates.extend(self.orders.is_served().then_some(gates::TICKET));
        wanted
    }
}

/// Returns a sequence that exists and may select pods in its `spec.namespace`, and whether it may taint nodes.
fn selecting_sequence(facts: Facts<'_>, uid: Uid) -> Option<(&Sequence, bool)> {
    let Facts { cluster, sequences } = facts;
    let entry = sequences.get(uid).filter(|entry| !entry.ghost)?;
    let (sequence, spec) = (&entry.sequence, entry.spec()?);
    let home = cluster.namespace(&sequence.namespace);
    let may_taint = home.is_some_and(|home| home.allow_node_taints);
    cluster.permits(&spec.pod_namespace, &sequence.namespace).then_some((sequence, may_taint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequence::spec::Recorded;

    fn sequence(name: &str, target: &str) -> Sequence {
        let spec = crate::sequence::spec::Spec {
            pod_namespace: target.into(),
            gate: "gate".into(),
            scope: Scope::Cluster,
            enforcement: crate::sequence::spec::Enforcement::Bootstrap,
            suspend: false,
            deletion_policy: crate::sequence::spec::DeletionPolicy::Release,
            guard: NodeGuard::Labels,
            groups: Vec::new(),
        };
        Sequence {
            uid: Uid::digest(name),
            namespace: "home".into(),
            name: name.into(),
            version: 1,
            generation: 1,
            created: crate::Timestamp::UNIX_EPOCH,
            spec: Ok(Arc::new(spec)),
            opened_by_hand: BTreeSet::new(),
            begin_again: None,
            recorded: Recorded::default(),
        }
    }

    fn selecting(name: &str, target: &str) -> Option<SelectingSequence> {
        SelectingSequence::from_sequence(&sequence(name, target), false, crate::sequence::keys::PREFIX)
    }

    #[test]
    fn a_sequence_is_found_where_its_pods_are_and_nowhere_else() {
        let mut roster = Roster::default();
        let uid = Uid::digest("a");
        let names = |roster: &Roster, namespace: &str| {
            roster.sequences_in(namespace).map(|selecting| selecting.name.to_string()).collect::<Vec<_>>()
        };
        roster.set(uid, selecting("a", "here"));
        roster.set(Uid::digest("b"), selecting("b", "here"));
        assert_eq!(names(&roster, "here").len(), 2);
        assert_eq!(names(&roster, "home").len(), 0);
        roster.set(uid, selecting("a", "there"));
        assert_eq!((names(&roster, "here"), names(&roster, "there")), (vec!["b".into()], vec!["a".into()]));
        roster.set(uid, None);
        roster.set(uid, None);
        assert_eq!(names(&roster, "there").len(), 0);
        assert!(roster.targets.len() == 1 && roster.by_target.len() == 1);
    }
}
