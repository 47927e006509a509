use crate::commands::lint::rules::prelude::*;
use rollcall_sim::actors::common::placement::{is_repelled, selects_node};

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

fn check(all: &Scene, found: &mut Findings) {
    let nodes: Vec<&Object> = all.of(Kind::Node).collect();
    for template in templates(all).iter().filter(|_| !nodes.is_empty()) {
        let spec = template.spec.value;
        let selected: Vec<&&Object> = nodes.iter().filter(|node| selects_node(spec, &node.value)).collect();
        let whose = template.object.full_name();
        if selected.is_empty() {
            let place = ["nodeSelector", "affinity"].map(|name| template.spec.get(name));
            let place = place.into_iter().find(|field| !field.is_missing());
            found.at_key(
                &place.unwrap_or_else(|| template.spec.clone()),
                format!("none of the {} nodes matches the node selector or affinity of {whose}", nodes.len()),
            );
        } else if selected.iter().all(|node| is_repelled(spec, &node.value, &["NoSchedule", "NoExecute"])) {
            let node = selected[0];
            let taint = node.field("spec.taints").items();
            let taint = taint.first().map_or("", |taint| taint.get("key").text());
            found.at_key(
                &template.spec,
                format!(
                    "{whose} does not tolerate the taints of the nodes that match; {} has the taint {taint}",
                    node.name
                ),
            );
        }
    }
}
