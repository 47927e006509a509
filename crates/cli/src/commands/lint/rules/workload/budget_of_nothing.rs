use super::no_disruption_budget::budgets_of;
use crate::commands::lint::rules::prelude::*;
use rollcall_sim::actors::common::numbers::{Round, int_or_percent};

pub const RULE: Rule = Rule {
    code: "RC210",
    severity: Severity::Warning,
    title: "a PodDisruptionBudget that allows no evictions",
    why: "No pod may ever be evicted: `kubectl drain` retries indefinitely, and node upgrades stall. Allow at least one pod \
          to be unavailable. A budget cannot protect a workload of one pod; run two replicas instead.",
    hint: "spec:\n  maxUnavailable: 1",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for template in templates(all) {
        let Some(size) = template.size().filter(|size| *size > 0) else { continue };
        for budget in budgets_of(all, &template) {
            let (most, least) = (budget.field("spec.maxUnavailable"), budget.field("spec.minAvailable"));
            // Kubernetes rounds both percentages up.
            let away = int_or_percent(most.value, size, Round::Up);
            let stay = int_or_percent(least.value, size, Round::Up);
            let whose = template.object.full_name();
            if away.is_some_and(|away| away <= 0) {
                found.at(&most, format!("maxUnavailable allows no eviction of pods of {whose}"));
            }
            if stay.is_some_and(|stay| stay >= size) {
                found.at(
                    &least,
                    format!("minAvailable allows no eviction of pods of {whose}: the total is {size}"),
                );
            }
        }
    }
}
