//! Explains how the capacity of a full node is used.

use super::super::names::ticket_of_guardian;
use super::super::spec::{Resources, amounts, lacking};
use super::{LISTED_NAMES, node_target};
use crate::{
    Timestamp,
    cluster::{Cluster, Target},
    line::{Hint, Line},
    quantity::Quantity,
};
use std::sync::Arc;

/// The usage of a node, as the scheduler computes it. Read on demand for `explain`; the index does not contain it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    pub node: Arc<str>,
    pub allocatable: Resources,
    pub pods: Vec<Occupant>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occupant {
    pub pod: Target,
    pub since: Timestamp,
    pub requests: Resources,
    pub priority: i32,
}

impl Occupant {
    fn takes(&self, resource: &str) -> i128 {
        self.requests.get(resource).map_or(0, |amount| amount.nanos())
    }
}

impl Room {
    /// The free amount of a resource.
    fn remaining(&self, resource: &str, all: Quantity) -> Quantity {
        let taken: i128 = self.pods.iter().map(|pod| pod.takes(resource)).sum();
        Quantity::new((all.nanos() - taken).max(0), all.form())
    }

    fn free(&self) -> Resources {
        let left = |(name, all): (&Arc<str>, &Quantity)| (name.clone(), self.remaining(name, *all));
        self.allocatable.iter().map(left).collect()
    }

    /// The missing amount in millionths of the requested amount, for the scarcest resource. Nodes with the smallest shortage are
    /// listed first.
    pub(super) fn shortage(&self, asked: &Resources) -> i128 {
        const WHOLE: i128 = 1_000_000;
        let free = self.free();
        let missing = |(name, amount): (&Arc<str>, &Quantity)| {
            let left = free.get(name).map_or(0, |left| left.nanos());
            (amount.nanos() - left).max(0) * WHOLE / amount.nanos().max(1)
        };
        asked.iter().map(missing).max().unwrap_or(0)
    }

    /// Describes the missing amount, and lists the pods that use most of the resource.
    pub(super) fn line(&self, cluster: &Cluster, asked: &Resources, now: Timestamp) -> Line {
        let Room { node, allocatable, pods } = self;
        let known = cluster.node(node);
        let (object, since) = (node_target(node, known), known.map_or(now, |node| node.created));
        let describe = Hint::kubectl_cluster("describe node", node.to_string());
        let Some((resource, amount)) = lacking(&self.free(), asked) else {
            let text = format!(
                "{node} has {} free: the guardian is not scheduled there for another reason than capacity",
                amounts(&self.free_of(asked))
            );
            return Line::new("NodeHasRoom", text, since, object).hint(describe);
        };
        let Some(all) = allocatable.get(resource) else {
            let text = format!("{node} has no {resource}, but the ticket requests {amount}");
            return Line::new("NodeFull", text, since, object).hint(describe);
        };
        let left = self.remaining(resource, *all);
        let text = match pods.len() {
            1 => format!(
                "{node} has {left} of {all} {resource} free, but the ticket requests {amount}; 1 pod is on the node"
            ),
            number => format!(
                "{node} has {left} of {all} {resource} free, but the ticket requests {amount}; {number} pods are on the node"
            ),
        };
        Line::new("NodeFull", text, since, object).with(self.occupants(resource)).hint(describe)
    }

    fn free_of(&self, asked: &Resources) -> Resources {
        self.free().into_iter().filter(|(name, _)| asked.contains_key(name)).collect()
    }

    /// The pods that request most of a resource.
    fn occupants(&self, resource: &Arc<str>) -> Vec<Line> {
        let mut takers: Vec<&Occupant> = self.pods.iter().filter(|pod| pod.takes(resource) > 0).collect();
        takers.sort_by(|one, other| {
            let by_name =
                || (&one.pod.namespace, &one.pod.name).cmp(&(&other.pod.namespace, &other.pod.name));
            other.takes(resource).cmp(&one.takes(resource)).then_with(by_name)
        });
        let line = |taker: &&Occupant| {
            let Occupant { pod, since, requests, priority } = taker;
            let amount =
                requests.get(resource).copied().unwrap_or(Quantity::new(0, crate::quantity::Form::Decimal));
            let guards =
                ticket_of_guardian(&pod.name).map(|ticket| format!(", the guardian of ticket {ticket},"));
            let text = format!(
                "{}/{}{} requests {amount} {resource}, priority {priority}",
                pod.namespace,
                pod.name,
                guards.unwrap_or_default()
            );
            Line::new("Occupant", text, *since, pod.clone())
        };
        let mut lines: Vec<Line> = takers.iter().take(LISTED_NAMES).map(line).collect();
        if let Some(next) = takers.get(LISTED_NAMES) {
            let rest = &takers[LISTED_NAMES..];
            let sum: i128 = rest.iter().map(|taker| taker.takes(resource)).sum();
            let form =
                next.requests.get(resource).map_or(crate::quantity::Form::Decimal, |amount| amount.form());
            let text =
                format!("and {} more request {} {resource} in total", rest.len(), Quantity::new(sum, form));
            lines.push(Line::new("More", text, next.since, next.pod.clone()));
        }
        lines
    }
}
