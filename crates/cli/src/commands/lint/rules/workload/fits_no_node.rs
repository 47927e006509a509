use crate::commands::lint::rules::prelude::*;
use crate::commands::lint::view::nodes::{Unmet, no_node, nodes};
use rollcall_api::watch::placement_of;
use rollcall_core::node::Node;

pub const RULE: Rule = Rule {
    code: "RC217",
    severity: Severity::Warning,
    title: "a workload that fits no node",
    why: "The files contain nodes, but the pods fit none of them. Either no node matches the `nodeSelector` or required node \
          affinity, or all matching nodes have a taint that the template does not tolerate. The pods stay Pending; a \
          DaemonSet creates none.",
    hint: "# to list labels and taints:\n# kubectl get nodes --show-labels\n# kubectl get nodes -o custom-columns=NAME:.metadata.name,TAINTS:.spec.taints",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    let nodes = nodes(all);
    let nodes: Vec<&Node> = nodes.iter().collect();
    for template in templates(all).iter().filter(|_| !nodes.is_empty()) {
        let placement = placement_of(template.spec.value);
        if let Some(unmet) = Unmet::find(&template.spec, &placement, &nodes) {
            found.at_key(&unmet.field, format!("{} {}", no_node(all), unmet.text));
            continue;
        }
        let matching = nodes.iter().filter(|node| placement.matches(node));
        // The taint that keeps the pods off each matching node; `None` if one of these nodes has no such taint.
        let taints: Option<Vec<_>> =
            matching.map(|node| Some((node, placement.untolerated(node).next()?))).collect();
        if let Some((node, taint)) = taints.iter().flatten().next() {
            let whose = template.object.full_name();
            found.at_key(
                &template.spec,
                format!(
                    "every matching node has a taint that {whose} does not tolerate, such as {taint} on {}",
                    node.name
                ),
            );
        }
    }
}
