//! All nodes as they are judged at one moment: what was judged before, and over it those to which something has happened since.

use super::evaluate::NodeView;
use super::index::{Count, Counts, NodeResults};
use crate::{Timestamp, Uid};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A node as it was judged, and what that leaves to be done there.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    pub view: NodeView,
    /// Something is to be written on it.
    pub unwritten: bool,
    /// For each group.
    pub here: Vec<NodeGroupFlags>,
}

/// How a node stands with a group, besides what is judged about the group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeGroupFlags {
    /// Neither open for the group nor kept closed.
    pub exposed: bool,
    /// Open, and members are held that belong there.
    pub releasable: bool,
    /// Never open, and members run there that were never released.
    pub early: bool,
}

/// What nodes are listed by, so that nobody has to look for them among all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeSet {
    Waiting,
    Complete,
    Unwritten,
    Releasable(u32),
    Early(u32),
}

/// Moments that nodes name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeTimer {
    /// When time alone changes the judgement.
    Wake,
    /// When a group has settled there.
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

/// What the judgement of every node rests on besides the node itself. If it changes, all are judged again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Common {
    pub resumed_at: Option<Timestamp>,
    pub begun_again: Option<Arc<str>>,
    pub opened_by_hand: BTreeSet<Arc<str>>,
    pub groups: Vec<CommonGroup>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommonGroup {
    /// Nobody belongs to it: it is complete nowhere.
    pub empty: bool,
    /// A workload of it is stopped: it is complete nowhere.
    pub stopped: bool,
    /// Its Jobs are over.
    pub finished: bool,
    /// Nothing of it is left but what those have left.
    pub only_remains: bool,
    /// Nobody belongs to it, and nobody has to: it is passed everywhere.
    pub absent: bool,
    /// All that it lists belong to nodes.
    pub all_placed: bool,
    pub needs_key: bool,
    /// The DaemonSets among its members, each with what changes when it wants its pods elsewhere.
    pub daemons: Vec<(Uid, u64)>,
}

/// What was judged anew, to be kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Judgements {
    /// `None` if no node was judged at all.
    pub common: Option<Arc<Common>>,
    pub nodes: BTreeMap<Arc<str>, Arc<Judged>>,
}

#[derive(Clone, Debug)]
pub struct Views<'a> {
    /// What was judged before and still holds but for what is judged anew.
    kept: Option<&'a NodeResults>,
    anew: Judgements,
    counts: Counts,
}

impl<'a> Views<'a> {
    pub fn none() -> Views<'a> {
        Views { kept: None, anew: Judgements::default(), counts: Counts::default() }
    }

    /// `kept` is `None` if nothing that was judged before holds.
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

    /// How many nodes take part.
    pub fn number(&self) -> u32 {
        self.counts.nodes
    }

    pub fn count(&self, group: usize) -> &Count {
        &self.counts.groups[group]
    }

    /// How many are in a list. Costs as much as was judged anew.
    pub fn number_in(&self, list: NodeSet) -> u32 {
        let kept = self.kept_in(list);
        let replaced = self.anew.nodes.keys().filter(|name| kept.is_some_and(|kept| kept.contains(*name)));
        let anew = self.anew.nodes.values().filter(|judged| judged.is_in(list));
        (kept.map_or(0, BTreeSet::len) - replaced.count() + anew.count()) as u32
    }

    fn kept_in(&self, list: NodeSet) -> Option<&BTreeSet<Arc<str>>> {
        self.kept.and_then(|kept| kept.totals().lists.get(&list))
    }

    /// The nodes of a list, by name.
    pub fn of(&self, list: NodeSet) -> impl Iterator<Item = (&Arc<str>, &Judged)> {
        let kept = self.kept_in(list).into_iter().flatten();
        let kept = kept.filter(|name| !self.anew.nodes.contains_key(*name));
        let anew = self.anew.nodes.iter().filter(move |(_, judged)| judged.is_in(list)).map(|(name, _)| name);
        merged(kept, anew).filter_map(|name| Some((name, self.get(name)?)))
    }

    /// The first of these moments on any node.
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

/// Two ordered lists that have nothing in common, as one.
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
