use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC201",
    severity: Severity::Note,
    title: "a StatefulSet without serviceName",
    why: "The pods get their DNS names (`db-0.db.shop.svc`) from the headless Service that `serviceName` names. Without it \
          they have stable names and volumes, but other pods cannot resolve them individually.",
    hint: "spec:\n  serviceName: db\n---\napiVersion: v1\nkind: Service\nmetadata: {name: db}\nspec:\n  clusterIP: None\n  \
           selector: {app: db}\n  ports: [{port: 5432}]",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for set in all.of_kind(Kind::StatefulSet) {
        if set.field("spec.serviceName").text().is_empty() {
            let name = &set.name;
            found.about(
                set,
                format!("the pods of StatefulSet {name} have no DNS names: serviceName is not set"),
            );
        }
    }
}

/// The Service that `serviceName` names, if the files contain it.
pub fn governing_service<'a>(all: &'a Manifests, set: &Object) -> Option<&'a Object> {
    all.named(Kind::Service, &set.namespace, set.field("spec.serviceName").text())
}
