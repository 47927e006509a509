use crate::commands::lint::rules::prelude::*;
use crate::commands::lint::view::schedule::{Firing, firing};

pub const RULE: Rule = Rule {
    code: "RC244",
    severity: Severity::Error,
    title: "a schedule that never fires",
    why: "The API server validates each field separately, so it accepts dates that do not exist, such as the 31st of February \
          or the 31st of April. The CronJob never runs.",
    hint: "schedule: \"0 3 28 2 *\"",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for cron_job in all.of_kind(Kind::CronJob) {
        let schedule = cron_job.field("spec.schedule");
        if matches!(firing(&schedule, &cron_job.field("spec.timeZone")), Firing::Never) {
            found.at(
                &schedule,
                format!(
                    "CronJob {} never runs: schedule \"{}\" matches no date",
                    cron_job.name,
                    schedule.text()
                ),
            );
        }
    }
}
