use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC207",
    severity: Severity::Warning,
    title: "scaling down deletes data",
    why: "With `whenScaled: Delete` the claim of a pod goes when its ordinal does. Scaling to 0 for an hour, as `rollcall stop` or \
          maintenance does, deletes everything. `rollcall stop` refuses such a StatefulSet.",
    hint: "persistentVolumeClaimRetentionPolicy:\n  whenScaled: Retain",
    about_absence: false,
    check,
};

fn check(all: &Scene, found: &mut Findings) {
    for set in all.of(Kind::StatefulSet) {
        let policy = set.field("spec.persistentVolumeClaimRetentionPolicy.whenScaled");
        if policy.text() == "Delete" && !set.field("spec.volumeClaimTemplates").items().is_empty() {
            found.at(&policy, format!("scaling StatefulSet {} down deletes the data of its pods", set.name));
        }
    }
}
