use crate::commands::lint::rules::prelude::*;
use rollcall_sim::server::selectors::selects;

pub const RULE: Rule = Rule {
    code: "RC209",
    severity: Severity::Note,
    title: "a replicated StatefulSet without a PodDisruptionBudget",
    why: "Node drains may evict any number of pods at once. A budget limits concurrent evictions, so that a database keeps \
          its majority during node maintenance. (It prevents neither deletions nor failures.)",
    hint: "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: db}\nspec:\n  maxUnavailable: 1\n  selector:\n    \
           matchLabels: {app: db}",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for template in templates_of(all, Kind::StatefulSet) {
        let set = template.object;
        let size = template.size().unwrap_or(1);
        if size < 2 || budgets_of(all, &template).next().is_some() {
            continue;
        }
        found.about(
            set,
            format!("all {size} pods of StatefulSet {} may be evicted at once: no PodDisruptionBudget selects them", set.name),
        );
    }
}

/// PodDisruptionBudgets that select the pods of a workload.
pub fn budgets_of<'a>(all: &'a Manifests, template: &'a PodTemplate) -> impl Iterator<Item = &'a Object> {
    let labels = template.metadata.get("labels").value;
    all.in_namespace(Kind::PodDisruptionBudget, &template.object.namespace)
        .filter(move |budget| selects(budget.field("spec.selector").value, labels))
}
