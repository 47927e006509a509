use crate::commands::lint::rules::prelude::*;
use rollcall_api::names;
use rollcall_core::sequence::spec::NodeGuard;

pub const RULE: Rule = Rule {
    code: "RC118",
    severity: Severity::Warning,
    title: "a sequence that its namespace does not permit",
    why: "Pods of another namespace may be sequenced only where that Namespace says so (`podsequence.example.com/allow-from`), and \
          nodes may be tainted only for a Namespace with `podsequence.example.com/allow-node-taints: \"true\"`. The Namespace is \
          among the files and does not say so: the sequence is `Stalled` (`NotPermitted`, `TaintsNotPermitted`).",
    hint: "kind: Namespace\nmetadata:\n  annotations:\n    podsequence.example.com/allow-from: shop",
    about_absence: false,
    check,
};

fn check(all: &Scene, found: &mut Findings) {
    for sequence in &all.claims().sequences {
        let (own, pods) = (sequence.object.namespace.as_str(), &*sequence.spec.pod_namespace);
        let allowed = |namespace: &str, annotation: &str| {
            let object = all.named(Kind::Namespace, "", namespace)?;
            Some(object.field("metadata.annotations").get(annotation).text())
        };
        if let Some(guests) = allowed(pods, names::ALLOW_FROM).filter(|_| pods != own) {
            let named = guests.split(',').any(|guest| [own, "*"].contains(&guest.trim()));
            if !named {
                found
                    .at(
                        &sequence.object.field("spec.namespace"),
                        format!("Namespace {pods} does not permit sequences from {own}"),
                    )
                    .hint(format!(
                        "kind: Namespace\nmetadata:\n  name: {pods}\n  annotations:\n    {}: {own}",
                        names::ALLOW_FROM
                    ));
            }
        }
        if sequence.spec.guard == NodeGuard::Taints
            && allowed(own, names::ALLOW_NODE_TAINTS).is_some_and(|value| value != "true")
        {
            found
                .at(
                    &sequence.object.field("spec.nodeGuard"),
                    format!("Namespace {own} does not permit its sequences to taint nodes"),
                )
                .hint(format!(
                    "kind: Namespace\nmetadata:\n  name: {own}\n  annotations:\n    {}: \"true\"",
                    names::ALLOW_NODE_TAINTS
                ));
        }
    }
}
