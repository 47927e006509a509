use crate::commands::lint::rules::prelude::*;
use rollcall_core::gates;

pub const RULE: Rule = Rule {
    code: "RC233",
    severity: Severity::Note,
    title: "a Job without a deadline",
    why: "`backoffLimit` counts failures, but a pod that hangs does not fail, so the Job runs indefinitely. \
          `activeDeadlineSeconds` ends it. This rule skips Jobs of a sequence, because their deadline would also count while \
          they are held.",
    hint: "spec:\n  activeDeadlineSeconds: 3600",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    let claims = all.claims();
    let gated = |template: &PodTemplate| {
        let ours = |gate: &Field| gate.text() == gates::SEQUENCE;
        let claimed =
            |(_, _, claimed): (&Sequence, usize, &PodTemplate)| std::ptr::eq(claimed.object, template.object);
        template.gates().iter().any(ours) || claims.each().any(claimed)
    };
    for template in templates(all) {
        let Some(job) = template.job().filter(|_| !gated(&template)) else { continue };
        let pod = template.spec.get("activeDeadlineSeconds");
        if job.get("activeDeadlineSeconds").is_missing() && pod.is_missing() {
            found.about(
                template.object,
                format!(
                    "{} runs indefinitely if a pod hangs: it has no activeDeadlineSeconds",
                    template.object.full_name()
                ),
            );
        }
    }
}
