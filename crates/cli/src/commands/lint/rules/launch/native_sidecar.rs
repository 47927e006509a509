use super::{place, readings};
use crate::commands::lint::rules::prelude::*;
use std::collections::BTreeSet;

pub const RULE: Rule = Rule {
    code: "RC404",
    severity: Severity::Note,
    title: "a launch order that native sidecars could provide",
    why: "An init container with `restartPolicy: Always` (Kubernetes 1.29 and later) starts before the regular containers and \
          terminates after them. With a startup probe, they wait until it has started. It needs no webhook and keeps the \
          order after a node restart. It suits containers that serve the others, but not containers that run to completion.",
    hint: "initContainers:\n- name: proxy\n  restartPolicy: Always\n  startupProbe: {httpGet: {path: /ready, port: 15021}}",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for (template, reading) in readings(all) {
        let order = reading.ok().and_then(|reading| reading.order);
        let ranks = order.map(|order| order.priorities.into_iter().collect::<BTreeSet<_>>().len());
        // Two ranks suggest sidecars before the rest. In a pod that runs to completion, the first containers usually exit.
        if ranks == Some(2) && !template.ends() {
            found.at(
                &place(&template),
                format!("native sidecars can give {} the same order", template.object.full_name()),
            );
        }
    }
}
