use super::{Room, rooms};
use crate::commands::lint::rules::prelude::*;
use crate::commands::lint::view::schedule::Firing;
use jiff::tz::TimeZone;
use rollcall_core::line::human;
use rollcall_core::reservation::spec::{Refresh, Strategy};
use std::time::Duration;

pub const RULE: Rule = Rule {
    code: "RC603",
    severity: Severity::Warning,
    title: "tickets that outlast the period of their schedule",
    why: "A `Recurring` Order makes no second ticket where one is left. When the next time comes, the ticket of the last one is still there, \
          so nothing happens; the new one is made when the old one ends, at a time that the schedule does not name, and in between \
          anybody can take the room. With `refreshPolicy: Always` the ticket is renewed in time and the room stays. A ticket that says \
          nothing lasts 24h, and for ever with `refreshPolicy: Never`.",
    hint: "strategy:\n  refreshPolicy: Always\n# or a duration that ends before the next time:\ntemplate:\n  spec:\n    duration: 1h",
    about_absence: false,
    check,
};

fn check(all: &Scene, found: &mut Findings) {
    for Room { object, order, .. } in rooms(all) {
        let Some(order) = order.filter(|order| order.refresh != Refresh::Always) else { continue };
        let Strategy::Recurring(timetable) = &order.strategy else { continue };
        // In UTC every day has 24 hours: that a clock is set forward once a year is no mistake of the schedule.
        let fires = Firing::of(&timetable.schedule, &TimeZone::UTC);
        let Firing::Every(Some(period)) = fires else { continue };
        let lasts = match order.duration() {
            None => "for ever".to_owned(),
            Some(duration) if duration.as_secs() > period => human(duration.unsigned_abs()),
            Some(_) => continue,
        };
        let written = object.field("spec.template.spec.duration");
        let place = if written.is_missing() { object.field("spec.strategy.schedule") } else { written };
        let period = human(Duration::from_secs(period.unsigned_abs()));
        found.at(
            &place,
            format!(
                "tickets of Order {} last {lasts}, and the next ones are due after {period}",
                object.name
            ),
        );
    }
}
