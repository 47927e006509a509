//! The nodes where an Order with one ticket per node reserves capacity.

use super::names::RESERVING_TAINT;
use crate::{
    Timestamp,
    node::{Node, Placement, Taint, TaintEffect, is_part_of},
    planted::{Bug, planted},
};
use jiff::SignedDuration;
use std::sync::Arc;

/// Whether a node gets a ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fit {
    Eligible,
    /// It gets no new ticket, but keeps the one it has: until this time, or indefinitely while it is not Ready.
    Kept {
        until: Option<Timestamp>,
    },
    Unfit(Criterion),
}

/// The criterion that a node fails. Variants are in the order of the checks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Criterion {
    Leaving,
    NodeSelector,
    Affinity,
    Cordoned,
    NotReady,
    /// The key of a taint that is not tolerated.
    Taint(Arc<str>),
}

impl Criterion {
    /// Describes the nodes that fail it.
    pub fn describe(&self) -> String {
        match self {
            Criterion::Leaving => "being deleted".into(),
            Criterion::NodeSelector => "not matched by nodeSelector".into(),
            Criterion::Affinity => "not matched by the required affinity".into(),
            Criterion::Cordoned => "cordoned".into(),
            Criterion::NotReady => "not Ready".into(),
            Criterion::Taint(key) => format!("tainted with {key}, which is not tolerated"),
        }
    }
}

const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// The taints of a node that is not Ready.
const NOT_READY: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

pub fn fit(placement: &Placement, node: &Node) -> Fit {
    let is_ready = node.conditions.contains("Ready");
    // A node that is not Ready also has these taints. Report that it is not Ready, instead of its taints.
    let passing = |taint: &&Taint| !is_ready && NOT_READY.contains(&&*taint.key);
    let ignored = |taint: &&Taint| [RESERVING_TAINT, UNSCHEDULABLE].contains(&&*taint.key);
    let taint = placement.untolerated(node).find(|taint| !ignored(taint) && !passing(taint));
    match () {
        () if node.terminating => Fit::Unfit(Criterion::Leaving),
        () if !is_part_of(&placement.node_selector, &node.labels) => Fit::Unfit(Criterion::NodeSelector),
        () if !placement.matches(node) => Fit::Unfit(Criterion::Affinity),
        () if node.unschedulable && !planted(Bug::TicketOnClosedNode) => Fit::Unfit(Criterion::Cordoned),
        () => match taint {
            Some(taint) => Fit::Unfit(Criterion::Taint(taint.key.clone())),
            None if is_ready => Fit::Eligible,
            None => patience(placement, node).unwrap_or(Fit::Unfit(Criterion::NotReady)),
        },
    }
}

/// How long a node that is not Ready keeps its ticket, from the tolerations of the not-ready and unreachable taints. `None`
/// without such tolerations: it loses its ticket.
fn patience(placement: &Placement, node: &Node) -> Option<Fit> {
    let named = placement.tolerations.iter().filter(|toleration| {
        NOT_READY.contains(&&*toleration.key)
            && toleration.effect.is_none_or(|effect| effect == TaintEffect::NoExecute)
    });
    let since = node.not_ready_since.unwrap_or(node.created);
    let until = named.map(|toleration| {
        let end =
            |seconds: i64| since.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX);
        toleration.seconds.map(end)
    });
    // Of two tolerations, the shorter one decides, as for the eviction of pods.
    until
        .reduce(|one, other| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        })
        .map(|until| Fit::Kept { until })
}

/// Whether a pod with this placement could run on a node, regardless of free capacity.
pub fn may_run_on(placement: &Placement, node: &Node) -> bool {
    !node.terminating && placement.matches(node) && placement.untolerated(node).next().is_none()
}
