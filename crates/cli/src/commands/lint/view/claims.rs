//! Membership: which groups select which templates, decided by the core.

use super::pods::{PodTemplate, templates};
use crate::commands::lint::field::Field;
use crate::commands::lint::manifests::{Manifests, Object};
use rollcall_api::names;
use rollcall_api::sequence::{parse_spec, spec_facts};
use rollcall_core::facts::OwnerKind;
use rollcall_core::labels::Labels;
use rollcall_core::sequence::membership::{Asking, MemberCandidate};
use rollcall_core::sequence::spec::{Spec, WorkloadRef};
use rollcall_sim::kinds::Kind;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A sequence with a valid spec. RC101 reports invalid ones.
pub struct Sequence<'a> {
    pub object: &'a Object,
    pub spec: Spec,
}

impl<'a> Sequence<'a> {
    pub fn group_field(&self, position: usize) -> Field<'a> {
        self.object.root().along(&format!("spec.podGroups[{position}]"))
    }

    /// All groups that a group waits for, directly or indirectly.
    pub fn waits_for(&self, position: usize) -> BTreeSet<usize> {
        let mut all = BTreeSet::new();
        let mut next = self.spec.groups[position].after.clone();
        while let Some(earlier) = next.pop() {
            if all.insert(earlier) {
                next.extend(&self.spec.groups[earlier].after);
            }
        }
        all
    }

    fn includes(&self, group: usize, template: &PodTemplate) -> bool {
        let Sequence { object, spec } = self;
        Asking { namespace: &object.namespace, name: &object.name, spec }.includes(group, template)
    }
}

impl MemberCandidate for PodTemplate<'_> {
    fn namespace(&self) -> &str {
        &self.object.namespace
    }

    fn labels(&self) -> &Labels {
        &self.labels
    }

    fn is_listed(&self, names: &BTreeSet<Arc<str>>) -> bool {
        names.iter().any(|name| can_be_named(self, name))
    }

    fn is_made_by(&self, workload: &WorkloadRef) -> bool {
        owner_kind(self.kind) == Some(workload.kind) && *self.object.name == *workload.name
    }
}

/// Whether a pod of this template can have this name.
pub fn can_be_named(template: &PodTemplate, name: &str) -> bool {
    match template.kind {
        Kind::Pod => template.object.name == name,
        Kind::StatefulSet => ordinal(template.object, name).is_some(),
        _ => false,
    }
}

/// The ordinal of the pod with this name, if the StatefulSet has such a pod.
pub fn ordinal(stateful_set: &Object, pod: &str) -> Option<i64> {
    let digits = pod.strip_prefix(&stateful_set.name)?.strip_prefix('-')?;
    let plain = digits == "0" || !digits.starts_with('0');
    let ordinal: i64 = digits.parse().ok().filter(|_| plain && !digits.starts_with(['+', '-']))?;
    let first = stateful_set.field("spec.ordinals.start").number().unwrap_or(0);
    let size = stateful_set.field("spec.replicas").number().unwrap_or(1);
    (first..first + size).contains(&ordinal).then_some(ordinal)
}

fn owner_kind(kind: Kind) -> Option<OwnerKind> {
    OwnerKind::ALL.into_iter().find(|owner| owner.as_str() == kind.info().name)
}

/// Sequences, templates and their membership, computed once for all rules.
pub struct Claims<'a> {
    pub sequences: Vec<Sequence<'a>>,
    pub templates: Vec<PodTemplate<'a>>,
    /// Memberships as sorted triples of indices: sequence, group, template.
    pub claims: Vec<(usize, usize, usize)>,
    /// Indices of the templates of each group, by sequence and group.
    members: BTreeMap<(usize, usize), Vec<usize>>,
}

impl<'a> Claims<'a> {
    pub fn from_manifests(manifests: &'a Manifests) -> Claims<'a> {
        let sequence = |object: &'a Object| {
            let spec = parse_spec(&object.value["spec"]).ok()?;
            Some(Sequence { object, spec: spec_facts(&spec, &object.namespace).ok()? })
        };
        let sequences: Vec<Sequence> = manifests.of_kind(Kind::PodSequence).filter_map(sequence).collect();
        // Without sequences no rule needs the templates.
        let templates = if sequences.is_empty() { Vec::new() } else { templates(manifests) };
        let mut claims = Vec::new();
        for (number, sequence) in sequences.iter().enumerate() {
            for position in 0..sequence.spec.groups.len() {
                for (place, template) in templates.iter().enumerate() {
                    if sequence.includes(position, template) {
                        claims.push((number, position, place));
                    }
                }
            }
        }
        let mut members: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
        for (number, position, place) in &claims {
            members.entry((*number, *position)).or_default().push(*place);
        }
        Claims { sequences, templates, claims, members }
    }

    /// Templates of a group.
    pub fn members(&self, sequence: usize, group: usize) -> impl Iterator<Item = &PodTemplate<'a>> {
        self.places(sequence, group).iter().map(|place| &self.templates[*place])
    }

    /// Indices of the templates of a group.
    pub fn places(&self, sequence: usize, group: usize) -> &[usize] {
        self.members.get(&(sequence, group)).map(Vec::as_slice).unwrap_or_default()
    }

    /// All memberships: sequence, group and template.
    pub fn each(&self) -> impl Iterator<Item = (&Sequence<'a>, usize, &PodTemplate<'a>)> {
        self.claims
            .iter()
            .map(|(number, position, place)| (&self.sequences[*number], *position, &self.templates[*place]))
    }

    /// Groups of a sequence that select a template.
    pub fn groups_of(&self, sequence: usize, template: usize) -> Vec<usize> {
        let of = |claim: &&(usize, usize, usize)| claim.0 == sequence && claim.2 == template;
        self.claims.iter().filter(of).map(|claim| claim.1).collect()
    }

    /// Whether the manifests define pods or templates in a namespace.
    pub fn has_pods_in(&self, namespace: &str) -> bool {
        self.templates.iter().any(|template| template.object.namespace == namespace)
    }
}

/// Whether the webhook adds gates in a namespace, by the label of the Namespace if it is among the manifests.
pub fn gets_gate_at_admission(manifests: &Manifests, namespace: &str) -> bool {
    let object = manifests.named(Kind::Namespace, "", namespace);
    let labels = object.map(|object| object.field("metadata.labels").get(names::ENABLED_LABEL));
    labels.is_some_and(|label| label.text() == names::ENABLED_VALUE)
}
