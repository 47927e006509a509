//! Nodes, and which of them a pod may run on, by the rules of the scheduler and the DaemonSet controller.

use crate::{Timestamp, Uid, journal::Journal, labels::Labels, selector};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// A label that a pod may use to name its node. Its value can differ from the name of the node.
pub const HOSTNAME: &str = "kubernetes.io/hostname";

/// One node, identified by its uid: a node re-created under the same name is a different node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub uid: Uid,
    pub name: Arc<str>,
    pub version: u64,
    pub created: Timestamp,
    /// All labels, including ours.
    pub labels: Labels,
    pub taints: Vec<Taint>,
    /// Whether it is cordoned.
    pub unschedulable: bool,
    /// The types of its conditions that are True.
    pub conditions: BTreeSet<Arc<str>>,
    /// Start of its current NotReady period, if it is not Ready.
    pub not_ready_since: Option<Timestamp>,
    /// The resources with an allocatable amount above 0.
    pub resources: BTreeSet<Arc<str>>,
    /// Whether it has any annotation, ours or foreign.
    pub annotated: bool,
    /// The journals that sequences have written on it.
    pub journals: BTreeMap<Uid, Journal>,
    pub terminating: bool,
}

/// The CSI drivers that are registered on a node: its CSINode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drivers {
    pub node: Arc<str>,
    /// The uid of the node, if the CSINode contains it. The CSINode of an earlier node of that name says nothing about the
    /// current one.
    pub of: Option<Uid>,
    pub version: u64,
    pub names: BTreeSet<Arc<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Taint {
    pub key: Arc<str>,
    pub value: Arc<str>,
    pub effect: TaintEffect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaintEffect {
    NoSchedule,
    NoExecute,
    PreferNoSchedule,
    /// An effect that Rollcall does not know.
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toleration {
    /// Empty: every key.
    pub key: Arc<str>,
    /// `None`: any value (`Exists`).
    pub value: Option<Arc<str>>,
    /// `None`: every effect.
    pub effect: Option<TaintEffect>,
    /// How long the pod stays on a node with such a `NoExecute` taint; `None`: indefinitely.
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

/// The node constraints of a pod template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    pub node_selector: Labels,
    /// Required node affinity: one of the terms must hold. `None` if there is none.
    pub terms: Option<Vec<Term>>,
    pub tolerations: Vec<Toleration>,
}

/// Requirements that must all hold. A term without requirements matches no node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Term {
    pub labels: Vec<NodeRequirement>,
    /// On `metadata.name`, the only supported field.
    pub name: Vec<NodeRequirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRequirement {
    pub key: Arc<str>,
    pub operator: NodeOperator,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeOperator {
    /// An operator that label selectors also have.
    Plain(selector::Operator),
    Gt(i64),
    Lt(i64),
}

/// Tolerations that the DaemonSet controller adds to those of the pod template.
const TOLERATED_BY_DAEMONS: [(&str, TaintEffect); 6] = [
    ("node.kubernetes.io/not-ready", TaintEffect::NoExecute),
    ("node.kubernetes.io/unreachable", TaintEffect::NoExecute),
    ("node.kubernetes.io/disk-pressure", TaintEffect::NoSchedule),
    ("node.kubernetes.io/memory-pressure", TaintEffect::NoSchedule),
    ("node.kubernetes.io/pid-pressure", TaintEffect::NoSchedule),
    ("node.kubernetes.io/unschedulable", TaintEffect::NoSchedule),
];

/// Taints that reflect the passing state of a node: a DaemonSet that they exclude now is still expected there.
const PASSING: [&str; 4] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/network-unavailable",
    "node.cloudprovider.kubernetes.io/uninitialized",
];
/// Prefixes of taints that are removed when a new node has been prepared. The cluster autoscaler knows them, and does not
/// conclude that nothing fits on such a node.
pub const STARTUP_TAINTS: [&str; 2] =
    ["startup-taint.cluster-autoscaler.kubernetes.io/", "ignore-taint.cluster-autoscaler.kubernetes.io/"];

fn is_passing(key: &str) -> bool {
    PASSING.contains(&key) || STARTUP_TAINTS.iter().any(|prefix| key.starts_with(prefix))
}

impl Placement {
    /// Whether a DaemonSet with this template gets a pod on `node`. Ignores taints for which `ours` holds, and temporary taints
    /// of a node that is new or not ready.
    pub fn wants_daemon_on(&self, node: &Node, ours: impl Fn(&str) -> bool) -> bool {
        self.matches(node)
            && node.taints.iter().all(|taint| {
                matches!(taint.effect, TaintEffect::PreferNoSchedule | TaintEffect::Other)
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

    /// The taints that keep the pod off a node: they prevent scheduling, and it does not tolerate them.
    pub fn untolerated<'n>(&self, node: &'n Node) -> impl Iterator<Item = &'n Taint> {
        node.taints.iter().filter(move |taint| {
            matches!(taint.effect, TaintEffect::NoSchedule | TaintEffect::NoExecute) && !self.tolerates(taint)
        })
    }

    /// Whether node selector and required affinity allow a node, independently of its taints.
    pub fn matches(&self, node: &Node) -> bool {
        is_part_of(&self.node_selector, &node.labels)
            && self.terms.as_ref().is_none_or(|terms| terms.iter().any(|term| term.matches(node)))
    }
}

/// Whether `labels` contains all of `wanted`.
pub fn is_part_of(wanted: &Labels, labels: &Labels) -> bool {
    wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
}

impl Term {
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.name.is_empty()
    }

    pub fn matches(&self, node: &Node) -> bool {
        !self.is_empty()
            && self.labels.iter().all(|requirement| requirement.matches(node.labels.get(&requirement.key)))
            && self.name.iter().all(|requirement| requirement.matches(Some(&node.name)))
    }
}

impl NodeRequirement {
    fn matches(&self, value: Option<&Arc<str>>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.operator {
            NodeOperator::Plain(operator) => operator.holds(value),
            NodeOperator::Gt(least) => number().is_some_and(|number| number > *least),
            NodeOperator::Lt(most) => number().is_some_and(|number| number < *most),
        }
    }
}

/// Prints the syntax of `kubectl get nodes -l`, such as `disktype=ssd,cores>4`.
impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, requirement) in self.labels.iter().chain(&self.name).enumerate() {
            if position > 0 {
                f.write_str(",")?;
            }
            write!(f, "{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Display for NodeRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match &self.operator {
            NodeOperator::Plain(operator) => operator.write(key, f),
            NodeOperator::Gt(least) => write!(f, "{key}>{least}"),
            NodeOperator::Lt(most) => write!(f, "{key}<{most}"),
        }
    }
}

/// Prints the notation of `kubectl taint`, such as `dedicated=gpu:NoSchedule`.
impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Taint { key, value, effect } = self;
        let equals = if value.is_empty() { "" } else { "=" };
        let effect = match effect {
            TaintEffect::NoSchedule => ":NoSchedule",
            TaintEffect::PreferNoSchedule => ":PreferNoSchedule",
            TaintEffect::NoExecute => ":NoExecute",
            TaintEffect::Other => "",
        };
        write!(f, "{key}{equals}{value}{effect}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(labels: &[(&str, &str)], taints: &[(&str, TaintEffect)]) -> Node {
        let taint = |(key, effect): &(&str, TaintEffect)| Taint {
            key: (*key).into(),
            value: "".into(),
            effect: *effect,
        };
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
        let gpu = node(&[], &[("gpu", TaintEffect::NoSchedule)]);
        assert!(!wants(&any, &gpu) && wants(&tolerant, &gpu));
        assert!(wants(&any, &node(&[], &[("gpu", TaintEffect::PreferNoSchedule)])));
        assert!(
            wants(&any, &node(&[], &[("ours/x-blocked", TaintEffect::NoSchedule)])),
            "our own does not count"
        );
        let down = [
            ("node.kubernetes.io/not-ready", TaintEffect::NoSchedule),
            ("node.kubernetes.io/unschedulable", TaintEffect::NoSchedule),
        ];
        assert!(wants(&any, &node(&[], &down)), "cordoned or not ready just now");
        let new = [
            ("node.kubernetes.io/network-unavailable", TaintEffect::NoSchedule),
            ("node.cloudprovider.kubernetes.io/uninitialized", TaintEffect::NoSchedule),
            ("startup-taint.cluster-autoscaler.kubernetes.io/storage", TaintEffect::NoSchedule),
        ];
        assert!(wants(&any, &node(&[], &new)), "still being prepared");
    }

    #[test]
    fn affinity_terms_are_alternatives_of_requirements() {
        let requirement = |key: &str, operator| NodeRequirement { key: key.into(), operator };
        let term = |labels: Vec<NodeRequirement>| Term { labels, name: Vec::new() };
        let of = |terms: Vec<Term>| Placement { terms: Some(terms), ..Placement::default() };
        let n = node(&[("cores", "8"), ("zone", "a")], &[]);
        assert!(!wants(&of(vec![]), &n), "no term holds");
        assert!(!wants(&of(vec![Term::default()]), &n), "an empty term holds nowhere");
        let is = |value: &str| NodeOperator::Plain(selector::Operator::In(vec![value.into()]));
        let in_zone = |zone: &str| requirement("zone", is(zone));
        assert!(wants(&of(vec![term(vec![in_zone("b")]), term(vec![in_zone("a")])]), &n));
        assert!(!wants(
            &of(vec![term(vec![
                in_zone("a"),
                requirement("x", NodeOperator::Plain(selector::Operator::Exists))
            ])]),
            &n
        ));
        assert!(wants(&of(vec![term(vec![requirement("cores", NodeOperator::Gt(4))])]), &n));
        assert!(!wants(&of(vec![term(vec![requirement("cores", NodeOperator::Lt(4))])]), &n));
        let named = Term { labels: Vec::new(), name: vec![requirement("metadata.name", is("n"))] };
        assert!(wants(&of(vec![named]), &n));
    }

    #[test]
    fn terms_and_taints_are_printed_like_kubectl_takes_them() {
        let requirement = |key: &str, operator| NodeRequirement { key: key.into(), operator };
        let plain = |key, operator| requirement(key, NodeOperator::Plain(operator));
        let term = Term {
            labels: vec![
                plain("disktype", selector::Operator::In(vec!["ssd".into()])),
                plain("zone", selector::Operator::NotIn(vec!["a".into(), "b".into()])),
                requirement("cores", NodeOperator::Gt(4)),
                requirement("rank", NodeOperator::Lt(7)),
            ],
            name: vec![plain("metadata.name", selector::Operator::In(vec!["n".into()]))],
        };
        assert_eq!(term.to_string(), "disktype=ssd,zone notin (a,b),cores>4,rank<7,metadata.name=n");
        let taint =
            |value: &str, effect| Taint { key: "gpu".into(), value: value.into(), effect }.to_string();
        assert_eq!(taint("", TaintEffect::NoExecute), "gpu:NoExecute");
        assert_eq!(taint("a100", TaintEffect::NoSchedule), "gpu=a100:NoSchedule");
        assert_eq!(taint("a100", TaintEffect::PreferNoSchedule), "gpu=a100:PreferNoSchedule");
        assert_eq!(taint("a100", TaintEffect::Other), "gpu=a100");
    }

    #[test]
    fn only_untolerated_taints_that_prevent_scheduling_keep_a_pod_off() {
        let tolerant = Placement {
            tolerations: vec![Toleration { key: "gpu".into(), value: None, effect: None, seconds: None }],
            ..Placement::default()
        };
        let taints = [
            ("gpu", TaintEffect::NoSchedule),
            ("soft", TaintEffect::PreferNoSchedule),
            ("disk", TaintEffect::NoExecute),
            ("zone", TaintEffect::NoSchedule),
        ];
        let node = node(&[], &taints);
        let keys: Vec<&str> = tolerant.untolerated(&node).map(|taint| &*taint.key).collect();
        assert_eq!(keys, ["disk", "zone"]);
    }
}
