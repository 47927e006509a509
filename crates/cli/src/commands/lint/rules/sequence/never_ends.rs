use crate::commands::lint::rules::prelude::*;
use rollcall_core::sequence::spec::Until;

pub const RULE: Rule = Rule {
    code: "RC111",
    severity: Severity::Error,
    title: "until: Succeeded on what never ends",
    why: "The pods of a Deployment, StatefulSet, DaemonSet or ReplicaSet are restarted whenever they end, and so is a pod with \
          `restartPolicy: Always`. They never succeed, and the group is never complete.",
    hint: "until: Ready",
    about_absence: false,
    check,
};

fn check(all: &Scene, found: &mut Findings) {
    for (sequence, position, template) in all.claims().each() {
        if sequence.spec.groups[position].until == Until::Succeeded && !template.ends() {
            found.at(
                &sequence.group_field(position).get("until"),
                format!("the pods of {} never end, so they never succeed", template.object.full_name()),
            );
        }
    }
}
