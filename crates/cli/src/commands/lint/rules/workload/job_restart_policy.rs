use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC231",
    severity: Severity::Error,
    title: "a Job with an invalid restartPolicy",
    why: "The API server rejects Jobs with `restartPolicy: Always`, which is also the default of a pod template. With \
          `OnFailure` the container restarts in the same pod. With `Never` the Job creates a new pod for each attempt, so the \
          logs of failed attempts are kept. Both retry up to `backoffLimit` times.",
    hint: "template:\n  spec:\n    restartPolicy: OnFailure",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for template in templates(all).iter().filter(|template| template.job().is_some()) {
        let policy = template.spec.get("restartPolicy");
        if ["", "Always"].contains(&policy.text()) {
            let whose = template.object.full_name();
            found.at_key(&policy, format!("{whose} requires restartPolicy OnFailure or Never"));
        }
    }
}
