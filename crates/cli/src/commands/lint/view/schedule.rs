//! When a schedule fires, by the core's own reading of it.

use crate::commands::lint::field::Field;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use rollcall_core::schedule::Schedule;

/// Times looked at for the shortest pause between two: a year of days, and a few hours of minutes.
const LOOKED_AT: usize = 400;
/// Any time would do; a leap year has every day.
const FROM: &str = "2024-01-01T00:00:00Z";

/// What is known about when a schedule fires.
pub enum Firing {
    /// It cannot be read; the API server says so.
    Unreadable,
    Never,
    /// Seconds between two times, where that is shortest; `None` if there is only one in years.
    Every(Option<i64>),
}

/// Of a schedule as it is written, and of the time zone beside it.
pub fn firing(schedule: &Field, zone: &Field) -> Firing {
    let Ok(schedule) = Schedule::parse(schedule.text()) else {
        return Firing::Unreadable;
    };
    let zone =
        if zone.is_missing() { TimeZone::UTC } else { TimeZone::get(zone.text()).unwrap_or(TimeZone::UTC) };
    Firing::of(&schedule, &zone)
}

impl Firing {
    pub fn of(schedule: &Schedule, zone: &TimeZone) -> Firing {
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
