use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC232",
    severity: Severity::Note,
    title: "a Job that stays when it is over",
    why: "A finished Job and its pods stay until somebody deletes them. `ttlSecondsAfterFinished` does it. (A CronJob keeps the last 3 \
          successful and the last failed run, and needs none.) In a sequence a completed Job counts as complete also after its \
          deletion.",
    hint: "spec:\n  ttlSecondsAfterFinished: 86400",
    about_absence: false,
    check,
};

fn check(all: &Scene, found: &mut Findings) {
    for template in templates_of(all, Kind::Job) {
        if template.object.field("spec.ttlSecondsAfterFinished").is_missing() {
            found.about(template.object, format!("Job {} stays when it is over", template.object.name));
        }
    }
}
