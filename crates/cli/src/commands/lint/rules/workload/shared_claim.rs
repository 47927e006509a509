use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC212",
    severity: Severity::Warning,
    title: "a Deployment with several pods on one ReadWriteOnce claim",
    why: "A ReadWriteOnce volume is attached to one node at a time. Pods on other nodes stay in `ContainerCreating` \
          (`Multi-Attach error`), and pods on the same node overwrite each other's files. A StatefulSet gives each pod its \
          own claim.",
    hint: "kind: StatefulSet\nspec:\n  volumeClaimTemplates:\n  - metadata: {name: data}\n    spec:\n      accessModes: \
           [ReadWriteOnce]\n      resources: {requests: {storage: 10Gi}}",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for template in templates_of(all, Kind::Deployment) {
        let size = template.size().unwrap_or(1);
        for (claim, place) in claims_of_one_node(all, &template) {
            if size > 1 {
                found.at(
                    &place,
                    format!(
                        "{size} pods of {} share claim {claim}, which only one node can attach at a time",
                        template.object.full_name()
                    ),
                );
            }
        }
    }
}

/// Claims of a template that only one node can attach at a time, each with the field that names it.
pub fn claims_of_one_node<'a>(all: &Manifests, template: &PodTemplate<'a>) -> Vec<(&'a str, Field<'a>)> {
    let volumes = template.spec.get("volumes").items();
    let named = volumes.iter().map(|volume| volume.down("persistentVolumeClaim.claimName"));
    let exclusive = |claim: &str| {
        let object = all.named(Kind::PersistentVolumeClaim, &template.object.namespace, claim)?;
        let modes = object.field("spec.accessModes").items();
        let one = |mode: &Field| ["ReadWriteOnce", "ReadWriteOncePod"].contains(&mode.text());
        Some(!modes.is_empty() && modes.iter().all(one))
    };
    named.filter(|claim| exclusive(claim.text()) == Some(true)).map(|claim| (claim.text(), claim)).collect()
}
