use crate::commands::lint::rules::prelude::*;
use rollcall_core::sequence::spec::{Members, MinReady};

pub const RULE: Rule = Rule {
    code: "RC119",
    severity: Severity::Warning,
    title: "a group that expects more pods than its workloads create",
    why: "`expected`, and `minReady` as a number, are absolute. If the workloads of the group create fewer pods, the group \
          never completes. Without `expected` the number is derived from the workloads and follows their replica counts.",
    hint: "# omit expected; to require only some of the pods:\nminReady: 50%",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    let claims = all.claims();
    for (number, sequence) in claims.sequences.iter().enumerate() {
        for (position, group) in sequence.spec.groups.iter().enumerate() {
            let mut members = claims.members(number, position).peekable();
            if matches!(group.members, Members::Names(_)) || members.peek().is_none() {
                continue;
            }
            // The size of a DaemonSet depends on the number of nodes.
            let Some(there) = members.map(PodTemplate::size).sum::<Option<i64>>() else { continue };
            let field = sequence.group_field(position);
            let wanted = match group.min_ready {
                MinReady::Count(count) => Some(("minReady", i64::from(count))),
                MinReady::Percent(_) => group.expected.map(|count| ("expected", i64::from(count))),
            };
            if let Some((name, wanted)) = wanted.filter(|(_, wanted)| *wanted > there) {
                found.at(
                    &field.get(name),
                    format!(
                        "group {:?} requires {wanted} pods, but its workloads create only {there}",
                        group.title
                    ),
                );
            }
        }
    }
}
