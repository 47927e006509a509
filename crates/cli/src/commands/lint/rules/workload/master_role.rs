use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC215",
    severity: Severity::Warning,
    title: "the obsolete node role `master`",
    why: "Control-plane nodes have the label and the taint `node-role.kubernetes.io/control-plane`. The `master` label was \
          removed in Kubernetes 1.24 and the `master` taint in 1.25. A selector for `master` matches no node, and a \
          toleration for it alone has no effect. Next to a toleration for `control-plane` it is harmless.",
    hint: "tolerations:\n- key: node-role.kubernetes.io/control-plane\n  operator: Exists\n  effect: NoSchedule",
    about_absence: false,
    check,
};

const OLD: &str = "node-role.kubernetes.io/master";
pub const NEW: &str = "node-role.kubernetes.io/control-plane";

fn check(all: &ManifestFacts, found: &mut Findings) {
    for template in templates(all) {
        let selected = template.spec.get("nodeSelector").get(OLD);
        if !selected.is_missing() {
            found
                .at_key(&selected, format!("no node has the label {OLD} since Kubernetes 1.24"))
                .hint(format!("nodeSelector:\n  {NEW}: \"\""));
        }
        let tolerations = template.spec.get("tolerations").items();
        let tolerates_new = tolerations.iter().any(|one| one.get("key").text() == NEW);
        for old in tolerations.iter().map(|one| one.get("key")).filter(|key| key.text() == OLD) {
            if !tolerates_new {
                found.at(&old, format!("no node has the taint {OLD} since Kubernetes 1.25"));
            }
        }
        for key in affinity_keys(&template) {
            if key.text() == OLD {
                found.at(&key, format!("no node has the label {OLD} since Kubernetes 1.24"));
            }
        }
    }
}

/// Label keys that the required node affinity of a template names with `In` or `Exists`.
pub fn affinity_keys<'a>(template: &PodTemplate<'a>) -> Vec<Field<'a>> {
    let required = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    let terms = template.spec.down(required).items();
    let expressions = terms.iter().flat_map(|term| term.get("matchExpressions").items());
    let wanted = |one: &Field| ["In", "Exists"].contains(&one.get("operator").text());
    expressions.filter(wanted).map(|expression| expression.get("key")).collect()
}
