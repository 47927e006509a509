use super::{reserving_objects, seekers};
use crate::commands::lint::rules::prelude::*;
use rollcall_core::reservation::names::HIGHEST_PRIORITY;
use rollcall_sim::cluster::PRIORITY_CLASSES;

pub const RULE: Rule = Rule {
    code: "RC611",
    severity: Severity::Warning,
    title: "a pod with a lower priority than its ticket",
    why: "A guardian has the priority of its ticket's PriorityClass. A pod with a lower priority cannot claim the ticket \
          (event `PriorityBelowTicket`): while it waits for the scheduler, pods with a priority in between could take the \
          capacity. It runs without reserved capacity.",
    hint: "# in the pod template, the PriorityClass of the ticket\npriorityClassName: system-node-critical",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    let rooms = reserving_objects(all);
    for seeker in seekers(all, &rooms) {
        let class = seeker.template.spec.get("priorityClassName");
        let offers: Vec<_> = rooms.iter().filter(|room| room.serves(&seeker)).collect();
        let Some(own) = priority(all, class.text()) else { continue };
        let above = |class: &str| {
            priority(all, class).is_some_and(|priority| priority.min(HIGHEST_PRIORITY.into()) > own)
        };
        let of = |class: Option<&str>| above(class.unwrap_or_default());
        let above_all = offers.iter().all(|room| of(room.ticket.priority_class.as_deref()));
        if let Some(first) = offers.first().filter(|_| above_all) {
            let place = if class.is_missing() { seeker.template.spec.clone() } else { class };
            let (whose, object) = (seeker.template.object.full_name(), first.object.full_name());
            let wanted = first.ticket.priority_class.as_deref().unwrap_or("the default PriorityClass");
            found.at_key(
                &place,
                format!(
                    "the priority of {whose} is {own}, below that of {wanted}, the PriorityClass of {object}"
                ),
            );
        }
    }
}

/// Value of a PriorityClass that is built in or in the files; for an empty name, that of the default class.
fn priority(all: &Manifests, class: &str) -> Option<i64> {
    let value = |object: &Object| object.field("value").number();
    if class.is_empty() {
        let defaults = all.of_kind(Kind::PriorityClass).filter(|one| one.field("globalDefault").is_true());
        return Some(defaults.filter_map(value).min().unwrap_or(0));
    }
    let built_in = PRIORITY_CLASSES.iter().find(|(name, _)| *name == class).map(|(_, value)| *value);
    built_in.or_else(|| all.named(Kind::PriorityClass, "", class).and_then(value))
}
