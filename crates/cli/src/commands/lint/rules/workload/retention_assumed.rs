use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC206",
    severity: Severity::Note,
    title: "claim templates without a retention policy",
    why: "Claims are kept when the StatefulSet is scaled down, and also when it is deleted: often it is said that deletion takes them \
          away, and it does not. Kept volumes cost money and come back with old data. Writing the policy down says which was meant.",
    hint: "spec:\n  persistentVolumeClaimRetentionPolicy:\n    whenScaled: Retain\n    whenDeleted: Retain",
    about_absence: true,
    check,
};

fn check(all: &Scene, found: &mut Findings) {
    for set in all.of(Kind::StatefulSet) {
        let claims = set.field("spec.volumeClaimTemplates");
        if !claims.items().is_empty() && set.field("spec.persistentVolumeClaimRetentionPolicy").is_missing() {
            found.at_key(
                &claims,
                format!(
                    "the claims of StatefulSet {} stay, also when it is deleted; say whether that is meant",
                    set.name
                ),
            );
        }
    }
}
