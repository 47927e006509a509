//! Batches events: at most one per second and object, so that a thousand groups do not cause a thousand events.

use rollcall_core::Uid;
use rollcall_core::decision::{Event, EventKind};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

const GATHER_FOR: Duration = Duration::from_secs(1);
/// Kubernetes rejects a longer note.
const LONGEST_MESSAGE: usize = 1000;
/// Most messages in one event. Users would not read more.
const EVENTS_PER_MESSAGE: usize = 20;

#[derive(Default)]
pub struct Announcer {
    pending: BTreeMap<Uid, Vec<Event>>,
    sent: BTreeMap<Uid, Instant>,
    due: BTreeSet<(Instant, Uid)>,
}

impl Announcer {
    pub fn add(&mut self, events: Vec<Event>, now: Instant) {
        for event in events {
            self.add_one(event, now);
        }
    }

    fn add_one(&mut self, event: Event, now: Instant) {
        let uid = event.about.uid;
        let pending = self.pending.entry(uid).or_default();
        if pending.is_empty() {
            let at = self.sent.get(&uid).map_or(now, |sent| (*sent + GATHER_FOR).max(now));
            self.due.insert((at, uid));
        }
        pending.push(event);
        if pending.len() > EVENTS_PER_MESSAGE {
            pending.remove(0);
        }
    }

    pub fn next_moment(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Returns the next event that is due: one that contains all pending messages about its object.
    pub fn pop(&mut self, now: Instant) -> Option<Event> {
        let (at, uid) = self.due.first().copied().filter(|(at, _)| *at <= now)?;
        self.due.remove(&(at, uid));
        // After a pause of `GATHER_FOR`, the next event about an object is sent immediately.
        self.sent.retain(|_, sent| *sent + GATHER_FOR > now);
        self.sent.insert(uid, now);
        let events = self.pending.remove(&uid)?;
        Some(gathered(events))
    }

    pub fn forget(&mut self, uid: Uid) {
        self.pending.remove(&uid);
        self.sent.remove(&uid);
        self.due.retain(|(_, other)| *other != uid);
    }
}

/// Merges several events. Kind and reason are those of the last warning, or else of the last event.
fn gathered(mut events: Vec<Event>) -> Event {
    if events.len() == 1 {
        return events.remove(0);
    }
    let last = events.last().map(|event| (event.kind, event.reason));
    let warning = events.iter().rev().find(|event| event.kind == EventKind::Warning);
    let named = warning.map(|event| (event.kind, event.reason)).or(last);
    let about = events[0].about.clone();
    let (kind, reason) = named.unwrap_or((EventKind::Normal, "Progress"));
    let mut message = events.into_iter().map(|event| event.message).collect::<Vec<_>>().join("; ");
    if message.len() > LONGEST_MESSAGE {
        let cut = (0..=LONGEST_MESSAGE - 3).rev().find(|cut| message.is_char_boundary(*cut)).unwrap_or(0);
        message.truncate(cut);
        message.push('…');
    }
    Event { about, kind, reason, message }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rollcall_core::decision::Subject;
    use rollcall_core::kind::Kind;

    fn about() -> Subject {
        Subject { kind: Kind::Sequence, namespace: "n".into(), name: "s".into(), uid: Uid::digest("s") }
    }

    fn news(reason: &'static str, kind: EventKind) -> Event {
        Event { about: about(), kind, reason, message: format!("about {reason}") }
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_goes_at_once_and_the_rest_together() {
        let mut announcer = Announcer::default();
        let now = Instant::now();
        announcer.add(vec![news("GroupOpened", EventKind::Normal)], now);
        assert_eq!(announcer.pop(now).unwrap().reason, "GroupOpened");
        announcer.add(vec![news("Timeout", EventKind::Warning)], now);
        announcer.add(vec![news("Completed", EventKind::Normal)], now);
        assert_eq!(announcer.pop(now), None);
        let event = announcer.pop(now + GATHER_FOR).unwrap();
        assert_eq!((event.kind, event.reason), (EventKind::Warning, "Timeout"));
        assert_eq!(event.message, "about Timeout; about Completed");
        assert_eq!(announcer.next_moment(), None);
    }

    #[test]
    fn a_long_story_is_cut_at_a_character() {
        let events = (0..15).map(|_| Event {
            about: about(),
            kind: EventKind::Normal,
            reason: "GroupOpened",
            message: "\"Schicht für Übergänge\" is open".repeat(5),
        });
        let event = gathered(events.collect());
        assert!(event.message.len() <= LONGEST_MESSAGE && event.message.ends_with('…'));
    }
}
