//! The core's status → the status of the object.

use super::{
    BlockedBy, GroupState, GroupStatus, NodeCounts, NodeSequenceStatus, Phase, PodSequenceStatus, Summary,
};
use crate::time::MilliTime;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use rollcall_core::planted::{Bug, planted};
use rollcall_core::sequence::status::{self as core, Status};
use std::sync::Arc;

/// The status to write. Conditions that did not change keep their times from `written`, the status that the object has
/// now, so that an unchanged status compares equal.
pub fn report(status: &Status, written: Option<&PodSequenceStatus>, now: Timestamp) -> PodSequenceStatus {
    let Status {
        observed_generation,
        phase,
        current_index,
        current_group_pods,
        ready_pods_in_current_group,
        processed_pods,
        message,
        groups,
        blocked_by,
        summary_group,
        summary_ready,
        resumed_at,
        begun_again,
        conditions,
        nodes,
    } = status;
    let known = written.map_or(&[][..], |written| &written.conditions);
    PodSequenceStatus {
        phase: Some(phase_of(*phase)),
        observed_generation: Some(*observed_generation),
        current_index: Some(*current_index),
        current_group_pods: owned(current_group_pods),
        ready_pods_in_current_group: Some(*ready_pods_in_current_group),
        processed_pods: owned(processed_pods),
        message: Some(if planted(Bug::StatusLoop) { format!("{message} ({now})") } else { message.clone() }),
        summary: Some(Summary { group: summary_group.clone(), ready: summary_ready.clone() }),
        groups: groups.iter().map(group).collect(),
        blocked_by: blocked_by.iter().map(blocked).collect(),
        nodes: nodes.as_ref().map(|nodes| NodeCounts {
            total: nodes.total,
            complete: nodes.complete,
            waiting: nodes.total - nodes.complete,
        }),
        node_status: nodes
            .iter()
            .flat_map(|nodes| &nodes.list)
            .map(|new| node(new, written, *observed_generation, now))
            .collect(),
        resumed_at: resumed_at.map(MilliTime::new),
        begun_again: begun_again.as_deref().map(str::to_owned),
        conditions: conditions.iter().map(|new| condition(new, known, *observed_generation, now)).collect(),
    }
}

fn phase_of(phase: core::Phase) -> Phase {
    match phase {
        core::Phase::Pending => Phase::Pending,
        core::Phase::InProgress => Phase::InProgress,
        core::Phase::Completed => Phase::Completed,
        core::Phase::Failed => Phase::Failed,
    }
}

fn node(
    node: &core::NodeStatus,
    written: Option<&PodSequenceStatus>,
    generation: i64,
    now: Timestamp,
) -> NodeSequenceStatus {
    let core::NodeStatus { name, phase, current_index, ready_pods_in_current_group, reason, message } = node;
    let ready = core::Condition {
        kind: core::ConditionKind::Ready,
        holds: *phase == core::Phase::Completed,
        reason: (*reason).to_owned(),
        message: message.clone(),
    };
    let known = written.map_or(&[][..], |written| &written.node_status);
    let known = known.iter().find(|known| known.node_name == **name);
    let known = known.map_or(&[][..], |known| &known.conditions);
    NodeSequenceStatus {
        node_name: name.to_string(),
        current_index: Some(*current_index),
        ready_pods_in_current_group: Some(*ready_pods_in_current_group),
        phase: Some(phase_of(*phase)),
        message: Some(message.clone()).filter(|message| !message.is_empty()),
        conditions: vec![condition(&ready, known, generation, now)],
    }
}

fn owned(names: &[Arc<str>]) -> Vec<String> {
    names.iter().map(|name| name.to_string()).collect()
}

fn group(group: &core::GroupStatus) -> GroupStatus {
    let core::GroupStatus {
        id,
        title,
        state,
        expected,
        present,
        released,
        arrived,
        opened_by_hand,
        finished,
        opened_at,
        completed_at,
    } = group;
    GroupStatus {
        name: title.to_string(),
        id: (!id.is_named()).then(|| id.to_string()),
        state: match state {
            core::GroupState::Waiting => GroupState::Waiting,
            core::GroupState::Open => GroupState::Open,
            core::GroupState::Complete => GroupState::Complete,
            core::GroupState::TimedOut => GroupState::TimedOut,
        },
        expected: *expected,
        present: Some(*present),
        released: Some(*released),
        arrived: Some(*arrived),
        opened_by_hand: *opened_by_hand,
        finished: *finished,
        opened_at: opened_at.map(MilliTime::new),
        completed_at: completed_at.map(MilliTime::new),
    }
}

fn blocked(entry: &core::BlockedBy) -> BlockedBy {
    let reason = &entry.blocker.reason;
    BlockedBy {
        group: entry.group.to_string(),
        pod: reason.blamed().map(str::to_owned),
        reason: reason.code().into(),
        message: reason.refusal().map(|message| message.to_string()),
        since: entry.blocker.since.map(MilliTime::new),
    }
}

fn condition(new: &core::Condition, known: &[Condition], generation: i64, now: Timestamp) -> Condition {
    let core::Condition { kind, holds, reason, message } = new;
    let status = if *holds { "True" } else { "False" };
    let before = known.iter().find(|before| before.type_ == kind.as_str() && before.status == status);
    // Kubernetes' own times have whole seconds; a finer time would not compare equal when it is read back.
    let whole = Timestamp::from_second(now.as_second()).unwrap_or(now);
    Condition {
        type_: kind.as_str().into(),
        status: status.into(),
        reason: reason.clone(),
        message: message.clone(),
        observed_generation: Some(generation),
        last_transition_time: before.map_or(Time(whole), |before| before.last_transition_time.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rollcall_core::sequence::status::{NodeStatus, NodesStatus};

    fn status(phase: core::Phase, reason: &'static str, message: &str) -> Status {
        let node = NodeStatus {
            name: "worker-1".into(),
            phase,
            current_index: 0,
            ready_pods_in_current_group: 0,
            reason,
            message: message.into(),
        };
        Status {
            observed_generation: 3,
            phase,
            current_index: 0,
            current_group_pods: Vec::new(),
            ready_pods_in_current_group: 0,
            processed_pods: Vec::new(),
            message: String::new(),
            groups: Vec::new(),
            blocked_by: Vec::new(),
            summary_group: String::new(),
            summary_ready: String::new(),
            resumed_at: None,
            begun_again: None,
            conditions: Vec::new(),
            nodes: Some(NodesStatus { total: 1, complete: 0, list: vec![node] }),
        }
    }

    #[test]
    fn every_node_is_ready_or_says_why_not_and_since_when() {
        let at = |seconds| Timestamp::from_second(seconds).expect("a time");
        let waits = report(
            &status(core::Phase::InProgress, "InProgress", "\"db\": 0 of 1 pods arrived"),
            None,
            at(1),
        );
        let ready = |status: &PodSequenceStatus| match &status.node_status[0].conditions[..] {
            [one] => (one.type_.clone(), one.status.clone(), one.reason.clone(), one.last_transition_time.0),
            other => panic!("{other:?}"),
        };
        let expected =
            |status: &str, reason: &str, since| ("Ready".into(), status.into(), reason.into(), at(since));
        assert_eq!(ready(&waits), expected("False", "InProgress", 1));
        let lacks = report(&status(core::Phase::InProgress, "NodeLacks", "no driver"), Some(&waits), at(2));
        assert_eq!(ready(&lacks), expected("False", "NodeLacks", 1), "it was not ready before either");
        let done = report(&status(core::Phase::Completed, "Completed", ""), Some(&lacks), at(3));
        assert_eq!(ready(&done), expected("True", "Completed", 3));
        assert_eq!(report(&status(core::Phase::Completed, "Completed", ""), Some(&done), at(9)), done);
    }
}
