//! Preemption: selects less important pods to evict, so that a more important pod fits.
//!
//! Unlike in a real cluster, preemption only frees resources and ports. It does not resolve rules about other pods.

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

type NodesByName = BTreeMap<Arc<str>, Node>;

/// The node and the victims of a preemption, most important victim first.
pub struct PreemptionPlan {
    pub node: Arc<str>,
    pub victims: Vec<Arc<Needs>>,
}

/// Why preemption is not possible.
pub struct No {
    pub words: String,
    /// Whether preemption was not tried because it is not permitted or not needed.
    pub not_tried: bool,
}

/// Selects a node for preemption. An error has the wording of the real scheduler.
pub fn plan(
    needs: &Needs,
    nodes: &NodesByName,
    diagnosis: &Diagnosis,
    store: &Store,
) -> Result<PreemptionPlan, No> {
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

/// Whether the pod has already preempted others, and they are still terminating.
fn waits_for_victims(needs: &Needs, nodes: &NodesByName, diagnosis: &Diagnosis) -> bool {
    let Some(name) = needs.pod["status"]["nominatedNodeName"].as_str() else { return false };
    if diagnosis.unfit.get(name).is_some_and(|unfit| unfit.for_good) {
        return false;
    }
    let leaving = |other: &Arc<Needs>| other.priority < needs.priority && other.terminating;
    nodes.get(name).is_some_and(|node| node.pods.values().any(leaving))
}

struct Candidate {
    plan: PreemptionPlan,
    /// Number of victims that a disruption budget protects.
    violations: usize,
}

impl Candidate {
    /// Compared in this order: protected victims, highest priority, sum of priorities, number of victims, and how long the
    /// most important victim has been running. Pods that run longer are spared.
    fn cost(&self) -> (usize, i64, i64, usize, std::cmp::Reverse<String>) {
        let victims = &self.plan.victims;
        let highest = victims.iter().map(|victim| victim.priority).max().unwrap_or(i64::MIN);
        // The offset prevents that more victims with negative priority cost less than fewer.
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

/// The smallest set of victims on this node: all less important pods except those that can stay.
fn candidate(needs: &Needs, node: &Node, store: &Store) -> Result<Candidate, Vec<Cow<'static, str>>> {
    let mut emptied = node.clone();
    let mut possible: Vec<Arc<Needs>> =
        node.pods.values().filter(|other| other.priority < needs.priority).cloned().collect();
    for victim in &possible {
        emptied.take(&victim.key);
    }
    filter::check(needs, &Demands::default(), &emptied).map_err(|unfit| unfit.reasons)?;
    // Most important first: by priority, then by age.
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
    Ok(Candidate { plan: PreemptionPlan { node: node.name.clone(), victims }, violations })
}

/// Splits pods into those that a disruption budget protects, and the others.
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
