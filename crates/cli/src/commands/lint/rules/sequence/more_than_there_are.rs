use crate::commands::lint::rules::prelude::*;
use rollcall_core::sequence::spec::{Members, MinReady};

pub const RULE: Rule = Rule {
    code: "RC119",
    severity: Severity::Warning,
    title: "a group that waits for more pods than there are",
    why: "`expected` and a `minReady` given as a number are taken as they are. If the workloads of the group make fewer pods, it is \
          never complete. Without `expected` the number is derived from the workloads, and follows them when they are scaled.",
    hint: "# leave expected out; for a part of them:\nminReady: 50%",
    about_absence: false,
    check,
};

fn check(all: &Scene, found: &mut Findings) {
    let claims = all.claims();
    for (number, sequence) in claims.sequences.iter().enumerate() {
        for (position, group) in sequence.spec.groups.iter().enumerate() {
            let mut members = claims.members(number, position).peekable();
            if matches!(group.members, Members::Names(_)) || members.peek().is_none() {
                continue;
            }
            // A DaemonSet has as many as there are nodes.
            let Some(there) = members.map(Template::size).sum::<Option<i64>>() else { continue };
            let field = sequence.group_field(position);
            let wanted = match group.min_ready {
                MinReady::Count(count) => Some(("minReady", i64::from(count))),
                MinReady::Percent(_) => group.expected.map(|count| ("expected", i64::from(count))),
            };
            if let Some((name, wanted)) = wanted.filter(|(_, wanted)| *wanted > there) {
                found.at(
                    &field.get(name),
                    format!("group {:?} wants {wanted} pods, and its workloads make {there}", group.title),
                );
            }
        }
    }
}
