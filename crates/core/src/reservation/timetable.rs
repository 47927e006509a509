//! When an Order reserves capacity. Computed only from times that are stored in objects, so the process keeps no state: neither
//! the last tick (scheduled time), nor the existence of deleted tickets.

use super::spec::{OrderSpec, Refresh, Strategy};
use crate::{Timestamp, schedule::Schedule};
use jiff::{SignedDuration, tz::TimeZone};

/// A schedule in its time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timetable {
    pub schedule: Schedule,
    pub zone: TimeZone,
}

/// How far back the last tick is searched for, in increasing steps. A schedule with frequent ticks is found in the first step.
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

    /// The latest tick at or before `now`; `None` if there was none in the last year.
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
    /// It reserves now. Contains the tick if it has a schedule.
    Open { tick: Option<Timestamp> },
    /// It next reserves at this time.
    Opens(Timestamp),
    /// It does not reserve any more.
    Closed,
}

/// The stored times of an Order. They determine its windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderTimes {
    pub created: Timestamp,
    /// The tick of its last reservation, from its status.
    pub last_tick: Option<Timestamp>,
}

/// Returns the end of a period; `None` if it has no end.
pub fn ends(begin: Timestamp, duration: Option<SignedDuration>) -> Option<Timestamp> {
    duration.map(|duration| begin.checked_add(duration).unwrap_or(Timestamp::MAX))
}

impl OrderSpec {
    /// Whether a new ticket is created now. `since` is when its place became free: the latest of the creation of the
    /// Order, the creation of the node, and the last claim there.
    pub fn window(&self, times: OrderTimes, since: Timestamp, now: Timestamp) -> Window {
        let duration = self.duration();
        let is_over = |begin: Timestamp| ends(begin, duration).is_some_and(|end| end <= now);
        let always = self.refresh == Refresh::Always;
        match &self.strategy {
            Strategy::OneTime => match always || !is_over(since.max(self.start(since))) {
                true => Window::Open { tick: None },
                false => Window::Closed,
            },
            Strategy::Scheduled(timetable) => {
                // An Order that has reserved keeps its tick, so a change of the schedule does not make it reserve again.
                let tick = times.last_tick.or_else(|| timetable.next(times.created));
                match tick {
                    None => Window::Closed,
                    Some(tick) if tick > now => Window::Opens(tick),
                    Some(tick) if always || !is_over(tick) => Window::Open { tick: Some(tick) },
                    Some(_) => Window::Closed,
                }
            }
            Strategy::Recurring(timetable) => {
                // A window that ended before the Order was created does not count.
                let own = |tick: &Timestamp| ends(*tick, duration).is_none_or(|end| end > times.created);
                let last = timetable.last(now).filter(own);
                match last.filter(|tick| always || !is_over(*tick)) {
                    Some(tick) => Window::Open { tick: Some(tick) },
                    None => timetable.next(now).map_or(Window::Closed, Window::Opens),
                }
            }
        }
    }

    fn start(&self, otherwise: Timestamp) -> Timestamp {
        self.template.spec.start.unwrap_or(otherwise)
    }

    /// The next time when the window of the Order as a whole may open or close.
    pub fn next_change(&self, times: OrderTimes, now: Timestamp) -> Option<Timestamp> {
        let OrderTimes { created, .. } = times;
        let changes = match self.window(times, created, now) {
            Window::Opens(tick) => Some(tick),
            Window::Open { .. } if self.refresh == Refresh::Always => None,
            Window::Open { tick } => {
                ends(tick.unwrap_or_else(|| created.max(self.start(created))), self.duration())
            }
            Window::Closed => None,
        };
        let next_tick = match &self.strategy {
            Strategy::Recurring(timetable) => timetable.next(now),
            Strategy::OneTime | Strategy::Scheduled(_) => None,
        };
        changes.into_iter().chain(next_tick).filter(|at| *at > now).min()
    }
}
