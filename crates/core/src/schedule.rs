//! Cron schedules, with the meaning that Kubernetes gives them.
//!
//! A schedule has five fields: minute, hour, day of the month, month and day of the week. Fields accept lists, ranges, steps and
//! names. Descriptors such as `@daily` and `@every 1h30m` are supported, too. Sunday is 0 or 7; the API server rejects 7 in
//! CronJobs.
//!
//! A date must match both day fields. If both are restricted, matching one of them is enough. Times that daylight saving skips in
//! spring do not occur; times that it repeats in autumn occur twice. See docs/decisions/0010.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan, Zoned};

/// Number of years that are searched for the next time. A schedule may have none, such as 31 February.
const YEARS: i16 = 5;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Schedule {
    Fields(Fields),
    Every(SignedDuration),
}

/// The permitted values of each field, as bit masks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fields {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether the day of the month is unrestricted; likewise `any_weekday` for the day of the week.
    any_day: bool,
    any_weekday: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSchedule {
    #[error("expected exactly 5 fields, found {0}: {1:?}")]
    Count(usize, String),
    #[error("{0:?} is not a number, name, range or step")]
    Part(String),
    #[error("{0:?} is not a value or ascending range from {1} to {2}")]
    Range(String, u32, u32),
    #[error("unknown descriptor {0:?}")]
    Descriptor(String),
}

struct Bounds {
    first: u32,
    /// The end of the range that a star stands for.
    last: u32,
    /// The largest accepted number. For weekdays this is 7, a second number for Sunday.
    written: u32,
    names: &'static [&'static str],
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const BOUNDS: [Bounds; 5] = [
    Bounds { first: 0, last: 59, written: 59, names: &[] },
    Bounds { first: 0, last: 23, written: 23, names: &[] },
    Bounds { first: 1, last: 31, written: 31, names: &[] },
    Bounds { first: 1, last: 12, written: 12, names: &MONTHS },
    Bounds { first: 0, last: 6, written: 7, names: &WEEKDAYS },
];

/// The bit of weekday 7, which means Sunday like weekday 0.
const SEVENTH: u64 = 1 << 7;

impl Schedule {
    pub fn parse(text: &str) -> Result<Schedule, InvalidSchedule> {
        let text = text.trim();
        let five = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            _ if text.starts_with('@') => return parse_every(text),
            _ => text,
        };
        let parts: Vec<&str> = five.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = parts[..] else {
            return Err(InvalidSchedule::Count(parts.len(), text.to_owned()));
        };
        let [minutes, hours, days, months, weekdays] = &BOUNDS;
        let (days, any_day) = parse_field(day, days)?;
        let (weekdays, any_weekday) = parse_field(weekday, weekdays)?;
        Ok(Schedule::Fields(Fields {
            minutes: parse_field(minute, minutes)?.0,
            hours: parse_field(hour, hours)?.0,
            months: parse_field(month, months)?.0,
            days,
            weekdays: (weekdays & !SEVENTH) | ((weekdays & SEVENTH) >> 7),
            any_day,
            any_weekday,
        }))
    }

    /// Returns the first scheduled time after `after`; `None` if there is none in the next years.
    pub fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match self {
            Schedule::Fields(fields) => fields.next(after.to_zoned(zone.clone())),
            Schedule::Every(period) => {
                let next = after.checked_add(*period).ok()?;
                Timestamp::from_second(next.as_second()).ok()
            }
        }
    }
}

fn parse_every(text: &str) -> Result<Schedule, InvalidSchedule> {
    let unknown = || InvalidSchedule::Descriptor(text.to_owned());
    let period: SignedDuration =
        text.strip_prefix("@every ").ok_or_else(unknown)?.trim().parse().map_err(|_| unknown())?;
    // Fractions of a second are dropped, and the minimum is one second.
    Ok(Schedule::Every(SignedDuration::from_secs(period.as_secs().max(1))))
}

/// Returns the bit mask of a field, and whether the field is unrestricted.
fn parse_field(field: &str, bounds: &Bounds) -> Result<(u64, bool), InvalidSchedule> {
    let (mut bits, mut any) = (0, false);
    for part in field.split(',') {
        let (more, star) = parse_part(part, bounds)?;
        bits |= more;
        any |= star;
    }
    Ok((bits, any))
}

fn parse_part(part: &str, bounds: &Bounds) -> Result<(u64, bool), InvalidSchedule> {
    let (range, step) = match part.split_once('/') {
        Some((range, step)) => {
            let step = step.parse::<u32>().ok().filter(|step| *step > 0);
            (range, Some(step.ok_or_else(|| InvalidSchedule::Part(part.to_owned()))?))
        }
        None => (part, None),
    };
    let star = matches!(range, "*" | "?");
    let (first, last) = match range.split_once('-') {
        _ if star => (bounds.first, bounds.last),
        Some((first, last)) => (parse_value(first, bounds)?, parse_value(last, bounds)?),
        None => {
            let value = parse_value(range, bounds)?;
            // `5/10` means `5-last/10`.
            (value, if step.is_some() { bounds.last.max(value) } else { value })
        }
    };
    if first < bounds.first || last > bounds.written || first > last {
        return Err(InvalidSchedule::Range(part.to_owned(), bounds.first, bounds.written));
    }
    let step = step.unwrap_or(1);
    let bits = (first..=last).step_by(step as usize).fold(0, |bits, value| bits | 1 << value);
    // A star with a step is a restriction.
    Ok((bits, star && step == 1))
}

fn parse_value(text: &str, bounds: &Bounds) -> Result<u32, InvalidSchedule> {
    let lower = text.to_ascii_lowercase();
    if let Some(place) = bounds.names.iter().position(|name| *name == lower) {
        return Ok(place as u32 + bounds.first);
    }
    text.parse().map_err(|_| InvalidSchedule::Part(text.to_owned()))
}

fn has(bits: u64, value: i8) -> bool {
    u32::try_from(value).is_ok_and(|value| bits & (1 << value) != 0)
}

impl Fields {
    fn is_day(&self, date: Date) -> bool {
        let day = has(self.days, date.day());
        let weekday = has(self.weekdays, date.weekday().to_sunday_zero_offset());
        if self.any_day || self.any_weekday { day && weekday } else { day || weekday }
    }

    fn next(&self, after: Zoned) -> Option<Timestamp> {
        let start = after.timestamp();
        let mut date = after.date();
        let last = date.year().checked_add(YEARS)?;
        while date.year() <= last {
            if has(self.months, date.month())
                && self.is_day(date)
                && let Some(found) = self.next_of_day(date, start, after.time_zone())
            {
                return Some(found);
            }
            date = match has(self.months, date.month()) {
                true => date.tomorrow().ok()?,
                false => date.first_of_month().checked_add(1.month()).ok()?,
            };
        }
        None
    }

    /// Returns the first scheduled time of a day after `start`. Iterates over elapsed time, not over clock times, so skipped
    /// hours do not occur and repeated hours occur twice.
    fn next_of_day(&self, date: Date, start: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let mut at = date.to_zoned(zone.clone()).ok()?;
        if at.timestamp() < start {
            // Continue from the beginning of the minute that contains `start`.
            let minute = start.as_second().div_euclid(60) * 60;
            at = Timestamp::from_second(minute).ok()?.to_zoned(zone.clone());
        }
        while at.date() == date {
            if !has(self.hours, at.hour()) {
                let to_next_hour = 60 - i64::from(at.minute());
                at = at.checked_add(to_next_hour.minutes()).ok()?;
            } else if has(self.minutes, at.minute()) && at.timestamp() > start {
                return Some(at.timestamp());
            } else {
                at = at.checked_add(1.minute()).ok()?;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(schedule: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
        let schedule = Schedule::parse(schedule).unwrap();
        let zone = TimeZone::get(zone).unwrap();
        let mut at: Timestamp = after.parse().unwrap();
        let mut found = Vec::new();
        for _ in 0..count {
            let Some(next) = schedule.next(at, &zone) else { break };
            at = next;
            found.push(at.to_string());
        }
        found
    }

    #[test]
    fn fields_lists_ranges_steps_and_names() {
        for (schedule, expected) in [
            ("*/20 * * * *", ["2026-01-01T00:20:00Z", "2026-01-01T00:40:00Z", "2026-01-01T01:00:00Z"]),
            ("5/25 3 * * *", ["2026-01-01T03:05:00Z", "2026-01-01T03:30:00Z", "2026-01-01T03:55:00Z"]),
            (
                "0 9-17/4 * * MON-FRI",
                ["2026-01-01T09:00:00Z", "2026-01-01T13:00:00Z", "2026-01-01T17:00:00Z"],
            ),
            ("0 0 29 feb *", ["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z", "2036-02-29T00:00:00Z"]),
            ("0 0 13 * 5", ["2026-01-02T00:00:00Z", "2026-01-09T00:00:00Z", "2026-01-13T00:00:00Z"]),
            // A star with a step is a restriction. With both day fields restricted, matching one of them is enough.
            ("0 0 */10 * 5", ["2026-01-02T00:00:00Z", "2026-01-09T00:00:00Z", "2026-01-11T00:00:00Z"]),
            ("0 0 * * 7", ["2026-01-04T00:00:00Z", "2026-01-11T00:00:00Z", "2026-01-18T00:00:00Z"]),
            ("0 0 * * 5-7", ["2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z", "2026-01-04T00:00:00Z"]),
            // `5/2` ends with Saturday, the last day of the week.
            ("0 0 * * 5/2", ["2026-01-02T00:00:00Z", "2026-01-09T00:00:00Z", "2026-01-16T00:00:00Z"]),
            ("@weekly", ["2026-01-04T00:00:00Z", "2026-01-11T00:00:00Z", "2026-01-18T00:00:00Z"]),
            ("@every 1h30m", ["2026-01-01T01:30:00Z", "2026-01-01T03:00:00Z", "2026-01-01T04:30:00Z"]),
        ] {
            assert_eq!(times(schedule, "UTC", "2026-01-01T00:00:00Z", 3), expected, "{schedule}");
        }
    }

    #[test]
    fn what_never_comes_is_not_waited_for() {
        assert!(times("0 0 31 2 *", "UTC", "2026-01-01T00:00:00Z", 1).is_empty());
    }

    #[test]
    fn zones_and_their_changes() {
        let new_york = |schedule, after, count| times(schedule, "America/New_York", after, count);
        assert_eq!(new_york("0 9 * * *", "2026-01-01T00:00:00Z", 1), ["2026-01-01T14:00:00Z"]);
        // In spring, 02:30 is skipped.
        assert_eq!(
            new_york("30 2 * * *", "2025-03-08T00:00:00Z", 2),
            ["2025-03-08T07:30:00Z", "2025-03-10T06:30:00Z"]
        );
        // In autumn, 01:30 occurs twice.
        assert_eq!(
            new_york("30 1 * * *", "2025-11-02T00:00:00Z", 3),
            ["2025-11-02T05:30:00Z", "2025-11-02T06:30:00Z", "2025-11-03T06:30:00Z"]
        );
        let kolkata = times("0 0 * * *", "Asia/Kolkata", "2026-01-01T00:00:00Z", 1);
        assert_eq!(kolkata, ["2026-01-01T18:30:00Z"]);
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        for text in [
            "",
            "* * * *",
            "60 * * * *",
            "* * 0 * *",
            "a * * * *",
            "5-1 * * * *",
            "*/0 * * * *",
            "* * * * 8",
            "@never",
        ] {
            assert!(Schedule::parse(text).is_err(), "{text:?}");
        }
    }
}
