//! Constraints of a pod on its node: node selector, required node affinity, tolerations.

use super::node::effect;
use rollcall_core::facts::{NodeConstraints, Pin, TermShape};
use rollcall_core::labels::Labels;
use rollcall_core::node::{HOSTNAME, NodeOperator, NodeRequirement, Placement, Term, Toleration};
use rollcall_core::selector;
use rollcall_core::sequence::keys;
use serde::Deserialize;
use std::cell::Cell;
use std::collections::BTreeMap;

/// Maximum number of list entries that are read from one object. Any user with permission to create a workload may
/// write lists of a megabyte, and the controller keeps in memory what it reads.
const MOST_ENTRIES: usize = 1024;

/// Yields items until the shared budget `room` is used up.
fn within<T>(room: &Cell<usize>, items: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    items.take_while(|_| {
        let left = room.get();
        room.set(left.saturating_sub(1));
        left > 0
    })
}

/// The only node field that an affinity may refer to.
const NAME: &str = "metadata.name";

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct AffinityObject {
    node_affinity: Option<NodeAffinity>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeAffinity {
    required_during_scheduling_ignored_during_execution: Option<Required>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Required {
    node_selector_terms: Vec<TermObject>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TermObject {
    match_expressions: Option<Vec<RequirementObject>>,
    match_fields: Option<Vec<RequirementObject>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RequirementObject {
    key: String,
    operator: String,
    values: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct TolerationObject {
    key: String,
    operator: String,
    value: String,
    effect: String,
    toleration_seconds: Option<i64>,
}

impl AffinityObject {
    fn terms(&self) -> Option<&[TermObject]> {
        let required =
            self.node_affinity.as_ref()?.required_during_scheduling_ignored_during_execution.as_ref()?;
        Some(&required.node_selector_terms)
    }

    fn shapes(&self) -> Box<[TermShape]> {
        let has = |list: &Option<Vec<RequirementObject>>| list.as_ref().is_some_and(|list| !list.is_empty());
        let shape = |term: &TermObject| match (has(&term.match_expressions), has(&term.match_fields)) {
            (true, _) => TermShape::Expressions,
            (false, true) => TermShape::FieldsOnly,
            (false, false) => TermShape::Empty,
        };
        self.terms().unwrap_or_default().iter().map(shape).collect()
    }

    /// The node name that every term requires, if it is the same in all terms.
    fn name(&self) -> Option<&str> {
        let named = |term: &'_ TermObject| {
            let mut fields = term.match_fields.iter().flatten();
            let name = fields.find(|field| field.key == NAME && field.operator == "In")?;
            match name.values.as_deref() {
                Some([name]) => Some(name.clone()),
                _ => None,
            }
        };
        let terms = self.terms()?;
        let first = terms.first().and_then(named)?;
        let same = terms.iter().all(|term| named(term).as_ref() == Some(&first));
        let fields = terms.first()?.match_fields.iter().flatten();
        let value =
            fields.filter_map(|field| field.values.as_deref()?.first()).find(|value| **value == first);
        value.filter(|_| same).map(String::as_str)
    }

    /// The hostname that the only term requires.
    fn host(&self) -> Option<&str> {
        let [term] = self.terms()? else { return None };
        let mut labels = term.match_expressions.iter().flatten();
        let host = labels.find(|label| label.key == HOSTNAME && label.operator == "In")?;
        match host.values.as_deref() {
            Some([host]) => Some(host),
            _ => None,
        }
    }
}

/// The constraints of a pod on its node.
pub(super) fn constraints(
    selector: Option<&BTreeMap<String, String>>,
    affinity: Option<&AffinityObject>,
    tolerations: &[TolerationObject],
) -> NodeConstraints {
    let ours = tolerations.iter().filter(|toleration| toleration.is_of_ours());
    NodeConstraints {
        no_tolerations: tolerations.is_empty(),
        tolerated: ours.take(MOST_ENTRIES).map(|toleration| toleration.key.as_str().into()).collect(),
        has_affinity: affinity.is_some(),
        has_node_affinity: affinity.is_some_and(|affinity| affinity.node_affinity.is_some()),
        pin: pin(selector, affinity),
        terms: affinity.map(AffinityObject::shapes).unwrap_or_default(),
    }
}

/// The only node that a pod can run on.
fn pin(selector: Option<&BTreeMap<String, String>>, affinity: Option<&AffinityObject>) -> Option<Pin> {
    let named = affinity.and_then(AffinityObject::name).map(|name| Pin::Name(name.into()));
    let selected = selector.and_then(|selector| selector.get(HOSTNAME)).map(String::as_str);
    let host = selected.or_else(|| affinity.and_then(AffinityObject::host));
    named.or_else(|| host.map(|host| Pin::Hostname(host.into())))
}

pub(super) fn placement(
    selector: Option<&BTreeMap<String, String>>,
    affinity: Option<&AffinityObject>,
    tolerations: &[TolerationObject],
) -> Placement {
    let terms = affinity.and_then(AffinityObject::terms);
    let room = Cell::new(MOST_ENTRIES);
    Placement {
        node_selector: within(&room, selector.into_iter().flatten()).collect::<Labels>(),
        terms: terms.map(|terms| within(&room, terms.iter()).map(|term| term.facts(&room)).collect()),
        tolerations: within(&room, tolerations.iter()).map(TolerationObject::facts).collect(),
    }
}

impl TermObject {
    fn facts(&self, room: &Cell<usize>) -> Term {
        let list = |list: &Option<Vec<RequirementObject>>| {
            within(room, list.iter().flatten()).map(|requirement| requirement.facts(room)).collect()
        };
        Term { labels: list(&self.match_expressions), name: list(&self.match_fields) }
    }
}

impl RequirementObject {
    fn facts(&self, room: &Cell<usize>) -> NodeRequirement {
        let values =
            || within(room, self.values.iter().flatten()).map(|value| value.as_str().into()).collect();
        let number = |otherwise: i64| {
            let first = self.values.iter().flatten().next();
            first.and_then(|value| value.parse().ok()).unwrap_or(otherwise)
        };
        let operator = match self.operator.as_str() {
            "In" => NodeOperator::Plain(selector::Operator::In(values())),
            "NotIn" => NodeOperator::Plain(selector::Operator::NotIn(values())),
            "DoesNotExist" => NodeOperator::Plain(selector::Operator::DoesNotExist),
            "Gt" => NodeOperator::Gt(number(i64::MAX)),
            "Lt" => NodeOperator::Lt(number(i64::MIN)),
            _ => NodeOperator::Plain(selector::Operator::Exists),
        };
        NodeRequirement { key: self.key.as_str().into(), operator }
    }
}

impl TolerationObject {
    /// Whether the toleration has the form that the webhook and a release add.
    fn is_of_ours(&self) -> bool {
        keys::is_key(&self.key) && self.operator == "Exists" && matches!(&*self.effect, "" | "NoSchedule")
    }

    fn facts(&self) -> Toleration {
        let TolerationObject { key, operator, value, effect: of, toleration_seconds: seconds } = self;
        Toleration {
            key: key.as_str().into(),
            value: (operator != "Exists").then(|| value.as_str().into()),
            effect: effect(of),
            seconds: *seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn affinity(terms: serde_json::Value) -> AffinityObject {
        let required = json!({ "nodeSelectorTerms": terms });
        let affinity =
            json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": required } });
        serde_json::from_value(affinity).expect("an affinity")
    }

    #[test]
    fn the_one_node_of_a_pod_is_found() {
        let field =
            |name: &str| json!({ "matchFields": [{ "key": NAME, "operator": "In", "values": [name] }] });
        let host = json!({ "matchExpressions": [{ "key": HOSTNAME, "operator": "In", "values": ["h"] }] });
        let of = |terms| pin(None, Some(&affinity(terms)));
        assert_eq!(of(json!([field("a")])), Some(Pin::Name("a".into())), "as in a pod of a DaemonSet");
        assert_eq!(of(json!([field("a"), field("a")])), Some(Pin::Name("a".into())));
        assert_eq!(of(json!([field("a"), field("b")])), None);
        assert_eq!(of(json!([host])), Some(Pin::Hostname("h".into())));
        assert_eq!(of(json!([host, {}])), None);
        assert_eq!(of(json!([])), None);
        let selector = [(HOSTNAME.to_owned(), "s".to_owned())].into_iter().collect();
        assert_eq!(pin(Some(&selector), None), Some(Pin::Hostname("s".into())));
    }

    #[test]
    fn a_list_of_a_megabyte_is_not_kept_whole() {
        let values: Vec<String> = (0..3 * MOST_ENTRIES).map(|number| number.to_string()).collect();
        let zone = json!({ "key": "zone", "operator": "In", "values": values });
        let terms = vec![json!({ "matchExpressions": [zone] }); 3];
        let one = json!({ "operator": "Exists" });
        let tolerations: Vec<TolerationObject> =
            serde_json::from_value(json!(vec![one; 10])).expect("tolerations");
        let placement = placement(None, Some(&affinity(json!(terms))), &tolerations);
        let kept = |term: &Term| match &term.labels[0].operator {
            NodeOperator::Plain(selector::Operator::In(values)) => values.len(),
            _ => 0,
        };
        let kept: usize =
            placement.terms.iter().flatten().filter(|term| !term.labels.is_empty()).map(kept).sum();
        assert!((MOST_ENTRIES / 2..MOST_ENTRIES).contains(&kept), "{kept}");
        assert_eq!(placement.tolerations.len(), 0, "the budget is used up");
    }

    #[test]
    fn terms_are_known_by_what_can_be_added_to_them() {
        let expression = json!([{ "key": "zone", "operator": "Exists" }]);
        let terms = json!([{ "matchExpressions": expression }, { "matchFields": expression }, {}]);
        assert_eq!(
            *affinity(terms).shapes(),
            [TermShape::Expressions, TermShape::FieldsOnly, TermShape::Empty]
        );
    }
}
