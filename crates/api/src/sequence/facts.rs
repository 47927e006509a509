//! `PodSequence` objects → facts of the core.

use super::{
    DeletionPolicy, Enforcement, GroupMembers, GroupState, MinReady, NodeGuard, NodeReady, OnTimeout, Phase,
    PodGroup, PodSequenceSpec, PodSequenceStatus, Scope, Start, Until, parse_spec,
};
use crate::{names, selector::selector_facts, time::MilliTime, validate::InvalidSpec, watch::Meta};
use rollcall_core::sequence::{
    Sequence,
    spec::{self as core, GroupId, InvalidField, Members, Recorded, RecordedGroup},
    status,
};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A `PodSequence` as received. Any spec can be decoded, so that one invalid object does not hide the others.
#[derive(Clone, Debug, Deserialize)]
pub struct SequenceObject {
    pub metadata: Meta,
    #[serde(default)]
    spec: Value,
    #[serde(default)]
    status: Value,
}

/// The spec of a sequence at one generation.
#[derive(Clone, Debug)]
pub struct KnownSpec {
    pub generation: i64,
    pub spec: Result<Arc<core::Spec>, InvalidField>,
}

impl From<&Sequence> for KnownSpec {
    fn from(sequence: &Sequence) -> KnownSpec {
        KnownSpec { generation: sequence.generation, spec: sequence.spec.clone() }
    }
}

impl SequenceObject {
    pub fn facts(&self) -> Sequence {
        self.facts_knowing(None)
    }

    /// The facts, given the spec that is already known: a spec of the same generation has not changed and is not parsed
    /// again. Most updates of a sequence change only its status.
    pub fn facts_knowing(&self, known: Option<&KnownSpec>) -> Sequence {
        let meta = &self.metadata;
        let namespace: Arc<str> = meta.namespace.as_str().into();
        let same = known.filter(|known| known.generation > 0 && Some(known.generation) == meta.generation);
        let read = || parse_spec(&self.spec).map_err(invalid).and_then(|spec| spec_facts(&spec, &namespace));
        Sequence {
            uid: meta.uid(),
            name: meta.name.as_str().into(),
            version: meta.version(),
            generation: meta.generation.unwrap_or_default(),
            created: self.metadata.created(),
            spec: same.map_or_else(|| read().map(Arc::new), |known| known.spec.clone()),
            opened_by_hand: meta.annotation(names::OPEN_GROUPS).map(open_groups).unwrap_or_default(),
            begin_again: meta.annotation(names::BEGIN_AGAIN).map(start),
            recorded: self.status().map(|status| recorded(&status)).unwrap_or_default(),
            namespace,
        }
    }

    /// The status, if it has the expected form.
    pub fn status(&self) -> Option<PodSequenceStatus> {
        PodSequenceStatus::deserialize(&self.status).ok()
    }
}

/// The groups opened by hand: names separated by commas, or a JSON list for names that contain commas.
fn open_groups(annotation: &str) -> BTreeSet<Arc<str>> {
    let list = serde_json::from_str::<Vec<String>>(annotation)
        .unwrap_or_else(|_| annotation.split(',').map(|name| name.trim().to_owned()).collect());
    list.iter().filter(|name| !name.is_empty()).map(|name| name.as_str().into()).collect()
}

/// Maximum length of the annotation `begin-again`, in characters. Its value is copied into the status, and onto each
/// node in Node scope. A timestamp needs 30 characters.
const START_LENGTH: usize = 64;

fn start(annotation: &str) -> Arc<str> {
    annotation.chars().take(START_LENGTH).collect::<String>().into()
}

fn invalid(error: InvalidSpec) -> InvalidField {
    let field = error.field.clone();
    let text = error.to_string();
    // `InvalidField` prints its field by itself.
    let problem = text.strip_prefix(&format!("{field}: ")).map(str::to_owned);
    match problem {
        Some(problem) => InvalidField { field, problem },
        None => match text.split_once(": ") {
            Some((field, problem)) => InvalidField { field: field.into(), problem: problem.into() },
            None => InvalidField { field, problem: text },
        },
    }
}

/// Converts a spec, resolving defaults and references between groups.
pub fn spec_facts(spec: &PodSequenceSpec, namespace: &str) -> Result<core::Spec, InvalidField> {
    let PodSequenceSpec {
        pod_groups,
        scope,
        namespace: target,
        scheduling_gate_name,
        enforcement,
        suspend,
        node_guard,
        deletion_policy,
    } = spec;
    let mut groups: Vec<core::Group> = Vec::with_capacity(pod_groups.len());
    let mut positions = BTreeMap::new();
    for (position, group) in pod_groups.iter().enumerate() {
        let resolved = group_facts(group, position, &positions, &groups)?;
        positions.insert(resolved.title.clone(), position);
        groups.push(resolved);
    }
    Ok(core::Spec {
        pod_namespace: target.as_deref().unwrap_or(namespace).into(),
        gate: scheduling_gate_name.as_str().into(),
        scope: match scope {
            Scope::Cluster => core::Scope::Cluster,
            Scope::Node => core::Scope::Node,
        },
        enforcement: match enforcement {
            Enforcement::Bootstrap => core::Enforcement::Bootstrap,
            Enforcement::Continuous => core::Enforcement::Continuous,
        },
        suspend: *suspend,
        deletion_policy: match deletion_policy {
            DeletionPolicy::Release => core::DeletionPolicy::Release,
            DeletionPolicy::Hold => core::DeletionPolicy::Hold,
        },
        guard: match node_guard {
            NodeGuard::Labels => core::NodeGuard::Labels,
            NodeGuard::Taints => core::NodeGuard::Taints,
        },
        groups,
    })
}

fn group_facts(
    group: &PodGroup,
    position: usize,
    positions: &BTreeMap<Arc<str>, usize>,
    earlier: &[core::Group],
) -> Result<core::Group, InvalidField> {
    let field = |name: &str| format!("spec.podGroups[{position}].{name}");
    let members = match group.members() {
        Some(GroupMembers::Pods(names)) => {
            Members::Names(names.iter().map(|name| name.as_str().into()).collect())
        }
        Some(GroupMembers::Selector(selector)) => Members::Selector(selector_facts(selector)),
        Some(GroupMembers::Workload(workload)) => Members::Workload(core::WorkloadRef {
            kind: workload.kind.owner(),
            name: workload.name.as_str().into(),
        }),
        Some(GroupMembers::None) => Members::None,
        None => {
            let problem = "exactly one of pods, podSelector and workloadRef must be given".into();
            return Err(InvalidField { field: format!("spec.podGroups[{position}]"), problem });
        }
    };
    let mut after = Vec::new();
    for name in &group.depends_on {
        let known = positions.get(name.as_str()).ok_or_else(|| {
            let known: Vec<&str> = positions.keys().map(|name| &**name).collect();
            let known = known.join(", ");
            let problem = format!("\"{name}\" is not an earlier group of this sequence ({known})");
            InvalidField { field: field("dependsOn"), problem }
        })?;
        after.push(*known);
    }
    if group.depends_on.is_empty() && group.start == Start::AfterDependencies {
        after.extend(position.checked_sub(1));
    }
    let node_ready = group.node_ready.as_ref().and_then(node_ready);
    Ok(core::Group {
        id: group_id(group, core::unnamed_id(&members, node_ready.as_ref()), earlier),
        title: group.title(position).into(),
        members,
        optional: group.optional.unwrap_or_default(),
        expected: group.expected,
        min_ready: match group.min_ready.unwrap_or_default() {
            MinReady::Count(count) => core::MinReady::Count(count),
            MinReady::Percent(percent) => core::MinReady::Percent(percent),
        },
        until: match group.until {
            Until::Auto => core::Until::Auto,
            Until::Ready => core::Until::Ready,
            Until::Started => core::Until::Started,
            Until::Succeeded => core::Until::Succeeded,
        },
        wait: group.wait_duration.unwrap_or_default().get(),
        timeout: group.timeout.map(|timeout| timeout.get()),
        on_timeout: match group.on_timeout {
            OnTimeout::Fail => core::OnTimeout::Fail,
            OnTimeout::Continue => core::OnTimeout::Continue,
        },
        after,
        max_concurrent_starts: group.max_concurrent_starts,
        node_selector: group.node_selector.iter().collect(),
        node_ready,
    })
}

/// The property that a node must have. The definition makes sure that exactly one field is set.
fn node_ready(wanted: &NodeReady) -> Option<core::NodeReady> {
    let driver = wanted.csi_driver.as_deref().map(|driver| core::NodeReady::CsiDriver(driver.into()));
    let resource = wanted.allocatable.as_deref().map(|name| core::NodeReady::Allocatable(name.into()));
    let condition = wanted.condition.as_deref().map(|kind| core::NodeReady::Condition(kind.into()));
    driver.or(resource).or(condition)
}

/// The id of a group: its name, or else `id`, made unique among the earlier groups.
fn group_id(group: &PodGroup, id: GroupId, earlier: &[core::Group]) -> GroupId {
    match &group.name {
        Some(name) => GroupId::named(name),
        None => {
            let again = earlier.iter().filter(|other| other.id.as_str().starts_with(id.as_str())).count();
            if again == 0 { id } else { id.again(again + 1) }
        }
    }
}

/// The times and conditions that the status has recorded.
fn recorded(status: &PodSequenceStatus) -> Recorded {
    let condition = |kind: &str| {
        status.conditions.iter().find(|condition| condition.type_ == kind && condition.status == "True")
    };
    let groups = status.groups.iter().map(|group| {
        let id = group.id.as_deref().map_or_else(|| GroupId::named(&group.name), GroupId::from_text);
        let times = RecordedGroup {
            opened_at: group.opened_at.map(MilliTime::get),
            completed_at: group.completed_at.map(MilliTime::get),
            timed_out: group.state == GroupState::TimedOut,
            finished: group.finished,
            opened_ahead: None,
            completed_ahead: None,
        };
        (id, times)
    });
    Recorded {
        phase: status.phase.map(|phase| match phase {
            Phase::Pending => status::Phase::Pending,
            Phase::InProgress => status::Phase::InProgress,
            Phase::Completed => status::Phase::Completed,
            Phase::Failed => status::Phase::Failed,
        }),
        groups: groups.collect(),
        resumed_at: status.resumed_at.map(MilliTime::get),
        begun_again: status.begun_again.as_deref().map(Into::into),
        suspended: condition("Suspended").is_some(),
        out_of_order: condition("OutOfOrder").is_some(),
        duplicates: false,
        stalled: condition("Stalled").map(|condition| condition.reason.as_str().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(generation: i64, pod: &str) -> SequenceObject {
        let metadata = json!({ "name": "s", "namespace": "n", "uid": "u", "generation": generation });
        let object = json!({ "metadata": metadata, "spec": { "podGroups": [{ "pods": [pod] }] } });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn a_spec_is_read_again_only_when_its_generation_is_another() {
        let known = KnownSpec::from(&object(1, "a").facts());
        let members = |object: SequenceObject| {
            object.facts_knowing(Some(&known)).spec.unwrap().groups[0].members.clone()
        };
        assert_eq!(
            members(object(1, "b")),
            Members::Names(["a".into()].into()),
            "the same generation is the same spec"
        );
        assert_eq!(members(object(2, "b")), Members::Names(["b".into()].into()), "an edit is read");
        let never = KnownSpec { generation: 0, ..known.clone() };
        let facts = object(0, "b").facts_knowing(Some(&never));
        assert_eq!(
            facts.spec.unwrap().groups[0].members,
            Members::Names(["b".into()].into()),
            "0 is no generation"
        );
    }
}
