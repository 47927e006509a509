use super::no_disruption_budget::budgets_of;
use crate::commands::lint::rules::prelude::*;
use rollcall_sim::actors::common::numbers::{Round, int_or_percent};

pub const RULE: Rule = Rule {
    code: "RC210",
    severity: Severity::Warning,
    title: "a PodDisruptionBudget that lets nobody go",
    why: "No pod may ever be evicted: `kubectl drain` tries again for ever, and node upgrades stop. One pod must be allowed to be \
          away. For a workload of one pod, a budget cannot help; two replicas can.",
    hint: "spec:\n  maxUnavailable: 1",
    about_absence: false,
    check,
};

fn check(all: &Scene, found: &mut Findings) {
    for template in templates(all) {
        let Some(size) = template.size().filter(|size| *size > 0) else { continue };
        for budget in budgets_of(all, &template) {
            let (most, least) = (budget.field("spec.maxUnavailable"), budget.field("spec.minAvailable"));
            // Both are rounded up.
            let away = int_or_percent(most.value, size, Round::Up);
            let stay = int_or_percent(least.value, size, Round::Up);
            let whose = template.object.full_name();
            if away.is_some_and(|away| away <= 0) {
                found.at(&most, format!("no pod of {whose} may ever be evicted"));
            }
            if stay.is_some_and(|stay| stay >= size) {
                found.at(&least, format!("no pod of {whose} may ever be evicted: it has {size}"));
            }
        }
    }
}
