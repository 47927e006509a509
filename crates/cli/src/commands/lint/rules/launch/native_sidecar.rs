use super::{ORDERED, rank};
use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC404",
    severity: Severity::Note,
    title: "a launch order that a native sidecar could do",
    why: "An init container with `restartPolicy: Always` (Kubernetes 1.29 and later) starts before the others, with a startup probe the \
          others wait until it has started, and it ends after them. That needs no webhook and also holds when a pod is started \
          again. A launch order is for what sidecars cannot do: several containers at once, or more than sidecars and the rest.",
    hint: "initContainers:\n- name: proxy\n  restartPolicy: Always\n  startupProbe: {httpGet: {path: /ready, port: 15021}}",
    about_absence: false,
    check,
};

fn check(all: &Scene, found: &mut Findings) {
    for template in templates(all) {
        let containers = template.containers();
        let ranked: Vec<Field> = containers.iter().filter_map(rank).collect();
        let ordered = ["labels", "annotations"].map(|map| template.metadata.get(map).get(ORDERED));
        let ordered = ordered.into_iter().find(|place| place.text() == "Ordered");
        // One goes before or after all others: one sidecar, or all but one.
        let one = ranked.first().filter(|_| ranked.len() == 1 && containers.len() > 1).cloned();
        if let Some(place) = one.or_else(|| ordered.filter(|_| containers.len() == 2)) {
            found
                .at(&place, format!("a native sidecar gives {} the same order", template.object.full_name()));
        }
    }
}
