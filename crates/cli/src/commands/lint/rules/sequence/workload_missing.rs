use crate::commands::lint::rules::prelude::*;
use crate::similar::suggestion;
use rollcall_core::sequence::spec::Members;

pub const RULE: Rule = Rule {
    code: "RC103",
    severity: Severity::Warning,
    title: "a workloadRef that points to a missing workload",
    why: "The files define workloads in that namespace, but none of this kind and name. The group waits for the workload \
          (`WorkloadMissing`), and all later groups wait for the group.",
    hint: "workloadRef: {apiVersion: apps/v1, kind: StatefulSet, name: db}\n# or, if it may be absent:\noptional: true",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    let claims = all.claims();
    for (number, sequence) in claims.sequences.iter().enumerate() {
        let namespace = &*sequence.spec.pod_namespace;
        for (position, group) in sequence.spec.groups.iter().enumerate() {
            let Members::Workload(workload) = &group.members else { continue };
            let nobody = claims.members(number, position).next().is_none();
            if !nobody || group.optional || !claims.has_pods_in(namespace) {
                continue;
            }
            let there: Vec<String> = claims
                .templates
                .iter()
                .filter(|template| template.object.namespace == namespace && template.kind != Kind::Pod)
                .map(|template| template.object.full_name().to_lowercase())
                .collect();
            let alike = suggestion(&workload.to_string(), there.iter().map(String::as_str));
            found.at(
                &sequence.group_field(position).down("workloadRef.name"),
                format!("{workload} not found in namespace {namespace}{alike}"),
            );
        }
    }
}
