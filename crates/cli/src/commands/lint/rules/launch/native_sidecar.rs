use super::{place, readings};
use crate::commands::lint::rules::prelude::*;
use std::collections::BTreeSet;

pub const RULE: Rule = Rule {
    code: "RC404",
    severity: Severity::Note,
    title: "a launch order that native sidecars could give",
    why: "An init container with `restartPolicy: Always` (Kubernetes 1.29 and later) starts before the others, with a startup probe the \
          others wait until it has started, and it ends after them. That needs no webhook and also holds when a node is started \
          again. It fits where some containers serve the rest, and is no choice for those that end.",
    hint: "initContainers:\n- name: proxy\n  restartPolicy: Always\n  startupProbe: {httpGet: {path: /ready, port: 15021}}",
    about_absence: false,
    check,
};

fn check(all: &Scene, found: &mut Findings) {
    for (template, reading) in readings(all) {
        let order = reading.ok().and_then(|reading| reading.order);
        let ranks = order.map(|order| order.priorities.into_iter().collect::<BTreeSet<_>>().len());
        // Servers before the rest; in a pod that runs to completion the first ones mostly end.
        if ranks == Some(2) && !template.ends() {
            found.at(
                &place(&template),
                format!("native sidecars give {} the same order", template.object.full_name()),
            );
        }
    }
}
