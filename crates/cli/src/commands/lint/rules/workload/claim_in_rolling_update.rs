use super::shared_claim::claims_of_one_node;
use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC213",
    severity: Severity::Note,
    title: "a rolling update with a ReadWriteOnce claim",
    why: "A rolling update starts the new pod before it stops the old one. On another node the new pod waits for the volume. \
          The old pod is kept until the new one is ready, so the update never finishes. `Recreate` stops the old pod first.",
    hint: "spec:\n  strategy: {type: Recreate}",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for template in templates_of(all, Kind::Deployment) {
        let strategy = template.object.field("spec.strategy");
        let no_surge = strategy.down("rollingUpdate.maxSurge").number() == Some(0);
        if strategy.get("type").text() == "Recreate" || no_surge || template.size() != Some(1) {
            continue;
        }
        if let Some((claim, place)) = claims_of_one_node(all, &template).first() {
            let whose = template.object.full_name();
            found.at(place, format!("in a rolling update the new pod of {whose} needs claim {claim} while the old pod still uses it"));
        }
    }
}
