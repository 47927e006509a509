use super::{ReservingObject, reserving_objects};
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
    why: "A `Recurring` Order creates no second ticket where one still exists. If the previous ticket still exists at the \
          scheduled time, nothing happens. The new ticket is created when the old one ends, at a time that is not in the \
          schedule. In between, other pods can take the capacity. With `refreshPolicy: Always` the ticket is renewed in time \
          and the capacity stays reserved. Without `duration` a ticket lasts 24h, or indefinitely with `refreshPolicy: \
          Never`.",
    hint: "strategy:\n  refreshPolicy: Always\n# or a duration that ends before the next scheduled time:\ntemplate:\n  spec:\n    duration: 1h",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for ReservingObject { object, order, .. } in reserving_objects(all) {
        let Some(order) = order.filter(|order| order.refresh != Refresh::Always) else { continue };
        let Strategy::Recurring(timetable) = &order.strategy else { continue };
        // UTC has no 23-hour days, so a daily schedule is not reported because of daylight saving time.
        let fires = Firing::from_schedule(&timetable.schedule, &TimeZone::UTC);
        let Firing::Every(Some(period)) = fires else { continue };
        let lasts = match order.duration() {
            None => "indefinitely".to_owned(),
            Some(duration) if duration.as_secs() > period => human(duration.unsigned_abs()),
            Some(_) => continue,
        };
        let written = object.field("spec.template.spec.duration");
        let place = if written.is_missing() { object.field("spec.strategy.schedule") } else { written };
        let period = human(Duration::from_secs(period.unsigned_abs()));
        found.at(
            &place,
            format!(
                "tickets of Order {} last {lasts}, but the next ones are due after {period}",
                object.name
            ),
        );
    }
}
