//! In Node scope: the members of a sequence on each node, and the last evaluation of each node.
//!
//! ```text
//! NodeResults ─┬─ nodes:  per node, a cell for each group and the last evaluation
//!              ├─ stale:  nodes that have changed since their last evaluation
//!              └─ totals: aggregates over all evaluations, updated on each change
//! ```
//!
//! An event on one node therefore costs one evaluation, independent of the number of nodes.

use super::{Cell, Standing};
use crate::{
    Timestamp, Uid,
    sequence::{
        evaluate::GroupView,
        views::{Common, Judged, Judgements, NodeSet, NodeTimer},
    },
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Debug, Default)]
pub struct NodeResults {
    groups: usize,
    nodes: BTreeMap<Arc<str>, NodeMembers>,
    stale: BTreeSet<Arc<str>>,
    /// Names of nodes that have members but do not exist. Usually empty.
    missing: BTreeSet<Arc<str>>,
    /// The common input of all evaluations. If it has changed or is `None`, no stored evaluation is valid.
    common: Option<Arc<Common>>,
    totals: Totals,
}

/// The members and the evaluation of one node.
#[derive(Debug)]
struct NodeMembers {
    cells: Vec<Cell>,
    judged: Option<Arc<Judged>>,
}

impl NodeMembers {
    fn is_deserted(&self) -> bool {
        self.judged.is_none() && self.cells.iter().all(Cell::is_empty)
    }
}

impl NodeResults {
    pub(super) fn new(groups: usize) -> NodeResults {
        let totals = Totals { counts: Counts::none(groups), ..Totals::default() };
        NodeResults { groups, totals, ..NodeResults::default() }
    }

    /// The members of a group on a node; `None` if nothing is stored for the node.
    pub fn cell(&self, node: &str, group: usize) -> Option<&Cell> {
        self.nodes.get(node).map(|there| &there.cells[group])
    }

    /// The last evaluation of a node.
    pub fn judged(&self, node: &str) -> Option<&Arc<Judged>> {
        self.nodes.get(node)?.judged.as_ref()
    }

    /// Whether the stored evaluations used this common input, so that those of unchanged nodes are valid.
    pub fn rests_on(&self, common: &Common) -> bool {
        self.common.as_deref() == Some(common)
    }

    /// The nodes to evaluate again: they have changed, or their wake-up time has passed.
    pub fn due(&self, now: Timestamp) -> impl Iterator<Item = &Arc<str>> {
        let wakes = self.totals.times.range((NodeTimer::Wake, Timestamp::MIN, Arc::from(""))..);
        let woken = wakes.take_while(move |(moment, at, _)| *moment == NodeTimer::Wake && *at <= now);
        let asleep = |name: &&Arc<str>| !self.stale.contains(*name);
        self.stale.iter().chain(woken.map(|(_, _, name)| name).filter(asleep))
    }

    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The members of a group on nodes that do not exist.
    pub fn members_on_missing_nodes(&self, group: usize) -> impl Iterator<Item = (Standing, Uid)> {
        let cells = self.missing.iter().filter_map(move |node| self.cell(node, group));
        cells.flat_map(|cell| {
            let standings = Standing::ALL.into_iter();
            standings.flat_map(|standing| cell.members(standing).map(move |(_, uid)| (standing, uid)))
        })
    }

    /// Changes a cell of a node. `exists` says whether the node exists.
    pub(super) fn change_cell(
        &mut self,
        node: &Arc<str>,
        exists: bool,
        group: u32,
        change: impl FnOnce(&mut Cell),
    ) {
        let groups = self.groups;
        let new = || NodeMembers { cells: super::no_cells(groups), judged: None };
        let there = self.nodes.entry(node.clone()).or_insert_with(new);
        change(&mut there.cells[group as usize]);
        if there.is_deserted() {
            self.nodes.remove(node);
        }
        self.set_missing(node, exists);
        self.stale.insert(node.clone());
    }

    /// Marks a node as changed.
    pub(super) fn look_again(&mut self, node: &Arc<str>) {
        self.set_missing(node, true);
        self.stale.insert(node.clone());
    }

    fn set_missing(&mut self, node: &Arc<str>, exists: bool) {
        match !exists && self.nodes.contains_key(node) {
            true => self.missing.insert(node.clone()),
            false => self.missing.remove(node),
        };
    }

    /// Discards the evaluation of a node that no longer exists, or whose name another node has.
    pub(super) fn forget(&mut self, node: &Arc<str>) {
        self.stale.remove(node);
        self.set_missing(node, false);
        let Some(there) = self.nodes.get_mut(node) else { return };
        if let Some(old) = there.judged.take() {
            self.totals.subtract(node, &old);
        }
        if there.is_deserted() {
            self.nodes.remove(node);
            self.missing.remove(node);
        }
    }

    /// Discards all evaluations, because they belong to an earlier start.
    pub(super) fn begin_again(&mut self) {
        for (name, there) in &mut self.nodes {
            if let Some(old) = there.judged.take() {
                self.totals.subtract(name, &old);
            }
        }
        self.nodes.retain(|_, there| !there.is_deserted());
        self.missing.retain(|name| self.nodes.contains_key(name));
        self.invalidate();
    }

    /// Marks all stored evaluations as invalid.
    pub(super) fn invalidate(&mut self) {
        self.common = None;
    }

    /// Stores the evaluations of the nodes that take part.
    pub(super) fn remember(&mut self, judgements: Judgements, takes_part: impl Fn(&Arc<str>) -> bool) {
        let Judgements { common, nodes } = judgements;
        let Some(common) = common else { return };
        self.common = Some(common);
        self.stale.retain(|name| !nodes.contains_key(name) && takes_part(name));
        let groups = self.groups;
        for (name, judged) in nodes.into_iter().filter(|(name, _)| takes_part(name)) {
            let new = || NodeMembers { cells: super::no_cells(groups), judged: None };
            let there = self.nodes.entry(name.clone()).or_insert_with(new);
            if let Some(old) = there.judged.replace(judged.clone()) {
                self.totals.subtract(&name, &old);
            }
            self.totals.add(&name, &judged);
        }
    }
}

/// Aggregates over the evaluations of all nodes.
#[derive(Debug, Default)]
pub struct Totals {
    pub counts: Counts,
    pub lists: BTreeMap<NodeSet, BTreeSet<Arc<str>>>,
    pub times: BTreeSet<(NodeTimer, Timestamp, Arc<str>)>,
}

impl Totals {
    fn add(&mut self, node: &Arc<str>, judged: &Judged) {
        self.counts.add(judged);
        for list in judged.lists() {
            self.lists.entry(list).or_default().insert(node.clone());
        }
        self.times.extend(judged.times().map(|(moment, at)| (moment, at, node.clone())));
    }

    fn subtract(&mut self, node: &Arc<str>, judged: &Judged) {
        self.counts.subtract(judged);
        for list in judged.lists() {
            let names = self.lists.entry(list).or_default();
            names.remove(node);
            if names.is_empty() {
                self.lists.remove(&list);
            }
        }
        for (moment, at) in judged.times() {
            self.times.remove(&(moment, at, node.clone()));
        }
    }
}

/// The number of nodes and, for each group, the number of nodes in each state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub nodes: u32,
    pub groups: Vec<NodeCount>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCount {
    pub open: u32,
    pub complete: u32,
    pub timed_out: u32,
    /// Nodes where the group is not open, but that are not blocked for it either.
    pub exposed: u32,
    pub expected: Total,
    pub required: Total,
}

/// A sum of numbers, some of them possibly unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    sum: u64,
    unknown: u32,
}

impl Total {
    /// The sum plus `more`; `None` if any number is unknown.
    pub fn with(self, more: u32) -> Option<u32> {
        let all = self.sum + u64::from(more);
        (self.unknown == 0).then(|| u32::try_from(all).unwrap_or(u32::MAX))
    }

    fn change(&mut self, number: Option<u32>, add: bool) {
        let unknown = u32::from(number.is_none());
        let number = u64::from(number.unwrap_or_default());
        match add {
            true => (self.sum, self.unknown) = (self.sum + number, self.unknown + unknown),
            false => (self.sum, self.unknown) = (self.sum - number, self.unknown - unknown),
        }
    }
}

impl Counts {
    pub fn none(groups: usize) -> Counts {
        Counts { nodes: 0, groups: vec![NodeCount::default(); groups] }
    }

    pub fn add(&mut self, judged: &Judged) {
        self.change(judged, true);
    }

    pub fn subtract(&mut self, judged: &Judged) {
        self.change(judged, false);
    }

    fn change(&mut self, judged: &Judged, add: bool) {
        let step = |number: &mut u32, counts: bool| match add {
            true => *number += u32::from(counts),
            false => *number -= u32::from(counts),
        };
        step(&mut self.nodes, true);
        let each = judged.view.groups.iter().zip(&judged.here);
        for (count, (view, here)) in self.groups.iter_mut().zip(each) {
            let GroupView { open, complete, timed_out, expected, required, .. } = view;
            step(&mut count.open, *open);
            step(&mut count.complete, *complete);
            step(&mut count.timed_out, *timed_out);
            step(&mut count.exposed, here.exposed);
            count.expected.change(*expected, add);
            count.required.change(*required, add);
        }
    }
}
