use super::no_service_name::governing_service;
use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC203",
    severity: Severity::Warning,
    title: "a StatefulSet whose Service is not headless",
    why: "Only a headless Service (`clusterIP: None`) has a DNS record for each pod. Any other Service has a single address \
          for all its pods, and `db-0.db` does not resolve. `clusterIP` cannot be changed later; create a second Service.",
    hint: "spec:\n  clusterIP: None",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for set in all.of_kind(Kind::StatefulSet) {
        let Some(service) = governing_service(all, set) else { continue };
        if service.field("spec.clusterIP").text() != "None" {
            let name = &service.name;
            found.at_key(
                &service.spec(),
                format!(
                    "Service {name} is not headless, so the pods of StatefulSet {} have no DNS names",
                    set.name
                ),
            );
        }
    }
}
