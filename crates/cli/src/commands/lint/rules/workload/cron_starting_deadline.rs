use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC243",
    severity: Severity::Warning,
    title: "a startingDeadlineSeconds that is too short",
    why: "The controller looks at CronJobs every 10 seconds. A run that is due and may start within fewer seconds can be missed, and is \
          then not made up for.",
    hint: "spec:\n  startingDeadlineSeconds: 300",
    about_absence: false,
    check,
};

/// How often the controller looks.
const LOOKS_EVERY: i64 = 10;

fn check(all: &Scene, found: &mut Findings) {
    for cron_job in all.of(Kind::CronJob) {
        let deadline = cron_job.field("spec.startingDeadlineSeconds");
        if let Some(seconds) = deadline.number().filter(|seconds| *seconds < LOOKS_EVERY) {
            found.at(
                &deadline,
                format!(
                    "runs of CronJob {} are missed: {seconds}s are over before anybody looks",
                    cron_job.name
                ),
            );
        }
    }
}
