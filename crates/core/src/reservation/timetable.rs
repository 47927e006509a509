//! When an Order reserves. Everything is computed from the times that stand in the objects, so nothing has to be remembered: not the
//! last tick, and not that a ticket has been there and is deleted.

use super::spec::{OrderSpec, Refresh, Strategy};
use crate::{Timestamp, schedule::Schedule};
use jiff::{SignedDuration, tz::TimeZone};

/// A schedule in its time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timetable {
    pub schedule: Schedule,
    pub zone: TimeZone,
}

/// How far back a tick is looked for, step by step: a schedule that ticks often is not gone through for a year.
const LOOK_BACK: [SignedDuration; 5] = [
    SignedDuration::from_mins(2),
    SignedDuration::from_hours(1),
    SignedDuration::from_hours(24),
    SignedDuration::from_hours(24 * 32),
    SignedDuration::from_hours(24 * 366),
];

impl Timetable {
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        self.schedule.next(after, &self.zone)
    }

    /// The last tick that is not later than `now`; `None` if there was none in the last year.
    pub fn last(&self, now: Timestamp) -> Option<Timestamp> {
        LOOK_BACK.iter().find_map(|back| {
            let mut found = None;
            let mut after = now.checked_sub(*back).ok()?;
            while let Some(tick) = self.next(after).filter(|tick| *tick <= now) {
                (found, after) = (Some(tick), tick);
            }
            found
        })
    }
}

/// Whether an Order reserves now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// It does, for this tick if it has a schedule.
    Open {
        tick: Option<Timestamp>,
    },
    /// Not before this time.
    Opens(Timestamp),
    Closed,
}

/// The end of what begins then; `None` if there is none.
pub fn ends(begin: Timestamp, duration: Option<SignedDuration>) -> Option<Timestamp> {
    duration.map(|duration| begin.checked_add(duration).unwrap_or(Timestamp::MAX))
}

impl OrderSpec {
    /// Whether a new ticket is made now, for an Order of this age. `since` is when the place appeared in which it would be: the
    /// latest of the creation of the Order, of the node, and of the last claim there.
    pub fn window(&self, created: Timestamp, since: Timestamp, now: Timestamp) -> Window {
        let duration = self.duration();
        let is_over = |begin: Timestamp| ends(begin, duration).is_some_and(|end| end <= now);
        let always = self.refresh == Refresh::Always;
        match &self.strategy {
            Strategy::OneTime => {
                let start = self.template.spec.start.unwrap_or(since);
                match always || !is_over(since.max(start)) {
                    true => Window::Open { tick: None },
                    false => Window::Closed,
                }
            }
            Strategy::Scheduled(timetable) => {
                let tick = match timetable.last(created) {
                    Some(tick) if ends(tick, duration).is_none_or(|end| end > created) => Some(tick),
                    _ => timetable.next(created),
                };
                match tick {
                    None => Window::Closed,
                    Some(tick) if tick > now => Window::Opens(tick),
                    Some(tick) if always || !is_over(tick) => Window::Open { tick: Some(tick) },
                    Some(_) => Window::Closed,
                }
            }
            Strategy::Recurring(timetable) => {
                // One that was over before the Order was created is none of its own.
                let own = |tick: &Timestamp| ends(*tick, duration).is_none_or(|end| end > created);
                let last = timetable.last(now).filter(own);
                match last.filter(|tick| always || !is_over(*tick)) {
                    Some(tick) => Window::Open { tick: Some(tick) },
                    None => timetable.next(now).map_or(Window::Closed, Window::Opens),
                }
            }
        }
    }

    /// The next time at which the window may be another one, whatever happens.
    pub fn next_change(&self, created: Timestamp, now: Timestamp) -> Option<Timestamp> {
        match &self.strategy {
            Strategy::OneTime => None,
            Strategy::Scheduled(_) => match self.window(created, created, now) {
                Window::Opens(tick) => Some(tick),
                Window::Open { .. } | Window::Closed => None,
            },
            Strategy::Recurring(timetable) => timetable.next(now),
        }
    }
}
