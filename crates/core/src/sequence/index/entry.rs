//! A sequence with the counts of its members.

use super::{Cell, Mode, NodeResults, no_cells};
use crate::{
    Uid,
    cluster::Membership,
    facts::Owner,
    journal::later_of,
    planted::{Bug, planted},
    sequence::{
        NodeView, Sequence,
        keys::{keys, prefix},
        spec::{Enforcement, Recorded, Scope, Spec},
        status::Phase,
    },
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

/// The cell of sequences that have no members.
static NOBODY: LazyLock<Cell> = LazyLock::new(Cell::default);

/// A sequence with the counts of its members.
#[derive(Debug)]
pub struct SequenceEntry {
    pub sequence: Sequence,
    /// Whether the sequence is deleted, and this entry only releases the pods that it still holds.
    pub ghost: bool,
    /// Whether it selects pods. A sequence that may not act in its `spec.namespace` selects none and has no counts.
    selects_pods: bool,
    cells: Vec<Cell>,
    /// For each group, the pods that it selects but that belong to an earlier group.
    in_earlier_group: BTreeMap<u32, BTreeSet<Uid>>,
    /// The last decision, if it is newer than the status.
    pub(super) remembered: Option<Recorded>,
    /// Whether its note covers its current spec. Stored, because each decision would otherwise compare thousands of names.
    pub(super) noted: bool,
    mode: Mode,
    /// In Node scope: counts and evaluations per node.
    pub(super) node_results: NodeResults,
    /// In Node scope: the cells of pods without a node.
    floating: Vec<Cell>,
    /// In Node scope: the blocked key of each group.
    keys: Vec<Arc<str>>,
}

impl SequenceEntry {
    pub(super) fn new(sequence: Sequence, ghost: bool, mode: Mode) -> SequenceEntry {
        let keys = match &sequence.spec {
            Ok(spec) if spec.scope == Scope::Node => {
                let prefix = prefix(spec.guard, mode.taint_prefix);
                keys(prefix, &sequence.namespace, &sequence.name, &spec.groups)
            }
            Ok(_) | Err(_) => Vec::new(),
        };
        SequenceEntry {
            sequence,
            ghost,
            selects_pods: false,
            cells: Vec::new(),
            in_earlier_group: BTreeMap::new(),
            remembered: None,
            noted: false,
            mode,
            node_results: NodeResults::default(),
            floating: Vec::new(),
            keys,
        }
    }

    pub(super) fn selects_pods(&self) -> bool {
        self.selects_pods
    }

    /// Sets whether the sequence selects pods, and resets all counts. Its pods must have been removed before.
    pub(super) fn set_selects_pods(&mut self, selects_pods: bool) {
        let groups = match selects_pods {
            true => self.sequence.spec.as_ref().map_or(0, |spec| spec.groups.len()),
            false => 0,
        };
        let by_nodes = self.spec().is_some_and(|spec| spec.scope == Scope::Node);
        self.selects_pods = selects_pods;
        self.cells = no_cells(groups);
        self.floating = no_cells(if by_nodes { groups } else { 0 });
        self.node_results = NodeResults::new(groups);
    }

    /// Its name, if its pods are in its own namespace. Only such pods can name the sequence in an annotation.
    pub(super) fn name_if_own_namespace(&self) -> Option<&str> {
        let spec = self.spec()?;
        (spec.pod_namespace == self.sequence.namespace).then_some(&*self.sequence.name)
    }

    /// In Node scope: the blocked key of a group.
    pub fn key(&self, group: usize) -> &Arc<str> {
        &self.keys[group]
    }

    pub fn keys(&self) -> &[Arc<str>] {
        &self.keys
    }

    /// The members of a group on a node; `None` if the node has no members of any group.
    pub fn cell_on(&self, node: &str, group: usize) -> Option<&Cell> {
        self.node_results.cell(node, group)
    }

    /// The members of a group that have no node yet.
    pub fn floating(&self, group: usize) -> &Cell {
        self.floating.get(group).unwrap_or(&NOBODY)
    }

    pub(super) fn change_cell_at(
        &mut self,
        node: Option<(&Arc<str>, bool)>,
        group: u32,
        change: impl FnOnce(&mut Cell),
    ) {
        match node {
            Some((node, exists)) => self.node_results.change_cell(node, exists, group, change),
            None => change(&mut self.floating[group as usize]),
        }
    }

    /// Counts and evaluations per node.
    pub fn node_results(&self) -> &NodeResults {
        &self.node_results
    }

    /// Marks a node for re-evaluation. If it no longer exists, or another node has its name, the stored evaluation is discarded.
    pub(super) fn look_again(&mut self, node: &Arc<str>, there: bool, another: bool) {
        if (another || !there) && !planted(Bug::NodeNameNotUid) {
            self.node_results.forget(node);
        }
        if there {
            self.node_results.look_again(node);
        }
    }

    /// The last evaluation of a node.
    pub fn view_of(&self, node: &str) -> Option<&NodeView> {
        self.node_results.judged(node).map(|judged| &judged.view)
    }

    /// Whether its note covers its current spec.
    pub fn is_noted(&self) -> bool {
        self.noted
    }

    /// Whether `spec.suspend` is set. For an invalid spec, the recorded value.
    pub fn is_suspended(&self) -> bool {
        self.sequence.spec.as_ref().map_or(self.recorded().suspended, |spec| spec.suspend)
    }

    /// Its spec, if that is valid and this mode supports its scope.
    pub fn spec(&self) -> Option<&Arc<Spec>> {
        self.sequence.spec.as_ref().ok().filter(|spec| spec.scope == Scope::Cluster || self.mode.full)
    }

    pub fn cell(&self, group: usize) -> &Cell {
        self.cells.get(group).unwrap_or(&NOBODY)
    }

    pub(super) fn cell_mut(&mut self, group: u32) -> &mut Cell {
        &mut self.cells[group as usize]
    }

    /// Updates the counts after a workload changed its desired number of pods. Returns whether any group is affected.
    pub(super) fn recount(&mut self, owner: &Owner) -> bool {
        let Some(spec) = self.spec().cloned() else { return false };
        let mut concerned = false;
        for (group, cell) in spec.groups.iter().zip(&mut self.cells) {
            if cell.is_of(owner.uid) {
                cell.recount(owner.uid, Some(owner), group.until);
                concerned = true;
            }
        }
        concerned
    }

    /// The number of pods that a group selects but that belong to an earlier group.
    pub fn in_earlier_group(&self, group: usize) -> u32 {
        self.in_earlier_group.get(&(group as u32)).map_or(0, |pods| pods.len() as u32)
    }

    /// The pods that more than one group of this sequence selects, with the later group.
    pub fn duplicates(&self) -> impl Iterator<Item = (usize, Uid)> {
        self.in_earlier_group
            .iter()
            .flat_map(|(group, pods)| pods.iter().map(move |pod| (*group as usize, *pod)))
    }

    pub(super) fn set_in_earlier_group(&mut self, membership: Membership, pod: Uid, lost: bool) {
        let pods = self.in_earlier_group.entry(membership.group).or_default();
        match lost {
            true => pods.insert(pod),
            false => pods.remove(&pod),
        };
        if pods.is_empty() {
            self.in_earlier_group.remove(&membership.group);
        }
    }

    /// Takes over the times that another controller, active at the same time, has recorded for the same steps.
    pub(super) fn agree_with(&mut self, seen: &Sequence) {
        let Some(remembered) = &mut self.remembered else { return };
        if remembered.begun_again != seen.recorded.begun_again {
            // The seen times belong to another start. Ours stay valid only if they belong to the latest requested start.
            if seen.begin_again.is_none() || seen.begin_again != remembered.begun_again {
                self.remembered = None;
            }
            return;
        }
        // A sequence that another controller has started is in progress.
        if remembered.phase == Some(Phase::Pending)
            && matches!(seen.recorded.phase, Some(Phase::InProgress | Phase::Completed))
        {
            remembered.phase = seen.recorded.phase;
        }
        let bootstrap = seen.spec.as_ref().is_ok_and(|spec| spec.enforcement == Enforcement::Bootstrap);
        for (id, ours) in &mut remembered.groups {
            if let Some(theirs) = seen.recorded.groups.get(id) {
                ours.agree_with(theirs, bootstrap);
            }
        }
        remembered.resumed_at = later_of(remembered.resumed_at, seen.recorded.resumed_at, bootstrap);
    }

    /// Discards the times if they belong to an earlier start than the requested one. Returns whether they did.
    pub(super) fn begin_again(&mut self) -> bool {
        let asked = self.sequence.begin_again.clone();
        let Some(start) = asked.filter(|start| Some(start) != self.recorded().begun_again.as_ref()) else {
            return false;
        };
        self.remembered = Some(match planted(Bug::LastStartCounts) {
            true => Recorded { begun_again: Some(start), ..self.recorded().clone() },
            false => self.recorded().begun_again(&start),
        });
        self.node_results.begin_again();
        true
    }

    /// The times that decisions use: from the last decision, else from the status.
    pub fn recorded(&self) -> &Recorded {
        self.remembered.as_ref().unwrap_or(&self.sequence.recorded)
    }
}
