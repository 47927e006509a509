use crate::commands::lint::rules::prelude::*;
use rollcall_core::sequence::spec::Until;

pub const RULE: Rule = Rule {
    code: "RC112",
    severity: Severity::Warning,
    title: "a timeout that is shorter than the probes take",
    why: "A pod is not ready before its probes have succeeded: after `initialDelaySeconds`, plus one period for each further \
          `successThreshold`. A StatefulSet with `OrderedReady` needs that time for each of its pods in turn. With a shorter \
          timeout the group always times out, however fast its pods start.",
    hint: "timeout: 5m",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for (sequence, position, template) in all.claims().each() {
        let group = &sequence.spec.groups[position];
        let (Some(timeout), Until::Ready) = (group.timeout, group.until.resolve(template.ends())) else {
            continue;
        };
        let needed = least_seconds(template);
        if (timeout.as_secs() as i64) < needed {
            let given = timeout.as_secs();
            found
                .at(
                    &sequence.group_field(position).get("timeout"),
                    format!(
                        "the timeout is {given}s, but the probes of {} take at least {needed}s",
                        template.object.full_name()
                    ),
                )
                .hint(format!("timeout: {}s", needed.saturating_mul(2)));
        }
    }
}

/// Returns the least number of seconds until all pods of a workload are ready.
pub fn least_seconds(template: &PodTemplate) -> i64 {
    let one = template.earliest_ready();
    let parallel = template.object.field("spec.podManagementPolicy").text() == "Parallel";
    match template.kind {
        Kind::StatefulSet if !parallel => one.saturating_mul(template.size().unwrap_or(1)),
        _ => one,
    }
}
