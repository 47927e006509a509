//! The group that admission chooses for a new pod, by the pod's owner and the workloads that have been seen.

use crate::support::build::{HOME, group, labels, owner, owner_ref, owner_uid, sequence, spec};
use crate::support::world::World;
use rollcall_core::facts::{Owner, OwnerKind};
use rollcall_core::index::Object;
use rollcall_core::roster::{NewPod, PodOwner, Roster};
use rollcall_core::sequence::spec::{Members, WorkloadRef};

use OwnerKind::{CronJob, Deployment, Job, ReplicaSet};

/// A roster with workloads that have been seen, and a sequence with one group for each name in `groups`.
fn roster(groups: &[(OwnerKind, &str)], seen: Vec<Owner>) -> Roster {
    let mut world = World::new();
    seen.into_iter().for_each(|owner| world.apply(Object::Owner(owner)));
    let groups = groups.iter().enumerate().map(|(position, (kind, name))| {
        group(position, Some(name), Members::Workload(WorkloadRef { kind: *kind, name: (*name).into() }))
    });
    let shop = sequence(HOME, "shop", spec(groups.collect()));
    let uid = shop.uid;
    world.apply(Object::Sequence(shop));
    let mut roster = Roster::default();
    roster.update(world.index.facts(), uid);
    roster
}

fn workload(kind: OwnerKind, name: &str) -> Owner {
    owner(kind, HOME, name, "", 1)
}

/// A ReplicaSet of a Deployment, or a Job of a CronJob.
fn made_by(parent: OwnerKind, parent_name: &str, kind: OwnerKind, name: &str) -> Owner {
    Owner { parent: Some(owner_ref(parent, HOME, parent_name)), ..workload(kind, name) }
}

/// The group of a pod with this owner. Its template hash is the suffix of the owner's name.
fn group_of(roster: &Roster, kind: OwnerKind, name: &str) -> Option<usize> {
    let hash = name.rsplit_once('-').map_or("", |(_, hash)| hash);
    let labels = labels(&format!("pod-template-hash={hash}"));
    let owner = Some(PodOwner { kind, name, uid: owner_uid(kind, HOME, name) });
    let sequence = roster.sequences_in(HOME).next().expect("the sequence");
    sequence.group_of(NewPod { name: "", labels: &labels, owner })
}

#[test]
fn workloads_whose_names_begin_alike_keep_their_own_pods() {
    let deployments = || {
        vec![
            workload(Deployment, "api"),
            workload(Deployment, "api-worker"),
            made_by(Deployment, "api", ReplicaSet, "api-5b6f4"),
            made_by(Deployment, "api-worker", ReplicaSet, "api-worker-7d9c5"),
        ]
    };
    for (groups, api, worker) in [(["api", "api-worker"], 0, 1), (["api-worker", "api"], 1, 0)] {
        let roster = roster(&groups.map(|name| (Deployment, name)), deployments());
        assert_eq!(group_of(&roster, ReplicaSet, "api-5b6f4"), Some(api), "{groups:?}");
        assert_eq!(group_of(&roster, ReplicaSet, "api-worker-7d9c5"), Some(worker), "{groups:?}");
    }
    let cron_jobs = vec![
        workload(CronJob, "export"),
        workload(CronJob, "export-all"),
        made_by(CronJob, "export", Job, "export-29384756"),
        made_by(CronJob, "export-all", Job, "export-all-29384756"),
    ];
    let roster = roster(&[(CronJob, "export"), (CronJob, "export-all")], cron_jobs);
    assert_eq!(group_of(&roster, Job, "export-29384756"), Some(0));
    assert_eq!(group_of(&roster, Job, "export-all-29384756"), Some(1));
}

#[test]
fn an_owner_that_has_been_seen_counts_by_its_parent_and_not_by_its_name() {
    let seen = vec![
        workload(Deployment, "api"),
        workload(Deployment, "other"),
        made_by(Deployment, "other", ReplicaSet, "api-5b6f4"),
        made_by(Deployment, "api", ReplicaSet, "adopted-7d9c5"),
        workload(ReplicaSet, "api-alone"),
    ];
    let roster = roster(&[(Deployment, "api")], seen);
    assert_eq!(group_of(&roster, ReplicaSet, "api-5b6f4"), None, "it is of another Deployment");
    assert_eq!(group_of(&roster, ReplicaSet, "adopted-7d9c5"), Some(0));
    assert_eq!(group_of(&roster, ReplicaSet, "api-alone"), None, "it is of no Deployment");
}

#[test]
fn an_owner_whose_parent_has_not_been_seen_counts_by_its_name() {
    let early = vec![made_by(Deployment, "api", ReplicaSet, "api-5b6f4")];
    let roster = roster(&[(Deployment, "api")], early);
    assert_eq!(group_of(&roster, ReplicaSet, "api-5b6f4"), Some(0), "the ReplicaSet was seen first");
    assert_eq!(group_of(&roster, ReplicaSet, "api-7d9c5"), Some(0), "nothing of it was seen");
    assert_eq!(group_of(&roster, ReplicaSet, "api-worker-7d9c5"), None);
}
