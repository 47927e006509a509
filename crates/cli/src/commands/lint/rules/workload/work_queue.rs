use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC235",
    severity: Severity::Warning,
    title: "completions that hold back the workers",
    why: "Never more pods run than are still needed. With `completions: 1` one pod runs, whatever `parallelism` says. A work queue leaves \
          `completions` out: all workers start, and when one has succeeded no new ones are made, and the Job is complete when the \
          others have ended.",
    hint: "spec:\n  parallelism: 10  # and no completions",
    about_absence: false,
    check,
};

fn check(all: &Scene, found: &mut Findings) {
    for template in templates(all) {
        let Some(job) = template.job() else { continue };
        let (completions, parallelism) =
            (job.get("completions"), job.get("parallelism").number().unwrap_or(1));
        if completions.number() == Some(1) && parallelism > 1 {
            let whose = template.object.full_name();
            found.at(
                &completions,
                format!("{whose} runs 1 pod at a time, not {parallelism}: it needs no more to be complete"),
            );
        }
    }
}
