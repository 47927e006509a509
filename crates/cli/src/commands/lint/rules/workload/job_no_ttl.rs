use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC232",
    severity: Severity::Note,
    title: "a Job that is kept after it finishes",
    why: "A finished Job and its pods are kept until they are deleted. `ttlSecondsAfterFinished` deletes them automatically. \
          (A CronJob keeps the last 3 successful runs and the last failed one, and needs no TTL.) In a sequence a completed \
          Job counts as complete even after its deletion.",
    hint: "spec:\n  ttlSecondsAfterFinished: 86400",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for template in templates_of(all, Kind::Job) {
        if template.object.field("spec.ttlSecondsAfterFinished").is_missing() {
            found.about(
                template.object,
                format!(
                    "Job {} is kept after it finishes: ttlSecondsAfterFinished is not set",
                    template.object.name
                ),
            );
        }
    }
}
