use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC234",
    severity: Severity::Note,
    title: "a Job without an explicit backoffLimit",
    why: "By default a Job makes up to 7 attempts: the first one and 6 retries (`backoffLimit: 6`), with delays of 10 s, 20 \
          s, 40 s and so on. That is too many for a migration that must not run twice, and may be too few for a flaky \
          download.",
    hint: "spec:\n  backoffLimit: 2",
    about_absence: true,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for template in templates(all) {
        let Some(job) = template.job() else { continue };
        if job.get("backoffLimit").is_missing() && job.get("backoffLimitPerIndex").is_missing() {
            found.about(
                template.object,
                format!(
                    "{} makes up to 7 attempts by default; set backoffLimit explicitly",
                    template.object.full_name()
                ),
            );
        }
    }
}
