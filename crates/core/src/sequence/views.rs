//! The evaluations of all nodes at one moment: stored results, overlaid with the nodes evaluated again because they changed.

use super::evaluate::NodeView;
use super::index::{Counts, NodeCount, NodeResults};
use crate::{Timestamp, Uid};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The evaluation of a node, and the work that remains there.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    pub view: NodeView,
    /// Whether labels, taints or the journal must be written on the node.
    pub unwritten: bool,
    /// Flags of each group.
    pub here: Vec<NodeGroupFlags>,
}

/// Flags of a group on a node, in addition to its [`NodeView`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeGroupFlags {
    /// The group is not open on the node, and the node is not blocked for it.
    pub exposed: bool,
    /// The group is open on the node, and members that belong there are held.
    pub releasable: bool,
    /// The group was never open on the node, and members run there that were never released.
    pub early: bool,
}

/// Sets of nodes, indexed so that lookups need not visit all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeSet {
    Waiting,
    Complete,
    Unwritten,
    Releasable(u32),
    Early(u32),
}

/// Kinds of times that the evaluation of a node contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeTimer {
    /// The next moment when time alone changes the evaluation.
    Wake,
    /// The end of a group's `waitDuration` on the node.
    Settled(u32),
}

impl Judged {
    pub fn is_in(&self, list: NodeSet) -> bool {
        match list {
            NodeSet::Waiting => self.view.current().is_some(),
            NodeSet::Complete => self.view.current().is_none(),
            NodeSet::Unwritten => self.unwritten,
            NodeSet::Releasable(group) => self.here[group as usize].releasable,
            NodeSet::Early(group) => self.here[group as usize].early,
        }
    }

    pub fn lists(&self) -> impl Iterator<Item = NodeSet> {
        let groups = 0..self.here.len() as u32;
        let of_groups = groups.flat_map(|group| [NodeSet::Releasable(group), NodeSet::Early(group)]);
        let all = [NodeSet::Waiting, NodeSet::Complete, NodeSet::Unwritten].into_iter().chain(of_groups);
        all.filter(|list| self.is_in(*list))
    }

    pub fn times(&self) -> impl Iterator<Item = (NodeTimer, Timestamp)> {
        let wake = self.view.wake_at.map(|at| (NodeTimer::Wake, at));
        let groups = self.view.groups.iter().enumerate();
        let settled =
            groups.filter_map(|(group, view)| Some((NodeTimer::Settled(group as u32), view.settles_at?)));
        wake.into_iter().chain(settled)
    }
}

/// Input that the evaluations of all nodes share. If it changes, all nodes are evaluated again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Common {
    pub resumed_at: Option<Timestamp>,
    pub begun_again: Option<Arc<str>>,
    pub opened_by_hand: BTreeSet<Arc<str>>,
    pub groups: Vec<CommonGroup>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommonGroup {
    /// The group has no members, so it is not complete on any node.
    pub empty: bool,
    /// One of its workloads is stopped, so it is not complete on any node.
    pub stopped: bool,
    /// All its members belong to finished Jobs.
    pub finished: bool,
    /// Only remains of finished Jobs exist.
    pub only_remains: bool,
    /// The group is optional and has no members, so it is passed on all nodes.
    pub absent: bool,
    /// The nodes of all pods that it lists are known.
    pub all_placed: bool,
    pub needs_key: bool,
    /// The DaemonSets among its members, each with a number that changes when its placement changes.
    pub daemons: Vec<(Uid, u64)>,
}

/// New evaluations, to be stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Judgements {
    /// `None` if no node was evaluated.
    pub common: Option<Arc<Common>>,
    pub nodes: BTreeMap<Arc<str>, Arc<Judged>>,
}

#[derive(Clone, Debug)]
pub struct Views<'a> {
    /// Stored evaluations, valid except for the nodes in `anew`.
    kept: Option<&'a NodeResults>,
    anew: Judgements,
    counts: Counts,
}

impl<'a> Views<'a> {
    pub fn none() -> Views<'a> {
        Views { kept: None, anew: Judgements::default(), counts: Counts::default() }
    }

    /// Combines stored and new evaluations. `kept` is `None` if the stored ones are no longer valid.
    pub fn new(kept: Option<&'a NodeResults>, groups: usize, anew: Judgements) -> Views<'a> {
        let mut counts = kept.map_or_else(|| Counts::none(groups), |kept| kept.totals().counts.clone());
        for (name, judged) in &anew.nodes {
            if let Some(old) = kept.and_then(|kept| kept.judged(name)) {
                counts.subtract(old);
            }
            counts.add(judged);
        }
        Views { kept, anew, counts }
    }

    pub fn into_judgements(self) -> Judgements {
        self.anew
    }

    pub fn common(&self) -> Option<&Common> {
        self.anew.common.as_deref()
    }

    pub fn get(&self, node: &str) -> Option<&Judged> {
        let kept = || self.kept?.judged(node);
        self.anew.nodes.get(node).or_else(kept).map(|judged| &**judged)
    }

    /// The number of nodes that take part.
    pub fn number(&self) -> u32 {
        self.counts.nodes
    }

    pub fn count(&self, group: usize) -> &NodeCount {
        &self.counts.groups[group]
    }

    /// The number of nodes in a set. Costs O(nodes evaluated again).
    pub fn number_in(&self, list: NodeSet) -> u32 {
        let kept = self.kept_in(list);
        let replaced = self.anew.nodes.keys().filter(|name| kept.is_some_and(|kept| kept.contains(*name)));
        let anew = self.anew.nodes.values().filter(|judged| judged.is_in(list));
        (kept.map_or(0, BTreeSet::len) - replaced.count() + anew.count()) as u32
    }

    fn kept_in(&self, list: NodeSet) -> Option<&BTreeSet<Arc<str>>> {
        self.kept.and_then(|kept| kept.totals().lists.get(&list))
    }

    /// The nodes of a set, ordered by name.
    pub fn nodes_in(&self, list: NodeSet) -> impl Iterator<Item = (&Arc<str>, &Judged)> {
        let kept = self.kept_in(list).into_iter().flatten();
        let kept = kept.filter(|name| !self.anew.nodes.contains_key(*name));
        let anew = self.anew.nodes.iter().filter(move |(_, judged)| judged.is_in(list)).map(|(name, _)| name);
        merged(kept, anew).filter_map(|name| Some((name, self.get(name)?)))
    }

    /// The earliest time of this kind on any node.
    pub fn first(&self, moment: NodeTimer) -> Option<Timestamp> {
        let times = self.kept.map(|kept| &kept.totals().times);
        let from = (moment, Timestamp::MIN, Arc::from(""));
        let kept = times.into_iter().flat_map(|times| times.range(from.clone()..));
        let mut kept = kept.take_while(|(other, _, _)| *other == moment);
        let kept = kept.find(|(_, _, name)| !self.anew.nodes.contains_key(name)).map(|(_, at, _)| *at);
        let anew = self.anew.nodes.values().flat_map(|judged| judged.times());
        let anew = anew.filter(|(other, _)| *other == moment).map(|(_, at)| at);
        anew.chain(kept).min()
    }
}

/// Merges two ordered, disjoint lists.
fn merged<'b>(
    one: impl Iterator<Item = &'b Arc<str>>,
    other: impl Iterator<Item = &'b Arc<str>>,
) -> impl Iterator<Item = &'b Arc<str>> {
    let (mut one, mut other) = (one.peekable(), other.peekable());
    std::iter::from_fn(move || match (one.peek(), other.peek()) {
        (Some(first), Some(second)) if first < second => one.next(),
        (_, Some(_)) => other.next(),
        (_, None) => one.next(),
    })
}
