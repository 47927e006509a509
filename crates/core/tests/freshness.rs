//! The index when events arrive late, twice, out of order, or from a cluster restored from a backup.

use crate::support::{
    build::{self, GATE, HOME, start},
    world::{list_all, release_sent, status_of},
};
use jiff::Timestamp;
use rollcall_core::{
    Uid,
    decision::{Action, Decision, Keep},
    dispatch::{decide, explain_pod, keep},
    facts::{Namespace, Pod},
    index::{Answer, Index, Listed, Object},
    key::{Feature, Key},
    kind::Kind,
    node::{Drivers, Node},
    sequence::index::Note,
    sequence::{
        Phase, Sequence, Settings, Spec,
        explain::explain_sequence,
        spec::{Members, Recorded},
    },
};
use std::collections::BTreeSet;
use std::sync::Arc;

const SETTINGS: Settings = Settings { notes: true };

fn now() -> Timestamp {
    start()
}

/// Groups of one pod each, named after the pod.
fn spec(pods: &[&str]) -> Spec {
    build::spec(
        pods.iter().enumerate().map(|(at, pod)| build::group(at, Some(pod), build::names(&[pod]))).collect(),
    )
}

fn sequence(version: u64, pods: &[&str]) -> Sequence {
    Sequence { version, ..build::sequence(HOME, "app", spec(pods)) }
}

fn pod(name: &str, uid: &str, version: u64) -> Pod {
    Pod { version, ..build::pod(HOME, name, uid, "", now()) }
}

fn note_of(sequence: &Sequence, version: u64) -> Note {
    let Sequence { uid, namespace, name, generation, spec, .. } = sequence.clone();
    Note { sequence: uid, version, namespace, name, generation, spec: spec.expect("valid") }
}

fn index(objects: &[Object], version: u64) -> Index {
    let mut index = Index::default();
    list_all(&mut index, objects, version);
    index
}

fn list(index: &mut Index, kind: Kind, version: u64, objects: &[Object]) {
    index.list_begins(kind, version);
    let listed: BTreeSet<Listed> = objects.iter().map(Object::listed).collect();
    objects.iter().for_each(|object| index.apply(object.clone()));
    index.list_ended(kind, &listed);
}

fn decided(index: &Index, uid: Uid) -> Decision {
    decide(index, Key::Sequence(uid), SETTINGS, now(), 100)
}

fn released(index: &Index, uid: Uid) -> Vec<String> {
    let actions = decided(index, uid).actions.into_iter();
    actions
        .filter_map(|action| match action {
            Action::PatchPod(patch) => Some(patch.name.to_string()),
            _ => None,
        })
        .collect()
}

#[test]
fn an_older_view_of_a_pod_changes_nothing() {
    let mut index = index(&[Object::Pod(pod("a", "a", 10))], 10);
    index.apply(Object::Pod(Pod { ready: true, ..pod("a", "a", 9) }));
    index.apply(Object::Pod(Pod { ready: true, ..pod("a", "a", 10) }));
    assert!(!index.cluster.pod(Uid::digest("a")).expect("known").ready);
}

#[test]
fn a_deleted_pod_does_not_come_back() {
    let mut index = index(&[Object::Pod(pod("a", "a", 10))], 10);
    index.delete(Object::Pod(pod("a", "a", 11)));
    index.apply(Object::Pod(pod("a", "a", 12)));
    index.pod_write_answered(Uid::digest("a"), Answer::Done(Box::new(pod("a", "a", 13))));
    assert_eq!(index.cluster.pods().count(), 0);
}

#[test]
fn of_two_pods_of_one_name_the_newer_lives() {
    for (first, second) in [("old", "new"), ("new", "old")] {
        let of = |uid: &str| Object::Pod(pod("a", uid, if uid == "new" { 20 } else { 10 }));
        let mut index = index(&[], 5);
        index.apply(of(first));
        index.apply(of(second));
        assert_eq!(index.cluster.pod_named(HOME, "a").expect("one lives").uid, Uid::digest("new"));
        assert_eq!(index.cluster.pods().count(), 1);
    }
}

#[test]
fn a_relist_derives_what_was_deleted() {
    let mut index = index(&[Object::Pod(pod("a", "a", 10)), Object::Pod(pod("b", "b", 11))], 12);
    index.apply(Object::Pod(pod("b", "b", 30)));
    list(&mut index, Kind::Pod, 20, &[]);
    assert!(index.cluster.pod(Uid::digest("a")).is_none());
    assert!(
        index.cluster.pod(Uid::digest("b")).is_none(),
        "20 is below 30: a restored cluster, which lacks it"
    );
}

#[test]
fn a_note_written_while_the_notes_are_listed_is_kept() {
    let sequence = sequence(10, &["a"]);
    let mut index = index(&[Object::Sequence(sequence.clone())], 20);
    index.list_begins(Kind::Note, 25);
    index.note_written(note_of(&sequence, 26));
    index.list_ended(Kind::Note, &BTreeSet::new());
    assert!(index.sequences.note(sequence.uid).is_some());
    assert!(
        !decided(&index, sequence.uid)
            .actions
            .iter()
            .any(|action| matches!(action, Action::WriteNote { .. }))
    );
}

#[test]
fn no_decision_before_everything_is_listed() {
    let mut index = Index::default();
    for kind in Kind::of_mode(false) {
        assert!(!index.is_synced(Feature::Sequence));
        list(&mut index, kind, 1, &[]);
    }
    assert!(index.is_synced(Feature::Sequence));
    index.list_begins(Kind::Pod, 2);
    assert!(!index.is_synced(Feature::Sequence));
}

#[test]
fn a_restored_cluster_is_believed_and_nobody_in_it_is_let_go() {
    let (old, new) = (sequence(10, &["a", "b"]), build::sequence(HOME, "new", spec(&["c", "d"])));
    let new = Sequence { version: 40, ..new };
    let pods = ["a", "b", "c", "d"].map(|name| Object::Pod(pod(name, name, 30)));
    let mut all = vec![Object::Sequence(old.clone()), Object::Sequence(new.clone())];
    all.extend(pods.clone());
    let mut index = index(&all, 50);
    // From a backup that is older than `new`: the sequence was never deleted, so its pods stay held.
    list(&mut index, Kind::Sequence, 20, &[Object::Sequence(old.clone())]);
    assert!(index.sequences.get(new.uid).is_none());
    assert_eq!(released(&index, new.uid), [""; 0]);
    // If the list came from an API server that lags behind, the sequence reappears.
    index.apply(Object::Sequence(new.clone()));
    assert!(index.sequences.get(new.uid).is_some_and(|entry| !entry.ghost));
    // Pods with older versions than the known ones, and a deleted pod that is re-created.
    let before: Vec<Object> = ["a", "b"].map(|name| Object::Pod(pod(name, name, 15))).to_vec();
    list(&mut index, Kind::Pod, 20, &before);
    assert_eq!(index.cluster.pod(Uid::digest("a")).map(|pod| pod.version), Some(15));
    index.apply(Object::Pod(pod("c", "c", 30)));
    assert!(index.cluster.pod(Uid::digest("c")).is_some());
}

/// The answer to the write arrives after the watch has shown that another party removed the note.
#[test]
fn a_note_that_is_gone_already_is_written_again() {
    let sequence = sequence(10, &["a"]);
    let mut index = index(&[Object::Sequence(sequence.clone())], 20);
    index.apply(Object::Note(note_of(&sequence, 21)));
    index.delete(Object::Note(note_of(&sequence, 25)));
    index.note_written(note_of(&sequence, 21));
    assert!(index.sequences.note(sequence.uid).is_none());
    index.note_written(note_of(&sequence, 26));
    assert!(index.sequences.note(sequence.uid).is_some(), "written after that");
}

/// An event that a watch repeats does not undo later changes.
#[test]
fn a_late_word_of_a_deletion_says_nothing_about_who_came_after() {
    let sequence = sequence(1, &["a"]);
    let namespace = |version| {
        let (name, allow_from, allow_node_taints) = ("own".into(), None, false);
        Object::Namespace(Namespace { name, version, allow_from, allow_node_taints })
    };
    let note = |version| Object::Note(note_of(&sequence, version));
    let node = |version| Object::Node(Node { version, ..build::node("n") });
    let drivers =
        |version| Object::Drivers(Drivers { node: "n".into(), version, of: None, names: Default::default() });
    let there = [Object::Sequence(sequence.clone()), namespace(7), note(7), node(7), drivers(7)];
    let mut index = Index::of_full_mode();
    list_all(&mut index, &there, 7);
    let known = |index: &Index| {
        [
            index.cluster.namespace("own").is_some(),
            index.sequences.note(sequence.uid).is_some(),
            index.cluster.node("n").is_some(),
            index.cluster.drivers_on("n").is_some(),
        ]
    };
    assert_eq!(known(&index), [true; 4]);
    [namespace(5), note(5), node(5), drivers(5)].into_iter().for_each(|object| index.delete(object));
    assert_eq!(known(&index), [true; 4], "of their predecessors");
    [namespace(8), note(8), node(8), drivers(8)].into_iter().for_each(|object| index.delete(object));
    assert_eq!(known(&index), [false; 4]);
}

/// Only labels that selectors use are stored, so a later read of the same version may contain more.
#[test]
fn a_pod_that_is_read_again_may_say_more_than_before() {
    let selecting = build::group(0, Some("db"), Members::Selector(build::selector("tier=db")));
    let sequence = Sequence { version: 1, ..build::sequence(HOME, "app", build::spec(vec![selecting])) };
    let mut index = index(&[Object::Pod(pod("a", "a", 5))], 7);
    index.sequences.take_namespaces_to_read();
    index.apply(Object::Sequence(sequence.clone()));
    assert_eq!(index.sequences.take_namespaces_to_read(), [HOME.into()].into());
    assert_eq!(index.sequences.label_keys(HOME).map(|key| &**key).collect::<Vec<_>>(), ["tier"]);
    let labelled = Pod { labels: build::labels("tier=db"), ..pod("a", "a", 5) };
    index.apply(Object::Pod(labelled.clone()));
    assert_eq!(released(&index, sequence.uid), Vec::<String>::new(), "news of a version that is known");
    index.apply_read_again(Object::Pod(labelled));
    assert_eq!(index.facts().memberships_of(Uid::digest("a")).count(), 1);
    // An older view is ignored, even when it was read again.
    index.apply_read_again(Object::Pod(Pod { labels: build::labels("tier=web"), ..pod("a", "a", 4) }));
    assert_eq!(index.facts().memberships_of(Uid::digest("a")).count(), 1);
}

/// The watch may lag behind a repeated read: pods that are missing in the read are deleted.
#[test]
fn a_namespace_that_is_read_again_tells_who_is_gone() {
    let stays = pod("stays", "stays", 5);
    let elsewhere = Pod { version: 5, ..build::pod("elsewhere", "other", "other", "", now()) };
    let pods = [pod("gone", "gone", 5), stays.clone(), elsewhere].map(Object::Pod);
    let mut index = index(&pods, 7);
    // The answer to our own write, newer than the list.
    index.apply_answer(Object::Pod(pod("late", "late", 12)));
    let known = |index: &Index| {
        ["gone", "stays", "late", "other"].map(|uid| index.cluster.pod(Uid::digest(uid)).is_some())
    };
    let listed = BTreeSet::from([Object::Pod(stays).listed()]);
    index.read_again_ended(Kind::Pod, HOME, 6, &listed);
    assert_eq!(known(&index), [true; 4], "an old list proves nothing");
    index.read_again_ended(Kind::Deployment, HOME, 9, &BTreeSet::new());
    assert_eq!(known(&index), [true; 4], "a list of another kind");
    index.read_again_ended(Kind::Pod, HOME, 9, &listed);
    assert_eq!(known(&index), [false, true, true, true]);
    index.apply(Object::Pod(pod("gone", "gone", 6)));
    assert_eq!(known(&index), [false, true, true, true], "a late word about one that is gone");
}

#[test]
fn a_note_of_a_newer_generation_is_left_alone() {
    let old = sequence(10, &["a"]);
    let newer = Sequence { generation: old.generation + 1, ..sequence(11, &["a", "b"]) };
    let writes = |view: &Sequence, note: &Sequence| {
        let objects = [Object::Sequence(view.clone()), Object::Note(note_of(note, 12))];
        let decision = decided(&index(&objects, 20), view.uid);
        decision.actions.iter().any(|action| matches!(action, Action::WriteNote { .. }))
    };
    assert_eq!((writes(&old, &newer), writes(&newer, &old), writes(&newer, &newer)), (false, true, false));
}

#[test]
fn a_note_seen_before_its_sequence_raises_no_ghost() {
    let sequence = sequence(60, &["a", "b"]);
    let pods = ["a", "b"].map(|name| Object::Pod(pod(name, name, 30)));
    let mut index = index(&pods, 50);
    // Another controller has written the note; our watch of sequences is a little behind.
    index.apply(Object::Note(note_of(&sequence, 61)));
    assert!(index.sequences.get(sequence.uid).is_none());
    assert_eq!(released(&index, sequence.uid), [""; 0]);
    index.apply(Object::Sequence(sequence.clone()));
    assert!(index.sequences.get(sequence.uid).is_some_and(|entry| !entry.ghost && entry.is_noted()));
}

#[test]
fn a_note_is_carried_out_when_a_later_list_lacks_its_sequence() {
    let sequence = sequence(60, &["a", "b"]);
    let pods = ["a", "b"].map(|name| Object::Pod(pod(name, name, 30)));
    let mut index = index(&pods, 50);
    index.apply(Object::Note(note_of(&sequence, 61)));
    list(&mut index, Kind::Sequence, 70, &[]);
    assert!(index.sequences.get(sequence.uid).is_some_and(|entry| entry.ghost));
    assert_eq!(released(&index, sequence.uid), ["a", "b"]);
}

#[test]
fn a_ghost_laid_to_rest_is_not_raised_again_by_its_note() {
    let sequence = sequence(10, &["a"]);
    let other = build::sequence(HOME, "other", spec(&["x"]));
    let mut index = index(&[Object::Note(note_of(&sequence, 11))], 50);
    assert!(decided(&index, sequence.uid).finished);
    index.remove_finished_ghost(sequence.uid);
    index.apply(Object::Note(note_of(&other, 60)));
    assert!(index.sequences.get(sequence.uid).is_none());
    assert_eq!(decided(&index, sequence.uid).actions, [Action::DropNote { sequence: sequence.uid }]);
}

#[test]
fn that_the_kind_is_missing_says_nothing_about_its_objects() {
    let sequence = sequence(10, &["a", "b"]);
    let pods = ["a", "b"].map(|name| Object::Pod(pod(name, name, 30)));
    let mut all = pods.to_vec();
    all.push(Object::Note(note_of(&sequence, 11)));
    let mut index = Index::default();
    for kind in Kind::of_mode(false) {
        let of_kind: Vec<Object> =
            all.iter().filter(|object| crate::support::world::kind_of(object) == kind).cloned().collect();
        match kind {
            Kind::Sequence => index.kind_is_unavailable(kind),
            _ => list(&mut index, kind, 50, &of_kind),
        }
    }
    assert!(index.is_synced(Feature::Sequence));
    assert!(index.sequences.get(sequence.uid).is_none());
    assert_eq!(released(&index, sequence.uid), [""; 0]);
}

#[test]
fn a_terminating_pod_of_a_group_that_was_edited_away_can_still_be_explained() {
    let mut last = pod("c", "c", 12);
    last.terminating = true;
    let objects = [Object::Sequence(sequence(10, &["a", "b", "c"])), Object::Pod(last)];
    let mut index = index(&objects, 20);
    index.apply(Object::Sequence(sequence(21, &["a"])));
    let pod = index.cluster.pod(Uid::digest("c")).expect("known");
    assert!(explain_pod(&index, pod, now()).text.contains("belongs to no PodSequence"));
}

#[test]
fn what_another_controller_began_has_begun() {
    let first = sequence(10, &["a"]);
    let mut index = index(&[Object::Sequence(first.clone())], 20);
    let decision = decided(&index, first.uid);
    assert_eq!(status_of(&decision).expect("of a living one").phase, Phase::Pending);
    keep(&mut index, Key::Sequence(first.uid), decision.keep);
    let recorded = Recorded { phase: Some(Phase::InProgress), ..first.recorded.clone() };
    index.apply(Object::Sequence(Sequence { version: 30, recorded, ..first.clone() }));
    assert_eq!(status_of(&decided(&index, first.uid)).expect("of a living one").phase, Phase::InProgress);
}

#[test]
fn times_are_decided_as_they_are_written() {
    let sequence = sequence(10, &["a"]);
    let index = index(&[Object::Sequence(sequence.clone())], 20);
    let late = now() + jiff::SignedDuration::from_nanos(1_234_567);
    let kept = decide(&index, Key::Sequence(sequence.uid), SETTINGS, late, 1).keep;
    let Keep::Sequence { recorded, .. } = kept else { panic!("it lives") };
    let opened: Vec<_> = recorded.groups.values().filter_map(|group| group.opened_at).collect();
    assert_eq!(opened, [now() + jiff::SignedDuration::from_millis(1)]);
}

/// 60 groups that each wait for all previous ones form 2^59 paths from the last to the first.
#[test]
fn explaining_a_dense_graph_takes_no_time() {
    let names: Vec<String> = (0..60).map(|number| format!("p{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut spec = spec(&names);
    for (position, group) in spec.groups.iter_mut().enumerate() {
        group.after = (0..position).collect();
    }
    let sequence = Sequence { version: 10, spec: Ok(Arc::new(spec)), ..sequence(10, &["a"]) };
    let index = index(&[Object::Sequence(sequence.clone()), Object::Pod(pod("p59", "p59", 11))], 20);
    let line = explain_sequence(index.facts(), index.sequences.get(sequence.uid).expect("known"), now());
    assert_eq!(line.below.len(), 60);
    let held = explain_pod(&index, index.cluster.pod(Uid::digest("p59")).expect("known"), now());
    assert_eq!(held.below.len(), 59);
}

#[test]
fn a_gate_in_flight_survives_views_that_still_show_it() {
    let sequence = sequence(10, &["a"]);
    let note = Object::Note(note_of(&sequence, 11));
    let mut index = index(&[Object::Sequence(sequence.clone()), note, Object::Pod(pod("a", "a", 12))], 20);
    assert_eq!(released(&index, sequence.uid), ["a"]);
    release_sent(&mut index, Uid::digest("a"), GATE);
    index.apply(Object::Pod(pod("a", "a", 21)));
    assert_eq!(released(&index, sequence.uid), [""; 0]);
    index.apply(Object::Pod(Pod { gates: Vec::new(), ..pod("a", "a", 22) }));
    assert!(!index.cluster.is_writing_pod(Uid::digest("a")));
}
