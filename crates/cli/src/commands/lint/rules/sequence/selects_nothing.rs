use crate::commands::lint::rules::prelude::*;
use crate::similar::suggestion;
use rollcall_core::sequence::spec::Members;
use std::collections::BTreeSet;

pub const RULE: Rule = Rule {
    code: "RC102",
    severity: Severity::Warning,
    title: "a podSelector that matches no pods",
    why: "No pod or pod template in the files matches the selector, although the files define other pods in that namespace. A \
          group without members never completes, so all later groups wait indefinitely. (If its pods are defined elsewhere, \
          allow this rule; if they may be absent, set `optional: true`.)",
    hint: "template:\n  metadata:\n    labels: {app: web}  # the labels that the group's podSelector requires",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    let claims = all.claims();
    for (number, sequence) in claims.sequences.iter().enumerate() {
        let namespace = &*sequence.spec.pod_namespace;
        for (position, group) in sequence.spec.groups.iter().enumerate() {
            let Members::Selector(selector) = &group.members else { continue };
            let nobody = claims.members(number, position).next().is_none();
            if !nobody || group.optional || !claims.has_pods_in(namespace) {
                continue;
            }
            let there = labels(claims, namespace);
            let wanted = selector.to_string();
            let alike = suggestion(&wanted, there.iter().map(String::as_str));
            found
                .at_key(
                    &sequence.group_field(position).get("podSelector"),
                    format!("no pod in namespace {namespace} matches the selector {wanted}{alike}"),
                )
                .hint(format!(
                    "# to list the matching pods:\n# kubectl get pods -n {namespace} -l '{wanted}'"
                ));
        }
    }
}

fn labels(claims: &Claims, namespace: &str) -> BTreeSet<String> {
    let here = claims.templates.iter().filter(|template| template.object.namespace == namespace);
    here.flat_map(|template| {
        let pairs: Vec<String> =
            template.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        pairs
    })
    .collect()
}
