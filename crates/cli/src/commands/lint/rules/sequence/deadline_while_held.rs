use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC113",
    severity: Severity::Warning,
    title: "a deadline that runs while the Job is held",
    why: "`activeDeadlineSeconds` counts from the start of the Job, which is when its controller first sees it, and not from the \
          start of its pods. The time behind the gate counts, too: a Job whose group opens late is failed before it has begun.",
    hint: "# a limit that begins with the container, instead of activeDeadlineSeconds:\n\
           command: [\"timeout\", \"600\", \"migrate\"]\n# and, for the wait, in the group:\ntimeout: 10m",
    about_absence: false,
    check,
};

fn check(all: &Scene, found: &mut Findings) {
    for (sequence, position, template) in all.claims().each() {
        let group = &sequence.spec.groups[position];
        let held =
            template.has_gate(&sequence.spec.gate) || gets_gate_at_admission(all, &template.object.namespace);
        let Some(deadline) = template.job().map(|job| job.get("activeDeadlineSeconds")) else { continue };
        if let (Some(seconds), true, false) = (deadline.number(), held, group.after.is_empty()) {
            found.at(
                &deadline,
                format!(
                    "these {seconds}s run while group {:?} holds {}",
                    group.title,
                    template.object.full_name()
                ),
            );
        }
    }
}
