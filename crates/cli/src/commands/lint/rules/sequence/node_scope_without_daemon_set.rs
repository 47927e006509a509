use crate::commands::lint::rules::prelude::*;
use rollcall_core::sequence::spec::Scope;

pub const RULE: Rule = Rule {
    code: "RC116",
    severity: Severity::Warning,
    title: "Node scope without a DaemonSet",
    why: "With `scope: Node` a group is complete on a node when its pods there are ready. Pods that can land anywhere are not on every \
          node; a group of such pods is complete on all nodes that hold none of them, so others hardly wait for it.",
    hint: "scope: Cluster\n# or make it a DaemonSet, which has a pod on every node",
    about_absence: false,
    check,
};

fn check(all: &Scene, found: &mut Findings) {
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
                    format!("group {:?} has no DaemonSet, so on most nodes nobody waits for it", group.title),
                );
            }
        }
    }
}

fn is_on_a_node(template: &Template) -> bool {
    let selector = template.spec.get("nodeSelector").get(rollcall_core::node::HOSTNAME);
    template.kind == Kind::DaemonSet
        || !template.spec.get("nodeName").is_missing()
        || !selector.is_missing()
        || template.spec.down("affinity.nodeAffinity").value.to_string().contains("metadata.name")
}
