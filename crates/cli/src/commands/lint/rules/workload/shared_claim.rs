use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC212",
    severity: Severity::Warning,
    title: "several pods of a Deployment on one ReadWriteOnce claim",
    why: "A ReadWriteOnce volume is attached to one node at a time. Pods on other nodes stay in `ContainerCreating` (`Multi-Attach \
          error`); pods on the same node write into each other's files. A StatefulSet gives each pod a claim of its own.",
    hint: "kind: StatefulSet\nspec:\n  volumeClaimTemplates:\n  - metadata: {name: data}\n    spec:\n      accessModes: \
           [ReadWriteOnce]\n      resources: {requests: {storage: 10Gi}}",
    about_absence: false,
    check,
};

fn check(all: &Scene, found: &mut Findings) {
    for template in templates_of(all, Kind::Deployment) {
        let size = template.size().unwrap_or(1);
        for (claim, place) in claims_of_one_node(all, &template) {
            if size > 1 {
                found.at(
                    &place,
                    format!(
                        "{size} pods of {} want the claim {claim}, which one node has at a time",
                        template.object.full_name()
                    ),
                );
            }
        }
    }
}

/// The claims of a template that only one node can have, and where they are named.
pub fn claims_of_one_node<'a>(all: &Manifests, template: &Template<'a>) -> Vec<(&'a str, Field<'a>)> {
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
