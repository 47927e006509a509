use crate::commands::lint::rules::prelude::*;
use crate::commands::lint::view::claims::ordinal;
use rollcall_core::sequence::spec::Members;

pub const RULE: Rule = Rule {
    code: "RC105",
    severity: Severity::Error,
    title: "pods listed in an order that the StatefulSet cannot follow",
    why: "With `podManagementPolicy: OrderedReady` (the default) a StatefulSet creates x-1 only after x-0 is ready. If a \
          group lists x-1, and only a later group releases x-0, the group waits for a pod that cannot exist yet: a deadlock.",
    hint: "podGroups:\n- pods: [db-0]\n- pods: [db-1]\n# or, in the StatefulSet:\npodManagementPolicy: Parallel",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    let claims = all.claims();
    for (sequence, position, template) in claims.each() {
        let set = template.object;
        let parallel = set.field("spec.podManagementPolicy").text() == "Parallel";
        if template.kind != Kind::StatefulSet || parallel || !template.has_gate(&sequence.spec.gate) {
            continue;
        }
        let Members::Names(_) = sequence.spec.groups[position].members else { continue };
        for name in sequence.group_field(position).get("pods").items() {
            let Some(number) = ordinal(set, name.text()) else { continue };
            let first = set.field("spec.ordinals.start").number().unwrap_or(0);
            let earlier = (first..number).find_map(|earlier| {
                let earlier = format!("{}-{earlier}", set.name);
                why_not_yet(sequence, position, &earlier).map(|why| (earlier, why))
            });
            if let Some((earlier, why)) = earlier {
                found.at(
                    &name,
                    format!("{} is created only after {earlier} is ready, but {why}", name.text()),
                );
            }
        }
    }
}

/// Returns why another pod of the StatefulSet is not released before this group completes, or `None` if it is.
fn why_not_yet(sequence: &Sequence, position: usize, pod: &str) -> Option<String> {
    let groups = sequence.spec.groups.iter();
    let lists = |members: &Members| match members {
        Members::Names(names) => names.contains(pod),
        // Such a group selects all pods of the StatefulSet; RC109 reports the overlap.
        Members::Selector(_) | Members::Workload(_) => true,
        Members::None => false,
    };
    match groups.enumerate().find(|(_, group)| lists(&group.members)) {
        None => Some("no group lists that pod".to_owned()),
        Some((at, group)) => {
            let waits = sequence.waits_for(at).contains(&position);
            waits.then(|| format!("that pod belongs to group {:?}, which waits for this group", group.title))
        }
    }
}
