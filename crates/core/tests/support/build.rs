//! Short constructors of objects.

use jiff::{SignedDuration, Timestamp};
use rollcall_core::{
    Uid,
    facts::{Owner, OwnerKind, OwnerRef, Pod, PodPhase},
    labels::Labels,
    node::Node,
    selector::{Operator, Requirement, Selector},
    sequence::{
        Sequence, Spec,
        spec::{
            DeletionPolicy, Enforcement, Group, GroupId, Members, MinReady, NodeGuard, OnTimeout, Recorded,
            Scope, Until, unnamed_id,
        },
    },
};
use std::sync::Arc;
use std::time::Duration;

pub const HOME: &str = "shop";
pub const GATE: &str = "podsequence.example.com/sequence-gate";

/// The start time of all tests: noon of a day.
pub fn start() -> Timestamp {
    "2026-01-05T12:00:00Z".parse().expect("a time")
}

pub fn at(seconds: i64) -> Timestamp {
    start() + SignedDuration::from_secs(seconds)
}

pub fn labels(text: &str) -> Labels {
    text.split(',').filter_map(|pair| pair.split_once('=')).collect()
}

/// A gated pod that has just been created.
pub fn pod(namespace: &str, name: &str, uid: &str, labels_text: &str, now: Timestamp) -> Pod {
    Pod {
        uid: Uid::digest(uid),
        namespace: namespace.into(),
        name: name.into(),
        version: 0,
        labels: labels(labels_text),
        owner: None,
        gates: vec![GATE.into()],
        node: None,
        nominated: None,
        constraints: None,
        phase: PodPhase::Pending,
        ready: false,
        started: false,
        runs_to_completion: false,
        terminating: false,
        released_by_hand: false,
        created: now,
        since: now,
        trouble: None,
        launch: None,
        request: None,
    }
}

pub fn owner(kind: OwnerKind, namespace: &str, name: &str, labels_text: &str, desired: u32) -> Owner {
    Owner {
        uid: owner_uid(kind, namespace, name),
        kind,
        namespace: namespace.into(),
        name: name.into(),
        version: 0,
        created: start(),
        parent: None,
        template_labels: labels(labels_text),
        desired: Some(desired),
        revision: None,
        job: None,
        placement: (kind == OwnerKind::DaemonSet).then(Box::default),
        stopped: false,
        terminating: false,
    }
}

/// A node without labels, taints and journals.
#[allow(dead_code)] // Not every test has nodes.
pub fn node(name: &str) -> Node {
    Node {
        uid: Uid::digest(&format!("node {name}")),
        name: name.into(),
        version: 0,
        labels: Labels::default(),
        taints: Vec::new(),
        conditions: Default::default(),
        resources: Default::default(),
        annotated: true,
        created: Timestamp::UNIX_EPOCH,
        unschedulable: false,
        not_ready_since: None,
        journals: Default::default(),
        terminating: false,
    }
}

pub fn owner_uid(kind: OwnerKind, namespace: &str, name: &str) -> Uid {
    Uid::digest(&format!("{kind:?} {namespace}/{name}"))
}

pub fn owner_ref(kind: OwnerKind, namespace: &str, name: &str) -> OwnerRef {
    OwnerRef { kind, uid: owner_uid(kind, namespace, name) }
}

/// Parses the syntax of `kubectl -l`: `app=web,zone in (a b),zone notin (c),!old,new`.
pub fn selector(text: &str) -> Selector {
    let values = |list: &str| -> Vec<Arc<str>> {
        list.trim_matches(|c| c == '(' || c == ')').split_whitespace().map(Into::into).collect()
    };
    let requirement = |term: &str| {
        let words: Vec<&str> = term.trim().splitn(3, ' ').collect();
        let (key, operator) = match words.as_slice() {
            [key, "in", list] => (*key, Operator::In(values(list))),
            [key, "notin", list] => (*key, Operator::NotIn(values(list))),
            [word] => match (word.split_once('='), word.strip_prefix('!')) {
                (Some((key, value)), _) => (key, Operator::In(vec![value.into()])),
                (None, Some(key)) => (key, Operator::DoesNotExist),
                (None, None) => (*word, Operator::Exists),
            },
            _ => panic!("not a selector: {term}"),
        };
        Requirement { key: key.into(), operator }
    };
    Selector { requirements: text.split(',').map(requirement).collect() }
}

pub fn names(list: &[&str]) -> Members {
    Members::Names(list.iter().map(|name| Arc::from(*name)).collect())
}

/// A group with default values.
pub fn group(position: usize, name: Option<&str>, members: Members) -> Group {
    Group {
        id: name.map_or_else(|| unnamed_id(&members, None), GroupId::named),
        title: name.map_or_else(|| format!("Group {}", position + 1), str::to_owned).into(),
        members,
        optional: false,
        expected: None,
        min_ready: MinReady::Percent(100),
        until: Until::Auto,
        wait: Duration::ZERO,
        timeout: None,
        on_timeout: OnTimeout::Fail,
        after: position.checked_sub(1).into_iter().collect(),
        max_concurrent_starts: None,
        node_selector: Default::default(),
        node_ready: None,
    }
}

pub fn spec(groups: Vec<Group>) -> Spec {
    Spec {
        pod_namespace: HOME.into(),
        gate: GATE.into(),
        scope: Scope::Cluster,
        enforcement: Enforcement::Bootstrap,
        suspend: false,
        deletion_policy: DeletionPolicy::Release,
        guard: NodeGuard::Labels,
        groups,
    }
}

pub fn sequence(namespace: &str, name: &str, spec: Spec) -> Sequence {
    Sequence {
        uid: Uid::digest(&format!("sequence {namespace}/{name}")),
        namespace: namespace.into(),
        name: name.into(),
        version: 0,
        generation: 1,
        created: start(),
        spec: Ok(Arc::new(spec)),
        opened_by_hand: Default::default(),
        begin_again: None,
        recorded: Recorded::default(),
    }
}
