use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC113",
    severity: Severity::Warning,
    title: "a Job deadline that expires while the Job is held",
    why: "`activeDeadlineSeconds` counts from the start of the Job, not from the start of its pods. The Job starts when its \
          controller first sees it, so the time that its pods are held counts too. If the earlier groups take long, the Job \
          fails before its pods have started.",
    hint: "# instead of activeDeadlineSeconds, a limit that starts with the container:\n\
           command: [\"timeout\", \"600\", \"migrate\"]\n# to limit the wait, in the group:\ntimeout: 10m",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for (sequence, position, template) in all.claims().each() {
        let group = &sequence.spec.groups[position];
        let held =
            template.has_gate(&sequence.spec.gate) || gets_gate_at_admission(all, &template.object.namespace);
        let Some(deadline) = template.job().map(|job| job.get("activeDeadlineSeconds")) else { continue };
        if let (Some(seconds), true, false) = (deadline.number(), held, group.after.is_empty()) {
            found.at(
                &deadline,
                format!(
                    "activeDeadlineSeconds: {seconds} also counts while group {:?} holds {}",
                    group.title,
                    template.object.full_name()
                ),
            );
        }
    }
}
