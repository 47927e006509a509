//! Inter-pod affinity, anti-affinity and topology spread. Matching pods are counted per distinct question, so that a
//! decision does not look at every pod.

use super::node::{Needs, Node};
use crate::actors::common::placement;
use crate::kinds::Kind;
use crate::server::selectors;
use crate::store::Store;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Asks for pods of some namespaces that match a selector, counted by the value of a label of their nodes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Question {
    /// Empty for all namespaces.
    namespaces: Vec<String>,
    /// The selector as JSON.
    selector: String,
    pub topology: String,
}

#[derive(Debug)]
struct MatchingPods {
    selector: Value,
    counts: BTreeMap<String, u32>,
}

#[derive(Debug, Default)]
pub struct Neighbours {
    /// Numbers of matching pods by topology domain.
    answers: BTreeMap<Question, MatchingPods>,
    /// Anti-affinity terms of existing pods, with the numbers of such pods by topology domain.
    repelled: BTreeMap<Question, MatchingPods>,
}

type NodesByName = BTreeMap<Arc<str>, Node>;

fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn required<'a>(spec: &'a Value, kind: &str) -> &'a [Value] {
    items(&spec["affinity"][kind]["requiredDuringSchedulingIgnoredDuringExecution"])
}

fn spread(spec: &Value) -> impl Iterator<Item = &Value> {
    items(&spec["topologySpreadConstraints"])
        .iter()
        .filter(|one| one["whenUnsatisfiable"] != "ScheduleAnyway")
}

/// Whether the pod has rules about other pods.
pub fn asks(spec: &Value) -> bool {
    !required(spec, "podAffinity").is_empty()
        || !required(spec, "podAntiAffinity").is_empty()
        || spread(spec).next().is_some()
}

impl Question {
    fn of_term(term: &Value, own: &str, store: &Store) -> Question {
        let mut namespaces: Vec<String> =
            items(&term["namespaces"]).iter().filter_map(|name| name.as_str().map(str::to_owned)).collect();
        match term["namespaceSelector"].as_object() {
            None if namespaces.is_empty() => namespaces.push(own.to_owned()),
            None => {}
            Some(selector) if selector.is_empty() => namespaces.clear(),
            Some(_) => {
                let all = store.list(Kind::Namespace, None);
                let chosen = all.filter(|(_, namespace)| {
                    selectors::selects(&term["namespaceSelector"], &namespace["metadata"]["labels"])
                });
                namespaces.extend(chosen.map(|(key, _)| key.name.to_string()));
            }
        }
        namespaces.sort();
        let topology = term["topologyKey"].as_str().unwrap_or_default().to_owned();
        Question { namespaces, selector: term["labelSelector"].to_string(), topology }
    }

    fn of_constraint(constraint: &Value, own: &str) -> Question {
        Question {
            namespaces: vec![own.to_owned()],
            selector: constraint["labelSelector"].to_string(),
            topology: constraint["topologyKey"].as_str().unwrap_or_default().to_owned(),
        }
    }

    fn is_about(&self, selector: &Value, needs: &Needs) -> bool {
        let own = &*needs.key.namespace;
        let within = self.namespaces.is_empty() || self.namespaces.iter().any(|name| name == own);
        // A missing selector selects nothing.
        within && selector.is_object() && selectors::selects(selector, needs.labels())
    }
}

impl Neighbours {
    /// Records that a pod is on a node (`more`), or no longer is.
    pub fn moved(&mut self, needs: &Needs, node: &Node, more: bool, store: &Store) {
        for (question, answer) in &mut self.answers {
            if let Some(domain) = node.label(&question.topology)
                && question.is_about(&answer.selector, needs)
            {
                count(&mut answer.counts, domain, more);
            }
        }
        for term in required(needs.spec(), "podAntiAffinity") {
            let question = Question::of_term(term, &needs.key.namespace, store);
            let Some(domain) = node.label(&question.topology) else { continue };
            let selector = &term["labelSelector"];
            let answer = self.repelled.entry(question);
            let answer = answer
                .or_insert_with(|| MatchingPods { selector: selector.clone(), counts: BTreeMap::new() });
            count(&mut answer.counts, domain, more);
        }
        self.repelled.retain(|_, answer| !answer.counts.is_empty());
    }

    /// Whether no existing pod has anti-affinity rules.
    pub fn nobody_repels(&self) -> bool {
        self.repelled.is_empty()
    }

    /// Counts everything again after a change of node labels.
    pub fn recount(&mut self, nodes: &NodesByName, store: &Store) {
        self.answers.clear();
        self.repelled.clear();
        for node in nodes.values() {
            node.pods.values().for_each(|needs| self.moved(needs, node, true, store));
        }
    }

    fn ask(&mut self, question: Question, selector: &Value, nodes: &NodesByName) -> BTreeMap<String, u32> {
        let answer = self.answers.entry(question).or_insert_with_key(|question| {
            let mut counts = BTreeMap::new();
            for node in nodes.values() {
                let Some(domain) = node.label(&question.topology) else { continue };
                let there = node.pods.values().filter(|needs| question.is_about(selector, needs)).count();
                if there > 0 {
                    *counts.entry(domain.to_owned()).or_default() += there as u32;
                }
            }
            MatchingPods { selector: selector.clone(), counts }
        });
        answer.counts.clone()
    }

    /// The rules that a node must fulfil for this pod.
    pub fn demands(&mut self, needs: &Needs, nodes: &NodesByName, store: &Store) -> Demands {
        let (spec, own) = (needs.spec(), &*needs.key.namespace);
        let mut demands = Demands::default();
        for term in required(spec, "podAffinity") {
            let question = Question::of_term(term, own, store);
            let topology = question.topology.clone();
            let itself = question.is_about(&term["labelSelector"], needs);
            let counts = self.ask(question, &term["labelSelector"], nodes);
            demands.near.push(Near { topology, itself, domains: counts.into_keys().collect() });
        }
        for term in required(spec, "podAntiAffinity") {
            let question = Question::of_term(term, own, store);
            let topology = question.topology.clone();
            let counts = self.ask(question, &term["labelSelector"], nodes);
            demands.away.push((topology, counts.into_keys().collect()));
        }
        for (question, answer) in &self.repelled {
            if question.is_about(&answer.selector, needs) {
                demands.unwanted.push((question.topology.clone(), answer.counts.keys().cloned().collect()));
            }
        }
        let topologies: Vec<&str> = spread(spec).filter_map(|one| one["topologyKey"].as_str()).collect();
        for constraint in spread(spec) {
            let question = Question::of_constraint(constraint, own);
            let topology = question.topology.clone();
            let itself = question.is_about(&constraint["labelSelector"], needs);
            let counts = self.ask(question, &constraint["labelSelector"], nodes);
            let eligible = nodes.values().filter(|node| {
                topologies.iter().all(|key| node.label(key).is_some())
                    && (constraint["nodeAffinityPolicy"] == "Ignore"
                        || placement::selects_node(spec, &node.object))
            });
            let domains: BTreeSet<&str> = eligible.filter_map(|node| node.label(&topology)).collect();
            let least = domains.iter().map(|domain| counts.get(*domain).copied().unwrap_or_default()).min();
            let wanted = constraint["minDomains"].as_u64().unwrap_or(1) as usize;
            let least = if domains.len() < wanted { 0 } else { least.unwrap_or_default() };
            let most = constraint["maxSkew"].as_u64().unwrap_or(1) as u32;
            let limit = (least + most).saturating_sub(u32::from(itself));
            demands.spread.push(Spread { topology, limit, counts });
        }
        demands
    }
}

fn count(counts: &mut BTreeMap<String, u32>, domain: &str, more: bool) {
    match (counts.get_mut(domain), more) {
        (Some(count), true) => *count += 1,
        (None, true) => drop(counts.insert(domain.to_owned(), 1)),
        (Some(count), false) if *count > 1 => *count -= 1,
        (Some(_), false) => drop(counts.remove(domain)),
        (None, false) => {}
    }
}

/// The demands of a pod, and the demands of existing pods on it.
#[derive(Debug, Default)]
pub struct Demands {
    near: Vec<Near>,
    away: Vec<(String, BTreeSet<String>)>,
    unwanted: Vec<(String, BTreeSet<String>)>,
    spread: Vec<Spread>,
}

#[derive(Debug)]
struct Near {
    topology: String,
    /// Whether the pod itself matches its affinity term. The first such pod may run anywhere.
    itself: bool,
    domains: BTreeSet<String>,
}

#[derive(Debug)]
struct Spread {
    topology: String,
    /// Limit of matching pods that a domain may already contain.
    limit: u32,
    counts: BTreeMap<String, u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Miss {
    NoSuchLabel,
    Skewed,
    NotNear,
    NotAway,
    Unwanted,
}

impl Demands {
    pub fn is_any(&self) -> bool {
        let Demands { near, away, unwanted, spread } = self;
        !near.is_empty() || !away.is_empty() || !unwanted.is_empty() || !spread.is_empty()
    }

    pub fn check(&self, node: &Node) -> Result<(), Miss> {
        for spread in &self.spread {
            let domain = node.label(&spread.topology).ok_or(Miss::NoSuchLabel)?;
            if spread.counts.get(domain).copied().unwrap_or_default() > spread.limit {
                return Err(Miss::Skewed);
            }
        }
        let first = self.near.iter().all(|near| near.itself && near.domains.is_empty());
        for near in &self.near {
            let domain = node.label(&near.topology).ok_or(Miss::NotNear)?;
            if !first && !near.domains.contains(domain) {
                return Err(Miss::NotNear);
            }
        }
        let in_one = |list: &[(String, BTreeSet<String>)]| {
            list.iter().any(|(topology, domains)| {
                node.label(topology).is_some_and(|domain| domains.contains(domain))
            })
        };
        if in_one(&self.away) {
            return Err(Miss::NotAway);
        }
        if in_one(&self.unwanted) {
            return Err(Miss::Unwanted);
        }
        Ok(())
    }
}
