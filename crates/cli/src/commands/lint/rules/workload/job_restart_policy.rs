use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC231",
    severity: Severity::Error,
    title: "a Job whose pods are restarted for ever",
    why: "The API server refuses Jobs with `restartPolicy: Always`, which is also what a template without one has. `OnFailure` restarts \
          the container in the same pod; with `Never` the Job makes a new pod for each attempt, so that the logs of the last one \
          stay. Both are retried up to `backoffLimit`.",
    hint: "template:\n  spec:\n    restartPolicy: OnFailure",
    about_absence: false,
    check,
};

fn check(all: &Scene, found: &mut Findings) {
    for template in templates(all).iter().filter(|template| template.job().is_some()) {
        let policy = template.spec.get("restartPolicy");
        if ["", "Always"].contains(&policy.text()) {
            let whose = template.object.full_name();
            found.at_key(&policy, format!("{whose} needs restartPolicy OnFailure or Never"));
        }
    }
}
