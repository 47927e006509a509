use crate::commands::lint::rules::prelude::*;
use crate::commands::lint::view::schedule::{Firing, firing};

pub const RULE: Rule = Rule {
    code: "RC242",
    severity: Severity::Warning,
    title: "a CronJob whose runs can overlap",
    why: "Without `concurrencyPolicy` (that is `Allow`) a run starts even if the last one still goes on. Nothing ends a run before the next \
          one is due: it has no `activeDeadlineSeconds`, or a longer one. Backups then write over each other, and runs that hang pile \
          up. Saying `Allow` is fine, if that is meant.",
    hint: "spec:\n  concurrencyPolicy: Forbid",
    about_absence: true,
    check,
};

fn check(all: &Scene, found: &mut Findings) {
    for cron_job in all.of(Kind::CronJob) {
        if !cron_job.field("spec.concurrencyPolicy").is_missing() {
            continue;
        }
        let schedule = cron_job.field("spec.schedule");
        let fires = firing(&schedule, &cron_job.field("spec.timeZone"));
        let Firing::Every(Some(period)) = fires else { continue };
        let deadline = cron_job.field("spec.jobTemplate.spec.activeDeadlineSeconds").number();
        if deadline.is_none_or(|deadline| deadline > period) {
            found.at(
                &schedule,
                format!("runs of CronJob {} can overlap: the next one is due after {period}s", cron_job.name),
            );
        }
    }
}
