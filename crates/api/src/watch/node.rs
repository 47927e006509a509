//! Nodes and their CSINodes: the facts that Node-scoped sequences need, and the journals that sequences write on nodes.

use super::pod::{Condition, condition};
use super::{LabelText, Meta};
use crate::names;
use jiff::Timestamp;
use rollcall_core::Uid;
use rollcall_core::journal::{GroupId, Journal, RecordedGroup};
use rollcall_core::labels::Labels;
use rollcall_core::node::{Drivers, Node, Taint, TaintEffect};
use rollcall_core::quantity::Quantity;
use rollcall_core::reservation::spec::Resources;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Deserialize)]
pub struct NodeObject {
    pub metadata: Meta,
    #[serde(default)]
    spec: NodeSpec,
    #[serde(default)]
    status: NodeStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct NodeSpec {
    taints: Option<Vec<TaintObject>>,
    unschedulable: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct TaintObject {
    key: String,
    value: String,
    effect: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct NodeStatus {
    conditions: Option<Vec<Condition>>,
    allocatable: Option<BTreeMap<String, Value>>,
}

impl NodeObject {
    pub fn facts(&self) -> Node {
        let NodeObject { metadata, spec, status } = self;
        let conditions = status.conditions.iter().flatten().filter(|condition| condition.holds());
        let ready = condition(status.conditions.as_deref().unwrap_or_default(), "Ready");
        let offered = status.allocatable.iter().flatten().filter(|(_, amount)| is_more_than_none(amount));
        Node {
            uid: metadata.uid(),
            name: metadata.name.as_str().into(),
            version: metadata.version(),
            created: metadata.created(),
            labels: metadata.labels.iter().flat_map(LabelText::pairs).collect::<Labels>(),
            taints: spec.taints.iter().flatten().map(TaintObject::facts).collect(),
            unschedulable: spec.unschedulable,
            not_ready_since: ready.filter(|ready| !ready.holds()).and_then(Condition::since),
            conditions: conditions.map(|condition| condition.kind.as_str().into()).collect(),
            resources: offered.map(|(name, _)| name.as_str().into()).collect(),
            annotated: metadata.annotations.is_some(),
            journals: metadata.annotations().filter_map(|(key, text)| journal(key, text)).collect(),
            terminating: metadata.deletion_timestamp.is_some(),
        }
    }
}

impl NodeObject {
    /// The allocatable amount of each resource.
    pub fn allocatable(&self) -> Resources {
        let amount = |(name, amount): (&String, &Value)| Some((name.as_str().into(), quantity(amount)?));
        self.status.allocatable.iter().flatten().filter_map(amount).collect()
    }
}

impl TaintObject {
    fn facts(&self) -> Taint {
        Taint {
            key: self.key.as_str().into(),
            value: self.value.as_str().into(),
            effect: effect(&self.effect).unwrap_or(TaintEffect::Other),
        }
    }
}

pub(super) fn effect(text: &str) -> Option<TaintEffect> {
    match text {
        "NoSchedule" => Some(TaintEffect::NoSchedule),
        "NoExecute" => Some(TaintEffect::NoExecute),
        "PreferNoSchedule" => Some(TaintEffect::PreferNoSchedule),
        _ => None,
    }
}

fn is_more_than_none(amount: &Value) -> bool {
    quantity(amount).is_some_and(|amount| amount.nanos() > 0)
}

fn quantity(amount: &Value) -> Option<Quantity> {
    let text = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
    text.parse().ok()
}

/// The journal of a sequence on a node: for each group, times in milliseconds since 1970.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Content {
    groups: BTreeMap<String, Times>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    begun_again: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Times {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    opened_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    completed_at: Option<i64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    finished: bool,
}

/// The annotation that holds the journal of a sequence on a node.
pub fn journal_key(sequence: Uid) -> String {
    format!("{}{sequence}", names::JOURNAL_PREFIX)
}

/// The value of that annotation.
pub fn journal_text(journal: &Journal) -> String {
    let millis = |time: Option<Timestamp>| time.map(Timestamp::as_millisecond);
    let times = |times: &RecordedGroup| Times {
        opened_at: millis(times.opened_at),
        completed_at: millis(times.completed_at),
        finished: times.finished,
    };
    let groups = journal.groups.iter().map(|(id, group)| (id.to_string(), times(group))).collect();
    let begun_again = journal.begun_again.as_deref().map(str::to_owned);
    serde_json::to_string(&Content { groups, begun_again }).expect("plain data is always JSON")
}

/// A journal that cannot be parsed is ignored: the node stays blocked until the sequence has decided about it again.
fn journal(key: &str, text: &str) -> Option<(Uid, Journal)> {
    let sequence = Uid::new(key.strip_prefix(names::JOURNAL_PREFIX)?);
    let content: Content = serde_json::from_str(text).ok()?;
    let time = |millis: Option<i64>| millis.and_then(|millis| Timestamp::from_millisecond(millis).ok());
    let groups = content.groups.into_iter().map(|(id, times)| {
        let (opened_at, completed_at) = (time(times.opened_at), time(times.completed_at));
        let finished = times.finished;
        (
            GroupId::from_text(&id),
            RecordedGroup { opened_at, completed_at, finished, ..RecordedGroup::default() },
        )
    });
    let (groups, begun_again) = (groups.collect(), content.begun_again.map(Into::into));
    Some((sequence, Journal { groups, begun_again }))
}

/// The CSI drivers of a node.
#[derive(Clone, Debug, Deserialize)]
pub struct CsiNodeObject {
    pub metadata: Meta,
    #[serde(default)]
    spec: CsiNodeSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct CsiNodeSpec {
    drivers: Option<Vec<Driver>>,
}

#[derive(Clone, Debug, Deserialize)]
struct Driver {
    name: String,
}

impl CsiNodeObject {
    pub fn facts(&self) -> Drivers {
        let drivers = self.spec.drivers.iter().flatten();
        let owners = self.metadata.owner_references.iter().flatten();
        Drivers {
            node: self.metadata.name.as_str().into(),
            of: owners.filter(|owner| owner.kind == "Node").map(|owner| Uid::new(&owner.uid)).next(),
            version: self.metadata.version(),
            names: drivers.map(|driver| driver.name.as_str().into()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn drivers_are_those_of_the_node_that_owns_the_object() {
        let mut drivers = json!({
            "metadata": { "name": "n", "uid": "c", "resourceVersion": "7" },
            "spec": { "drivers": [{ "name": "csi.example.com", "nodeID": "n" }] },
        });
        let facts = |object: &serde_json::Value| {
            serde_json::from_value::<CsiNodeObject>(object.clone()).expect("a CSINode").facts()
        };
        assert_eq!(facts(&drivers).of, None);
        drivers["metadata"]["ownerReferences"] =
            json!([{ "apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u" }]);
        let facts = facts(&drivers);
        assert_eq!((facts.of, facts.names.len()), (Some(Uid::new("u")), 1));
    }

    #[test]
    fn what_is_written_down_is_read_back() {
        let time = |millis| Timestamp::from_millisecond(millis).ok();
        let (opened_at, completed_at) = (time(1_767_225_600_123), time(1_767_225_601_000));
        let both = RecordedGroup { opened_at, completed_at, finished: true, ..RecordedGroup::default() };
        let open = RecordedGroup { completed_at: None, finished: false, ..both };
        let groups = [(GroupId::named("CSI Driver"), both), (GroupId::from_text("#0123"), open)];
        let journal = Journal { groups: groups.into_iter().collect(), begun_again: Some("t1".into()) };
        let uid = Uid::new("0b5c9d2e-0000-4000-8000-000000000001");
        let node = json!({
            "metadata": {
                "name": "n", "uid": "u", "resourceVersion": "7",
                "annotations": { journal_key(uid): journal_text(&journal), "podsequence.example.com/journal.x": "?" },
            },
            "spec": { "taints": [{ "key": "k", "effect": "NoSchedule" }] },
            "status": {
                "allocatable": { "nvidia.com/gpu": "2", "pods": 110, "x": "0" },
                "conditions": [{ "type": "Ready", "status": "True" }, { "type": "DiskPressure", "status": "False" }],
            },
        });
        let facts = serde_json::from_value::<NodeObject>(node).expect("a node").facts();
        assert_eq!(facts.journals, [(uid, journal)].into_iter().collect());
        let resources: Vec<&str> = facts.resources.iter().map(|name| &**name).collect();
        assert_eq!(resources, ["nvidia.com/gpu", "pods"]);
        assert_eq!(facts.conditions.iter().map(|name| &**name).collect::<Vec<_>>(), ["Ready"]);
        assert_eq!(facts.taints.len(), 1);
    }
}
