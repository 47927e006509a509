use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC243",
    severity: Severity::Warning,
    title: "a startingDeadlineSeconds below 10 seconds",
    why: "The controller checks CronJobs every 10 seconds. With a shorter deadline it can miss a scheduled run, and it does \
          not make up for it later.",
    hint: "spec:\n  startingDeadlineSeconds: 300",
    about_absence: false,
    check,
};

/// Seconds between two checks of the CronJob controller.
const LOOKS_EVERY: i64 = 10;

fn check(all: &ManifestFacts, found: &mut Findings) {
    for cron_job in all.of_kind(Kind::CronJob) {
        let deadline = cron_job.field("spec.startingDeadlineSeconds");
        if let Some(seconds) = deadline.number().filter(|seconds| *seconds < LOOKS_EVERY) {
            found.at(
                &deadline,
                format!(
                    "runs of CronJob {} can be missed: {seconds}s is shorter than the 10s between two checks",
                    cron_job.name
                ),
            );
        }
    }
}
