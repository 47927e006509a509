use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC207",
    severity: Severity::Warning,
    title: "a StatefulSet that loses data when it is scaled down",
    why: "With `whenScaled: Delete` the claim of a pod is deleted when its ordinal is scaled away. Scaling to 0 for an hour, \
          as `rollcall stop` or maintenance does, deletes all data. `rollcall stop` refuses to stop such a StatefulSet.",
    hint: "persistentVolumeClaimRetentionPolicy:\n  whenScaled: Retain",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for set in all.of_kind(Kind::StatefulSet) {
        let policy = set.field("spec.persistentVolumeClaimRetentionPolicy.whenScaled");
        if policy.text() == "Delete" && !set.field("spec.volumeClaimTemplates").items().is_empty() {
            found.at(&policy, format!("scaling down StatefulSet {} deletes the data of its pods", set.name));
        }
    }
}
