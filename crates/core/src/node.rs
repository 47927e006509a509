//! Nodes, and which of them a pod may run on, as the scheduler and the DaemonSet controller see it.

use crate::{Timestamp, Uid, journal::Journal, labels::Labels, selector};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// By this label a pod may name its node. It need not be the name of the node.
pub const HOSTNAME: &str = "kubernetes.io/hostname";

/// One node. A node re-created under the same name is another one, by its uid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub uid: Uid,
    pub name: Arc<str>,
    pub version: u64,
    pub created: Timestamp,
    /// All of them, ours included.
    pub labels: Labels,
    pub taints: Vec<Taint>,
    /// It is cordoned.
    pub unschedulable: bool,
    /// The types of its conditions that are True.
    pub conditions: BTreeSet<Arc<str>>,
    /// Since when it is not Ready, if it is not.
    pub not_ready_since: Option<Timestamp>,
    /// The resources it offers more than none of.
    pub resources: BTreeSet<Arc<str>>,
    /// Whether it has any annotation, ours or not.
    pub annotated: bool,
    /// What each sequence wrote down about it.
    pub journals: BTreeMap<Uid, Journal>,
    pub terminating: bool,
}

/// The CSI drivers that are registered on a node: its CSINode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drivers {
    pub node: Arc<str>,
    /// Which node of that name, where it says so: what one has left behind says nothing about the next.
    pub of: Option<Uid>,
    pub version: u64,
    pub names: BTreeSet<Arc<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Taint {
    pub key: Arc<str>,
    pub value: Arc<str>,
    pub effect: Effect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    NoSchedule,
    NoExecute,
    PreferNoSchedule,
    /// One that we do not know.
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toleration {
    /// Empty: every key.
    pub key: Arc<str>,
    /// `None`: whatever the value (`Exists`).
    pub value: Option<Arc<str>>,
    /// `None`: every effect.
    pub effect: Option<Effect>,
    /// How long it tolerates what evicts; `None`: for ever.
    pub seconds: Option<i64>,
}

impl Toleration {
    pub fn tolerates(&self, taint: &Taint) -> bool {
        let Toleration { key, value, effect, .. } = self;
        effect.is_none_or(|effect| effect == taint.effect)
            && (key.is_empty() || *key == taint.key)
            && value.as_ref().is_none_or(|value| *value == taint.value)
    }
}

/// On which nodes a workload wants its pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    pub node_selector: Labels,
    /// Required node affinity: one of the terms must hold. `None` if there is none.
    pub terms: Option<Vec<Term>>,
    pub tolerations: Vec<Toleration>,
}

/// All of it must hold; a term without any requirement holds nowhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Term {
    pub labels: Vec<Requirement>,
    /// On `metadata.name`, the only field there is.
    pub name: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    pub key: Arc<str>,
    pub operator: Operator,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operator {
    /// One that label selectors have, too.
    Plain(selector::Operator),
    Gt(i64),
    Lt(i64),
}

/// What the DaemonSet controller lets its pods tolerate besides what their template says.
const TOLERATED_BY_DAEMONS: [(&str, Effect); 6] = [
    ("node.kubernetes.io/not-ready", Effect::NoExecute),
    ("node.kubernetes.io/unreachable", Effect::NoExecute),
    ("node.kubernetes.io/disk-pressure", Effect::NoSchedule),
    ("node.kubernetes.io/memory-pressure", Effect::NoSchedule),
    ("node.kubernetes.io/pid-pressure", Effect::NoSchedule),
    ("node.kubernetes.io/unschedulable", Effect::NoSchedule),
];

/// Taints that come and go with the state of a node: a DaemonSet that they keep off now is still expected there.
const PASSING: [&str; 4] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/network-unavailable",
    "node.cloudprovider.kubernetes.io/uninitialized",
];
/// Prefixes of taints that whoever prepares a new node takes off again. The cluster autoscaler knows them: it does not take such
/// a node for one that nothing fits on.
pub const STARTUP_TAINTS: [&str; 2] =
    ["startup-taint.cluster-autoscaler.kubernetes.io/", "ignore-taint.cluster-autoscaler.kubernetes.io/"];

fn is_passing(key: &str) -> bool {
    PASSING.contains(&key) || STARTUP_TAINTS.iter().any(|prefix| key.starts_with(prefix))
}

impl Placement {
    /// Whether a DaemonSet with this template gets a pod on `node`. Taints for which `ours` holds do not count, and neither
    /// do those that a node has only for now, because it is new or not ready.
    pub fn wants_daemon_on(&self, node: &Node, ours: impl Fn(&str) -> bool) -> bool {
        self.matches(node)
            && node.taints.iter().all(|taint| {
                matches!(taint.effect, Effect::PreferNoSchedule | Effect::Other)
                    || ours(&taint.key)
                    || is_passing(&taint.key)
                    || TOLERATED_BY_DAEMONS
                        .iter()
                        .any(|(key, effect)| **key == *taint.key && *effect == taint.effect)
                    || self.tolerates(taint)
            })
    }

    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.tolerations.iter().any(|toleration| toleration.tolerates(taint))
    }

    /// Whether selector and required affinity allow a node, its taints apart.
    pub fn matches(&self, node: &Node) -> bool {
        is_part_of(&self.node_selector, &node.labels)
            && self.terms.as_ref().is_none_or(|terms| terms.iter().any(|term| term.matches(node)))
    }
}

/// Whether `labels` has all of `wanted`.
pub fn is_part_of(wanted: &Labels, labels: &Labels) -> bool {
    wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
}

impl Term {
    fn matches(&self, node: &Node) -> bool {
        let empty = self.labels.is_empty() && self.name.is_empty();
        !empty
            && self.labels.iter().all(|requirement| requirement.matches(node.labels.get(&requirement.key)))
            && self.name.iter().all(|requirement| requirement.matches(Some(&node.name)))
    }
}

impl Requirement {
    fn matches(&self, value: Option<&Arc<str>>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.operator {
            Operator::Plain(operator) => operator.holds(value),
            Operator::Gt(least) => number().is_some_and(|number| number > *least),
            Operator::Lt(most) => number().is_some_and(|number| number < *most),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(labels: &[(&str, &str)], taints: &[(&str, Effect)]) -> Node {
        let taint =
            |(key, effect): &(&str, Effect)| Taint { key: (*key).into(), value: "".into(), effect: *effect };
        Node {
            uid: Uid::digest("n"),
            name: "n".into(),
            version: 1,
            created: Timestamp::UNIX_EPOCH,
            unschedulable: false,
            not_ready_since: None,
            labels: labels.iter().copied().collect(),
            taints: taints.iter().map(taint).collect(),
            conditions: BTreeSet::new(),
            resources: BTreeSet::new(),
            annotated: true,
            journals: BTreeMap::new(),
            terminating: false,
        }
    }

    fn wants(placement: &Placement, node: &Node) -> bool {
        placement.wants_daemon_on(node, |key| key.starts_with("ours/"))
    }

    #[test]
    fn a_daemon_is_wanted_where_its_template_and_foreign_taints_let_it() {
        let any = Placement::default();
        let disk =
            Placement { node_selector: [("disk", "ssd")].into_iter().collect(), ..Placement::default() };
        let tolerant = Placement {
            tolerations: vec![Toleration { key: "gpu".into(), value: None, effect: None, seconds: None }],
            ..Placement::default()
        };
        let plain = node(&[], &[]);
        assert!(wants(&any, &plain) && !wants(&disk, &plain));
        assert!(wants(&disk, &node(&[("disk", "ssd"), ("zone", "a")], &[])));
        let gpu = node(&[], &[("gpu", Effect::NoSchedule)]);
        assert!(!wants(&any, &gpu) && wants(&tolerant, &gpu));
        assert!(wants(&any, &node(&[], &[("gpu", Effect::PreferNoSchedule)])));
        assert!(wants(&any, &node(&[], &[("ours/x-blocked", Effect::NoSchedule)])), "our own does not count");
        let down = [
            ("node.kubernetes.io/not-ready", Effect::NoSchedule),
            ("node.kubernetes.io/unschedulable", Effect::NoSchedule),
        ];
        assert!(wants(&any, &node(&[], &down)), "cordoned or not ready just now");
        let new = [
            ("node.kubernetes.io/network-unavailable", Effect::NoSchedule),
            ("node.cloudprovider.kubernetes.io/uninitialized", Effect::NoSchedule),
            ("startup-taint.cluster-autoscaler.kubernetes.io/storage", Effect::NoSchedule),
        ];
        assert!(wants(&any, &node(&[], &new)), "still being prepared");
    }

    #[test]
    fn affinity_terms_are_alternatives_of_requirements() {
        let requirement = |key: &str, operator| Requirement { key: key.into(), operator };
        let term = |labels: Vec<Requirement>| Term { labels, name: Vec::new() };
        let of = |terms: Vec<Term>| Placement { terms: Some(terms), ..Placement::default() };
        let n = node(&[("cores", "8"), ("zone", "a")], &[]);
        assert!(!wants(&of(vec![]), &n), "no term holds");
        assert!(!wants(&of(vec![Term::default()]), &n), "an empty term holds nowhere");
        let is = |value: &str| Operator::Plain(selector::Operator::In(vec![value.into()]));
        let in_zone = |zone: &str| requirement("zone", is(zone));
        assert!(wants(&of(vec![term(vec![in_zone("b")]), term(vec![in_zone("a")])]), &n));
        assert!(!wants(
            &of(vec![term(vec![
                in_zone("a"),
                requirement("x", Operator::Plain(selector::Operator::Exists))
            ])]),
            &n
        ));
        assert!(wants(&of(vec![term(vec![requirement("cores", Operator::Gt(4))])]), &n));
        assert!(!wants(&of(vec![term(vec![requirement("cores", Operator::Lt(4))])]), &n));
        let named = Term { labels: Vec::new(), name: vec![requirement("metadata.name", is("n"))] };
        assert!(wants(&of(vec![named]), &n));
    }
}
