use crate::commands::lint::rules::prelude::*;
use rollcall_api::names;
use rollcall_core::sequence::spec::NodeGuard;

pub const RULE: Rule = Rule {
    code: "RC118",
    severity: Severity::Warning,
    title: "a sequence that the Namespace does not permit",
    why: "A sequence may manage pods of another namespace only if that Namespace permits it \
          (`podsequence.example.com/allow-from`). It may taint nodes only if its own Namespace has \
          `podsequence.example.com/allow-node-taints: \"true\"`. The Namespace in the files lacks the annotation, so the \
          sequence is `Stalled` (`NotPermitted`, `TaintsNotPermitted`).",
    hint: "kind: Namespace\nmetadata:\n  annotations:\n    podsequence.example.com/allow-from: shop",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
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
                        format!("Namespace {pods} does not permit sequences from namespace {own}"),
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
