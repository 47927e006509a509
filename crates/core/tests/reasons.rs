//! All reasons: each code is documented, and each sentence reads well.

use rollcall_core::sequence::reason::Progress;
use rollcall_core::sequence::spec::NodeReady;
use rollcall_core::sequence::{Reason, reason};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// One example of each, in the order of the enum.
fn every_reason() -> Vec<Reason> {
    let (pod, group): (Arc<str>, Arc<str>) = ("db-0".into(), "db".into());
    let owner = || String::from("Deployment db");
    let trouble = Some(String::from("container app: CrashLoopBackOff"));
    let until = "2026-01-05T12:00:30Z".parse().expect("a time");
    vec![
        Reason::Timeout {
            group: group.clone(),
            after: Duration::from_secs(90),
            progress: Progress::Members { arrived: 1, required: Some(3) },
        },
        Reason::InvalidSpec { problem: "spec.podGroups[0].pods: is empty".into() },
        Reason::NotPermitted { namespace: "shop".into(), from: "ops".into() },
        Reason::NodeScopeNeedsFullMode,
        Reason::Suspended,
        Reason::WaitsForGroup {
            group: group.clone(),
            progress: Progress::Members { arrived: 1, required: None },
        },
        Reason::Settling { group: group.clone(), until },
        Reason::NotCreated { pod: pod.clone() },
        Reason::WorkloadMissing { workload: "deployment/db".into(), similar: vec!["deployment/db2".into()] },
        Reason::NoRunYet { cron_job: "nightly".into() },
        Reason::OwnGate {
            pod: pod.clone(),
            gate: "podsequence.example.com/launch-gate".into(),
            feature: "container launch order",
        },
        Reason::NodeMissing { pod: pod.clone(), node: "worker-1".into() },
        Reason::NothingMatches { selector: "app=db".into() },
        Reason::NumberUnknown { owner: owner() },
        Reason::TooFewPods { owner: owner(), present: 1, expected: 3 },
        Reason::TooFewMembers { present: 1, required: 3 },
        Reason::NotReady { pod: pod.clone(), trouble: trouble.clone() },
        Reason::NotStarted { pod: pod.clone(), trouble: None },
        Reason::NotSucceeded { pod: pod.clone(), trouble },
        Reason::JobNotComplete { job: "migrate".into(), succeeded: 1, completions: 3 },
        Reason::WorkloadStopped { workload: "statefulset/db".into() },
        Reason::JobSuspended { job: "migrate".into() },
        Reason::JobFailed { job: "migrate".into() },
        Reason::PodFailed { pod: pod.clone(), trouble: Some("Evicted".into()) },
        Reason::ForeignGate { pod: pod.clone(), gate: "example.com/quota".into() },
        Reason::NoGate { pod: pod.clone(), gate: "podsequence.example.com/sequence-gate".into() },
        Reason::StartLimit { limit: 2 },
        Reason::OtherSequence { pod: pod.clone(), sequence: "other".into(), group: group.clone() },
        Reason::OutOfOrder { pod: pod.clone(), group },
        Reason::ReleaseForbidden {
            pod: pod.clone(),
            message: "pods \"db-0\" is forbidden: the controller may not remove the gate example.com/quota"
                .into(),
        },
        Reason::ReleaseRefused { pod: pod.clone(), message: "Pod \"db-0\" is invalid: spec.priority".into() },
        Reason::NodeWriteRefused {
            node: "worker-1".into(),
            message: "Node \"worker-1\" is invalid: metadata.annotations: Too long".into(),
        },
        Reason::OldReplicaSet { pod },
        Reason::NodeLacks { node: "worker-1".into(), what: NodeReady::CsiDriver("csi.example.com".into()) },
        Reason::TaintsNotPermitted { namespace: "shop".into() },
        Reason::TemplateLacksToleration {
            daemon_set: "csi".into(),
            key: "podsequence.example.com/shop.csi.apps-blocked".into(),
        },
    ]
}

#[test]
fn every_reason_is_described_and_every_description_is_of_a_reason() {
    let codes: BTreeSet<&str> = every_reason().iter().map(Reason::code).collect();
    let described: BTreeSet<&str> = reason::ALL.iter().map(|described| described.code).collect();
    assert_eq!(codes, described);
}

#[test]
fn every_reason_has_a_hint_and_a_sentence_without_a_full_stop() {
    for reason in every_reason() {
        let (sentence, hint) = (reason.sentence(), reason.hint());
        assert!(!sentence.is_empty() && !sentence.ends_with('.'), "{sentence}");
        assert!(!hint.is_empty() && !hint.ends_with('.'), "{hint}");
    }
}

#[test]
fn the_sentences() {
    let sentences: Vec<String> = every_reason()
        .iter()
        .map(|reason| {
            let pod = reason.pod().map_or(String::new(), |pod| format!(" [{pod}]"));
            format!("{}{pod}: {}", reason.code(), reason.sentence())
        })
        .collect();
    insta::assert_snapshot!(sentences.join("\n"));
}
