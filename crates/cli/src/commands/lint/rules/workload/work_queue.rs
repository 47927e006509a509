use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC235",
    severity: Severity::Warning,
    title: "completions: 1 that disables parallelism",
    why: "A Job never runs more pods than it still needs. With `completions: 1` it runs one pod, regardless of `parallelism`. \
          A work queue omits `completions`: all workers start, no new pods are created after the first success, and the Job \
          completes when the remaining pods have ended.",
    hint: "spec:\n  parallelism: 10  # without completions",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for template in templates(all) {
        let Some(job) = template.job() else { continue };
        let (completions, parallelism) =
            (job.get("completions"), job.get("parallelism").number().unwrap_or(1));
        if completions.number() == Some(1) && parallelism > 1 {
            let whose = template.object.full_name();
            found.at(
                &completions,
                format!("{whose} runs 1 pod at a time instead of {parallelism}, because completions is 1"),
            );
        }
    }
}
