//! Preemption: which less important pods have to go so that a more important one finds room.
//!
//! Room and ports are made free in this way; rules about neighbours are not, other than in a real cluster.

use super::explain::{Diagnosis, counted};
use super::filter;
use super::neighbours::Demands;
use super::node::{Needs, Node};
use crate::kinds::Kind;
use crate::server::selectors;
use crate::store::{Key, Store};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

type Nodes = BTreeMap<Arc<str>, Node>;

/// Where room can be made, and who has to go for it, the most important first.
pub struct Plan {
    pub node: Arc<str>,
    pub victims: Vec<Arc<Needs>>,
}

/// Why no room can be made.
pub struct No {
    pub words: String,
    /// Because it may not or need not, not because it would be of no use.
    pub not_tried: bool,
}

/// Looks for a node on which room can be made; if there is none, says so in the words of the real scheduler.
pub fn plan(needs: &Needs, nodes: &Nodes, diagnosis: &Diagnosis, store: &Store) -> Result<Plan, No> {
    if !needs.may_preempt() {
        return Err(No { words: "not eligible due to preemptionPolicy=Never.".to_owned(), not_tried: true });
    }
    if waits_for_victims(needs, nodes, diagnosis) {
        let words = "not eligible due to a terminating pod on the nominated node.".to_owned();
        return Err(No { words, not_tried: true });
    }
    let mut candidates: Vec<Candidate> = Vec::new();
    let mut against: Vec<Cow<'static, str>> = Vec::new();
    for (name, unfit) in diagnosis.unfit.iter().filter(|(_, unfit)| !unfit.for_good) {
        let Some(node) = nodes.get(name) else { continue };
        if !node.has_less_than(needs.priority) {
            against.push("No preemption victims found for incoming pod".into());
        } else if !unfit.about_room {
            against.extend(unfit.reasons.iter().cloned());
        } else {
            match candidate(needs, node, store) {
                Ok(candidate) => candidates.push(candidate),
                Err(reasons) => against.extend(reasons),
            }
        }
    }
    let best = candidates.into_iter().min_by(|one, other| one.cost().cmp(&other.cost()));
    best.map(|best| best.plan).ok_or_else(|| {
        let looked_at = diagnosis.unfit.values().filter(|unfit| !unfit.for_good).count();
        let others = (Cow::Borrowed("Preemption is not helpful for scheduling"), diagnosis.nodes - looked_at);
        let counted = counted(against.into_iter(), Some(others));
        let words = format!("0/{} nodes are available:{counted}", diagnosis.nodes);
        No { words, not_tried: false }
    })
}

/// It has made room already, and those that have to go are on their way.
fn waits_for_victims(needs: &Needs, nodes: &Nodes, diagnosis: &Diagnosis) -> bool {
    let Some(name) = needs.pod["status"]["nominatedNodeName"].as_str() else { return false };
    if diagnosis.unfit.get(name).is_some_and(|unfit| unfit.for_good) {
        return false;
    }
    let leaving = |other: &Arc<Needs>| other.priority < needs.priority && other.terminating;
    nodes.get(name).is_some_and(|node| node.pods.values().any(leaving))
}

struct Candidate {
    plan: Plan,
    /// Of its victims, those that a disruption budget protects.
    violations: usize,
}

impl Candidate {
    /// What is compared, the first difference counts: protected victims, the priority of the most important one, the sum
    /// of priorities, the number, and how long the most important one has been running (the longest are spared).
    fn cost(&self) -> (usize, i64, i64, usize, std::cmp::Reverse<String>) {
        let victims = &self.plan.victims;
        let highest = victims.iter().map(|victim| victim.priority).max().unwrap_or(i64::MIN);
        // So that more victims of negative priority are not cheaper than fewer.
        let sum = victims.iter().map(|victim| victim.priority + i64::from(i32::MAX) + 1).sum();
        let eldest =
            victims.iter().filter(|victim| victim.priority == highest).map(|victim| victim.since()).min();
        (
            self.violations,
            highest,
            sum,
            victims.len(),
            std::cmp::Reverse(eldest.unwrap_or_default().to_owned()),
        )
    }
}

/// The fewest that have to go from this node: all less important ones, but for those that can be spared.
fn candidate(needs: &Needs, node: &Node, store: &Store) -> Result<Candidate, Vec<Cow<'static, str>>> {
    let mut emptied = node.clone();
    let mut possible: Vec<Arc<Needs>> =
        node.pods.values().filter(|other| other.priority < needs.priority).cloned().collect();
    for victim in &possible {
        emptied.take(&victim.key);
    }
    filter::check(needs, &Demands::default(), &emptied).map_err(|unfit| unfit.reasons)?;
    // The most important first: the highest priority, then who has been there longest.
    possible
        .sort_by(|one, other| other.priority.cmp(&one.priority).then_with(|| one.since().cmp(other.since())));
    let (protected, free): (Vec<_>, Vec<_>) = split_by_budgets(possible, store);
    let (mut victims, mut violations) = (Vec::new(), 0);
    for (victim, is_protected) in
        protected.into_iter().map(|one| (one, true)).chain(free.into_iter().map(|one| (one, false)))
    {
        emptied.put(victim.clone());
        if filter::room(needs, &emptied).is_err() {
            emptied.take(&victim.key);
            violations += usize::from(is_protected);
            victims.push(victim);
        }
    }
    victims
        .sort_by(|one, other| other.priority.cmp(&one.priority).then_with(|| one.since().cmp(other.since())));
    Ok(Candidate { plan: Plan { node: node.name.clone(), victims }, violations })
}

/// Those that a disruption budget does not let go, and the others.
fn split_by_budgets(pods: Vec<Arc<Needs>>, store: &Store) -> (Vec<Arc<Needs>>, Vec<Arc<Needs>>) {
    let mut allowed: BTreeMap<&Key, i64> = BTreeMap::new();
    pods.into_iter().partition(|needs| {
        let budgets = store.list(Kind::PodDisruptionBudget, Some(&needs.key.namespace));
        let matching = budgets.filter(|(_, budget)| {
            needs.labels().is_object() && selectors::selects(&budget["spec"]["selector"], needs.labels())
        });
        let mut violates = false;
        for (key, budget) in matching {
            let left = budget["status"]["disruptionsAllowed"].as_i64().unwrap_or_default();
            let left = allowed.entry(key).or_insert(left);
            *left -= 1;
            violates |= *left < 0;
        }
        violates
    })
}
