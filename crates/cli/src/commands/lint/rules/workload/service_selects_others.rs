use super::no_service_name::governing_service;
use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC204",
    severity: Severity::Warning,
    title: "a Service that does not select the pods of its StatefulSet",
    why: "DNS names exist only for the endpoints of the Service, that is, the pods that its selector matches. The template \
          lacks a label that the selector requires, so its pods have no DNS names.",
    hint: "spec:\n  selector: {app: db}  # labels of the StatefulSet's template",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for template in templates_of(all, Kind::StatefulSet) {
        let Some(service) = governing_service(all, template.object) else { continue };
        let selector = service.field("spec.selector");
        let label = |key: &str| template.labels.get(key).map(|value| &**value);
        let others = selector.entries().into_iter().find(|(key, value)| label(key) != Some(value.text()));
        if let Some((key, value)) = others {
            let set = &template.object.name;
            found.at(&value, format!("the pods of StatefulSet {set} lack the label {key}={}, so the Service does not select them", value.text()));
        }
    }
}
