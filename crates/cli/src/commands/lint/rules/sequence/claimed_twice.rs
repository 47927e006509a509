use crate::commands::lint::rules::prelude::*;
use rollcall_core::sequence::spec::Members;

pub const RULE: Rule = Rule {
    code: "RC109",
    severity: Severity::Warning,
    title: "two groups that select the same pods",
    why: "A pod that two groups of one sequence select belongs to the earlier group (event `DuplicateMember`). The later \
          group does not count it and may never complete.",
    hint: "# a label that only one group selects\npodSelector: {matchLabels: {app: web, tier: frontend}}",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    let claims = all.claims();
    for (number, sequence) in claims.sequences.iter().enumerate() {
        for (place, template) in claims.templates.iter().enumerate() {
            let groups = claims.groups_of(number, place);
            let Some((first, later)) = groups.split_first() else { continue };
            for again in later.iter().filter(|again| overlap(sequence, *first, **again)) {
                let title = |position: usize| &sequence.spec.groups[position].title;
                let whose = template.object.full_name();
                found.at_key(
                    &members(&sequence.group_field(*again)),
                    format!(
                        "{whose} already belongs to group {:?}; group {:?} does not count it",
                        title(*first),
                        title(*again)
                    ),
                );
            }
        }
    }
}

/// Whether two groups share pods. Two lists of names can share a StatefulSet without sharing a pod.
fn overlap(sequence: &Sequence, one: usize, other: usize) -> bool {
    match (&sequence.spec.groups[one].members, &sequence.spec.groups[other].members) {
        (Members::Names(one), Members::Names(other)) => one.iter().any(|name| other.contains(name)),
        _ => true,
    }
}

fn members<'a>(group: &Field<'a>) -> Field<'a> {
    let fields = ["podSelector", "workloadRef", "pods"].map(|name| group.get(name));
    fields.into_iter().find(|field| !field.is_missing()).unwrap_or_else(|| group.clone())
}
