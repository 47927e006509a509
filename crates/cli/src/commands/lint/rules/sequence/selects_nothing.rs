use crate::commands::lint::rules::prelude::*;
use crate::similar::suggestion;
use rollcall_core::sequence::spec::Members;
use std::collections::BTreeSet;

pub const RULE: Rule = Rule {
    code: "RC102",
    severity: Severity::Warning,
    title: "a selector that matches nothing",
    why: "No pod or template in the files has these labels, though there are others in that namespace. A group that nobody \
          belongs to is never complete, so everything after it waits for ever. (If its pods come from elsewhere, allow the rule; \
          if they may be absent, say `optional: true`.)",
    hint: "template:\n  metadata:\n    labels: {app: web}  # what the group's podSelector asks for",
    about_absence: false,
    check,
};

fn check(all: &Scene, found: &mut Findings) {
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
                    format!("nothing in namespace {namespace} has the labels {wanted}{alike}"),
                )
                .hint(format!("# which pods it would be:\n# kubectl get pods -n {namespace} -l '{wanted}'"));
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
