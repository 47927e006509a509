//! Sequences in the notation of the cases: the fields of the API, slightly shortened.

use crate::support::{
    build::{self, GATE, HOME},
    world::World,
};
use rollcall_core::{
    facts::OwnerKind,
    index::Object,
    sequence::{
        Sequence, Spec,
        spec::{
            DeletionPolicy, Enforcement, Group, InvalidField, Members, MinReady, OnTimeout, Scope, Until,
            WorkloadRef,
        },
    },
};
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Given {
    /// The namespace of the sequence.
    home: String,
    /// The namespace of its pods.
    namespace: Option<String>,
    gate: String,
    continuous: bool,
    suspend: bool,
    node_scope: bool,
    hold: bool,
    /// `field: problem`
    invalid: Option<String>,
    /// The annotation `open-groups`.
    open: Vec<String>,
    groups: Vec<GivenGroup>,
}

impl Default for Given {
    fn default() -> Self {
        Given {
            home: HOME.into(),
            namespace: None,
            gate: GATE.into(),
            continuous: false,
            suspend: false,
            node_scope: false,
            hold: false,
            invalid: None,
            open: Vec::new(),
            groups: Vec::new(),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct GivenGroup {
    name: Option<String>,
    pods: Option<String>,
    select: Option<String>,
    /// `KIND/NAME`
    workload: Option<String>,
    optional: bool,
    expected: Option<u32>,
    min_ready: Option<String>,
    until: Option<String>,
    wait: Option<u64>,
    timeout: Option<u64>,
    on_timeout: Option<String>,
    after: Option<Vec<String>>,
    immediately: bool,
    max_starts: Option<u32>,
}

impl Given {
    /// Creates or updates the sequence.
    pub fn apply(&self, name: &str, world: &mut World) -> Result<(), String> {
        let mut sequence = build::sequence(&self.home, name, self.spec()?);
        if let Some(invalid) = &self.invalid {
            let (field, problem) = invalid.split_once(": ").ok_or("invalid: needs `field: problem`")?;
            sequence.spec = Err(InvalidField { field: field.into(), problem: problem.into() });
        }
        if let Some(known) = world.truth.sequences.get(&sequence.uid) {
            let Sequence { generation, recorded, begin_again, .. } = known.clone();
            sequence = Sequence { generation: generation + 1, recorded, begin_again, ..sequence };
        }
        sequence.opened_by_hand = self.open.iter().map(|title| Arc::from(title.as_str())).collect();
        world.apply(Object::Sequence(sequence));
        Ok(())
    }

    fn spec(&self) -> Result<Spec, String> {
        let mut groups: Vec<Group> = Vec::new();
        for (position, given) in self.groups.iter().enumerate() {
            let group = given.group(position, &groups)?;
            groups.push(group);
        }
        Ok(Spec {
            pod_namespace: self.namespace.as_ref().unwrap_or(&self.home).as_str().into(),
            gate: self.gate.as_str().into(),
            scope: if self.node_scope { Scope::Node } else { Scope::Cluster },
            enforcement: if self.continuous { Enforcement::Continuous } else { Enforcement::Bootstrap },
            suspend: self.suspend,
            guard: Default::default(),
            deletion_policy: if self.hold { DeletionPolicy::Hold } else { DeletionPolicy::Release },
            groups,
        })
    }
}

impl GivenGroup {
    fn group(&self, position: usize, earlier: &[Group]) -> Result<Group, String> {
        let members = match (&self.pods, &self.select, &self.workload) {
            (Some(pods), None, None) => Members::Names(pods.split_whitespace().map(Into::into).collect()),
            (None, Some(selector), None) => Members::Selector(build::selector(selector)),
            (None, None, Some(workload)) => {
                let (kind, name) = workload.split_once('/').ok_or("KIND/NAME")?;
                let kind = OwnerKind::of_word(kind).ok_or(format!("{kind} is not a workload"))?;
                Members::Workload(WorkloadRef { kind, name: name.into() })
            }
            _ => return Err("a group needs pods, select or workload".into()),
        };
        let named = |name: &String| {
            let position = earlier.iter().position(|group| *group.title == **name);
            position.ok_or(format!("no earlier group {name}"))
        };
        let mut group = build::group(position, self.name.as_deref(), members);
        if let Some(after) = &self.after {
            group.after = after.iter().map(named).collect::<Result<_, _>>()?;
        }
        if self.immediately {
            group.after.clear();
        }
        group.expected = self.expected;
        group.optional = self.optional;
        group.min_ready = match self.min_ready.as_deref().map(|text| (text.strip_suffix('%'), text)) {
            None => MinReady::Percent(100),
            Some((Some(percent), _)) => MinReady::Percent(percent.parse().map_err(|_| "minReady")?),
            Some((None, count)) => MinReady::Count(count.parse().map_err(|_| "minReady")?),
        };
        group.until = match self.until.as_deref() {
            None | Some("Auto") => Until::Auto,
            Some("Ready") => Until::Ready,
            Some("Started") => Until::Started,
            Some("Succeeded") => Until::Succeeded,
            Some(other) => return Err(format!("until: {other}")),
        };
        group.wait = Duration::from_secs(self.wait.unwrap_or_default());
        group.timeout = self.timeout.map(Duration::from_secs);
        group.on_timeout = match self.on_timeout.as_deref() {
            None | Some("Fail") => OnTimeout::Fail,
            Some("Continue") => OnTimeout::Continue,
            Some(other) => return Err(format!("onTimeout: {other}")),
        };
        group.max_concurrent_starts = self.max_starts;
        Ok(group)
    }
}
