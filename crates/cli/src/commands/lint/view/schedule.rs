//! When a schedule fires, as interpreted by the core.

use crate::commands::lint::field::Field;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use rollcall_core::schedule::Schedule;

/// Number of firings examined for the shortest interval: over a year of a daily schedule, some hours of a schedule that fires
/// each minute.
const LOOKED_AT: usize = 400;
/// Start of the examined time, arbitrary except that a leap year has every date.
const FROM: &str = "2024-01-01T00:00:00Z";

/// How often a schedule fires.
pub enum Firing {
    /// The schedule is invalid; RC001 or RC601 reports it.
    Unreadable,
    Never,
    /// Shortest interval between two firings, in seconds; `None` if the schedule fires only once within years.
    Every(Option<i64>),
}

/// Returns how often a schedule fires in its time zone (UTC if that is missing or invalid).
pub fn firing(schedule: &Field, zone: &Field) -> Firing {
    let Ok(schedule) = Schedule::parse(schedule.text()) else {
        return Firing::Unreadable;
    };
    let zone =
        if zone.is_missing() { TimeZone::UTC } else { TimeZone::get(zone.text()).unwrap_or(TimeZone::UTC) };
    Firing::from_schedule(&schedule, &zone)
}

impl Firing {
    pub fn from_schedule(schedule: &Schedule, zone: &TimeZone) -> Firing {
        let from: Timestamp = FROM.parse().expect("a time");
        let mut last = match schedule.next(from, zone) {
            Some(first) => first,
            None => return Firing::Never,
        };
        let mut shortest: Option<i64> = None;
        for _ in 0..LOOKED_AT {
            let Some(next) = schedule.next(last, zone) else { break };
            let pause = next.as_second() - last.as_second();
            shortest = Some(shortest.map_or(pause, |shortest| shortest.min(pause)));
            last = next;
        }
        Firing::Every(shortest)
    }
}
