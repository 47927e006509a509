use crate::commands::lint::rules::prelude::*;
use crate::commands::lint::view::claims::can_be_named;
use crate::similar::suggestion;
use rollcall_core::sequence::spec::Members;

pub const RULE: Rule = Rule {
    code: "RC104",
    severity: Severity::Warning,
    title: "a listed pod that no workload creates",
    why: "A group that lists pods waits for all of them. The files contain neither a pod of this name nor a StatefulSet that \
          creates one: its replicas are too few, or it has another name. Pod names of Deployments, DaemonSets and Jobs are \
          not predictable.",
    hint: "podSelector: {matchLabels: {app: web}}\n# or\nworkloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    let claims = all.claims();
    for sequence in &claims.sequences {
        let namespace = &*sequence.spec.pod_namespace;
        if !claims.has_pods_in(namespace) {
            continue;
        }
        let here = || claims.templates.iter().filter(|template| template.object.namespace == namespace);
        for (position, group) in sequence.spec.groups.iter().enumerate() {
            let Members::Names(_) = &group.members else { continue };
            for name in sequence.group_field(position).get("pods").items() {
                if here().any(|template| can_be_named(template, name.text())) {
                    continue;
                }
                let names: Vec<String> = here().flat_map(names).collect();
                let alike = suggestion(name.text(), names.iter().map(String::as_str));
                found.at(&name, format!("no workload in the files creates pod {}{alike}", name.text()));
            }
        }
    }
}

/// Returns the predictable pod names of a template; for a large StatefulSet only the first ones.
fn names(template: &PodTemplate) -> Vec<String> {
    const SHOWN: i64 = 10;
    match template.kind {
        Kind::Pod => vec![template.object.name.clone()],
        Kind::StatefulSet => {
            let first = template.object.field("spec.ordinals.start").number().unwrap_or(0);
            let size = template.size().unwrap_or(1).min(SHOWN);
            (first..first + size).map(|ordinal| format!("{}-{ordinal}", template.object.name)).collect()
        }
        _ => Vec::new(),
    }
}
