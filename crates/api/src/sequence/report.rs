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

/// What is to be written. The times of conditions that did not change are taken over from `written`, what the
/// object has now, so that an unchanged status compares equal.
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
        node_status: nodes.iter().flat_map(|nodes| &nodes.list).map(node).collect(),
        resumed_at: resumed_at.map(MilliTime::new),
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

fn node(node: &core::NodeStatus) -> NodeSequenceStatus {
    let core::NodeStatus { name, phase, current_index, ready_pods_in_current_group, message } = node;
    NodeSequenceStatus {
        node_name: name.to_string(),
        current_index: Some(*current_index),
        ready_pods_in_current_group: Some(*ready_pods_in_current_group),
        phase: Some(phase_of(*phase)),
        message: Some(message.clone()).filter(|message| !message.is_empty()),
        conditions: Vec::new(),
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
        since: entry.blocker.since.map(MilliTime::new),
    }
}

fn condition(new: &core::Condition, known: &[Condition], generation: i64, now: Timestamp) -> Condition {
    let core::Condition { kind, holds, reason, message } = new;
    let status = if *holds { "True" } else { "False" };
    let before = known.iter().find(|before| before.type_ == kind.as_str() && before.status == status);
    // Kubernetes' own times have whole seconds; what is finer would not be read back.
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
