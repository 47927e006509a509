use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC206",
    severity: Severity::Note,
    title: "volumeClaimTemplates without a retention policy",
    why: "By default claims are kept when the StatefulSet is scaled down, and also when it is deleted, although deletion is \
          often expected to remove them. Kept volumes cost money and reappear with old data. An explicit policy states the \
          intent.",
    hint: "spec:\n  persistentVolumeClaimRetentionPolicy:\n    whenScaled: Retain\n    whenDeleted: Retain",
    about_absence: true,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for set in all.of_kind(Kind::StatefulSet) {
        let claims = set.field("spec.volumeClaimTemplates");
        if !claims.items().is_empty() && set.field("spec.persistentVolumeClaimRetentionPolicy").is_missing() {
            found.at_key(
                &claims,
                format!(
                    "the claims of StatefulSet {} are kept even after its deletion; set an explicit retention policy",
                    set.name
                ),
            );
        }
    }
}
