use crate::commands::lint::rules::prelude::*;
use rollcall_core::sequence::spec::Scope;

pub const RULE: Rule = Rule {
    code: "RC116",
    severity: Severity::Warning,
    title: "scope: Node for a group without a DaemonSet",
    why: "With `scope: Node` a group is complete on a node when its pods on that node are ready. Pods that can run anywhere \
          are not on every node. A group of such pods is complete on every node without one of them, so later groups rarely \
          wait for it.",
    hint: "scope: Cluster\n# or use a DaemonSet, which runs a pod on every node",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    let claims = all.claims();
    for (number, sequence) in claims.sequences.iter().enumerate() {
        if sequence.spec.scope != Scope::Node {
            continue;
        }
        for (position, group) in sequence.spec.groups.iter().enumerate() {
            let awaited = sequence.spec.groups.iter().any(|later| later.after.contains(&position));
            let mut members = claims.members(number, position).peekable();
            if !awaited || members.peek().is_none() || group.node_ready.is_some() {
                continue;
            }
            if members.all(|template| !is_on_a_node(template)) {
                found.at(
                    &sequence.group_field(position),
                    format!(
                        "group {:?} has no DaemonSet, so on most nodes later groups do not wait for it",
                        group.title
                    ),
                );
            }
        }
    }
}

fn is_on_a_node(template: &PodTemplate) -> bool {
    let selector = template.spec.get("nodeSelector").get(rollcall_core::node::HOSTNAME);
    template.kind == Kind::DaemonSet
        || !template.spec.get("nodeName").is_missing()
        || !selector.is_missing()
        || template.spec.down("affinity.nodeAffinity").value.to_string().contains("metadata.name")
}
