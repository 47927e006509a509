use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC234",
    severity: Severity::Note,
    title: "a Job that does not say how often it is tried",
    why: "By default it is tried 7 times: once, and 6 times more (`backoffLimit: 6`), with pauses of 10 s, 20 s, 40 s and so on. For a \
          migration that must not run twice that is too often; for a flaky download it may be too few.",
    hint: "spec:\n  backoffLimit: 2",
    about_absence: true,
    check,
};

fn check(all: &Scene, found: &mut Findings) {
    for template in templates(all) {
        let Some(job) = template.job() else { continue };
        if job.get("backoffLimit").is_missing() && job.get("backoffLimitPerIndex").is_missing() {
            found.about(
                template.object,
                format!("{} is tried 7 times; say if that is meant", template.object.full_name()),
            );
        }
    }
}
