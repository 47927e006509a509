use crate::commands::lint::rules::prelude::*;
use rollcall_core::sequence::spec::Until;

pub const RULE: Rule = Rule {
    code: "RC111",
    severity: Severity::Error,
    title: "until: Succeeded for pods that never succeed",
    why: "The containers of a Deployment, StatefulSet, DaemonSet or ReplicaSet are restarted whenever they exit, as are those \
          of a pod with `restartPolicy: Always`. Such pods never reach the phase `Succeeded`, so the group never completes.",
    hint: "until: Ready",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for (sequence, position, template) in all.claims().each() {
        if sequence.spec.groups[position].until == Until::Succeeded && !template.ends() {
            found.at(
                &sequence.group_field(position).get("until"),
                format!(
                    "the pods of {} never reach Succeeded: their containers are restarted whenever they exit",
                    template.object.full_name()
                ),
            );
        }
    }
}
