use super::no_service_name::governing_service;
use crate::commands::lint::rules::prelude::*;
use crate::similar::suggestion;

pub const RULE: Rule = Rule {
    code: "RC202",
    severity: Severity::Note,
    title: "a serviceName of a missing Service",
    why: "Kubernetes neither creates the Service nor reports that it is missing: the pods start, but their DNS names do not \
          resolve. If the Service is defined elsewhere, ignore this note.",
    hint: "apiVersion: v1\nkind: Service\nmetadata: {name: db}\nspec:\n  clusterIP: None\n  selector: {app: db}\n  ports: [{port: 5432}]",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for set in all.of_kind(Kind::StatefulSet) {
        let name = set.field("spec.serviceName");
        if name.text().is_empty() || governing_service(all, set).is_some() {
            continue;
        }
        let there = all.in_namespace(Kind::Service, &set.namespace).map(|service| service.name.as_str());
        let alike = suggestion(name.text(), there);
        found.at(&name, format!("Service {} not found in namespace {}{alike}", name.text(), set.namespace));
    }
}
