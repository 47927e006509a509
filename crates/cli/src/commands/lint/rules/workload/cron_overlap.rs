use crate::commands::lint::rules::prelude::*;
use crate::commands::lint::view::schedule::{Firing, firing};

pub const RULE: Rule = Rule {
    code: "RC242",
    severity: Severity::Warning,
    title: "a CronJob whose runs can overlap",
    why: "With the default `concurrencyPolicy`, `Allow`, a run starts even if the previous one is still active. Nothing ends \
          a run before the next one is due: `activeDeadlineSeconds` is missing, or longer than the period. Backups then \
          overwrite each other, and hanging runs pile up. If overlapping runs are intended, set `Allow` explicitly.",
    hint: "spec:\n  concurrencyPolicy: Forbid",
    about_absence: true,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for cron_job in all.of_kind(Kind::CronJob) {
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
