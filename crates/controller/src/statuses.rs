//! Scheduling of status writes. A phase, or a time that a decision needs, is written immediately, progress within a second, and
//! other changes at most every ten seconds. A status that changes nothing is never written.

use crate::watch::WrittenStatus;
use jiff::Timestamp;
use rollcall_core::Uid;
use rollcall_core::planted::{Bug, planted};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

/// Least time between two writes that show progress, such as an opened or completed group. It grows with the number of groups,
/// because larger statuses cost the API server more.
const PROGRESS: Duration = Duration::from_secs(1);
const PROGRESS_PER_GROUP: Duration = Duration::from_millis(20);
/// Least time between two writes of a status that is not urgent, per object.
const COALESCE: Duration = Duration::from_secs(10);
/// Least time between two statuses that are not urgent, over all objects: thousands of statuses must not delay the releases of
/// pods.
const BETWEEN_TWO: Duration = Duration::from_millis(200);
/// First wait after a failed write. After a conflict, the write is retried as soon as a newer version of the object is seen.
const RETRY: Duration = Duration::from_secs(1);
/// Longest wait between retries. The wait doubles after each failure, because it is useless to send a rejected status every
/// second.
const LONGEST_RETRY: Duration = Duration::from_secs(30);
/// Time without a foreign write to the status after which earlier ones are forgotten.
const FORGIVEN: Duration = Duration::from_secs(120);

/// A kind of object whose status is written here.
pub trait Reported {
    /// The status in the form of a decision.
    type Wanted: PartialEq;
    /// The status in the form of the API object.
    type Status: Clone + PartialEq;

    fn report(wanted: &Self::Wanted, written: Option<&Self::Status>, wall: Timestamp) -> Self::Status;
    /// The generation of the spec that the decision was made for. `observed`: the generation that a status refers to.
    fn generation(wanted: &Self::Wanted) -> i64;
    fn observed(status: &Self::Status) -> Option<i64>;
    /// Whether the new status contains progress that users watch for.
    fn has_progress(wanted: &Self::Wanted, written: Option<&Self::Status>) -> bool;
    /// Whether it is urgent although the decision does not say so, because users or later decisions wait for it.
    fn is_awaited(_wanted: &Self::Wanted, _written: &Self::Status) -> bool {
        false
    }
    /// Number of parts, such as groups: the more parts, the more a write costs the API server.
    fn parts(wanted: &Self::Wanted) -> u32;
}

pub struct Statuses<R: Reported> {
    states: BTreeMap<Uid, StatusState<R>>,
    due: BTreeSet<(Instant, Uid)>,
    /// Like `due`, for statuses that are not urgent.
    due_in_turn: BTreeSet<(Instant, Uid)>,
    /// The earliest time of the next write that is not urgent.
    next_slot: Option<Instant>,
}

struct StatusState<R: Reported> {
    wanted: Option<R::Wanted>,
    /// The wanted status was decided before the current status of the object was seen. The current one may contain more, so the
    /// wanted one must not overwrite it.
    outdated: bool,
    written: Option<WrittenStatus<R::Status>>,
    due: Option<Due>,
    /// Time when the last write was sent.
    sent: Option<Instant>,
    in_flight: bool,
    /// A status that became due while a write was in flight. It is due again when the answer arrives.
    passed_over: Option<Due>,
    /// Number of consecutive failures. `not_before`: end of the back-off.
    refused: u32,
    not_before: Option<Instant>,
    /// The last write failed because of a conflict, so the next view of the object triggers a retry.
    moved: bool,
    /// The current status was written by us.
    ours: bool,
    /// Number of consecutive times that another party overwrote our status. `contradicted_at`: time of the last one.
    contradicted: u32,
    contradicted_at: Option<Instant>,
}

// Not derived: that would require `Default` for the types of statuses.
impl<R: Reported> Default for Statuses<R> {
    fn default() -> Self {
        let (states, due, due_in_turn) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        Statuses { states, due, due_in_turn, next_slot: None }
    }
}

impl<R: Reported> Default for StatusState<R> {
    fn default() -> Self {
        StatusState {
            wanted: None,
            outdated: false,
            written: None,
            due: None,
            sent: None,
            in_flight: false,
            passed_over: None,
            refused: 0,
            not_before: None,
            moved: false,
            ours: false,
            contradicted: 0,
            contradicted_at: None,
        }
    }
}

/// The outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The status was written as sent.
    Done,
    /// A conflict: the object has changed in between.
    Moved,
    Failed,
}

/// The time when a status is due, and whether it waits for its turn because it is not urgent.
#[derive(Clone, Copy, Debug)]
struct Due {
    at: Instant,
    in_turn: bool,
}

/// A status to write, because it differs from that of the object.
pub struct DueWrite<S> {
    pub uid: Uid,
    pub resource_version: String,
    pub status: S,
}

impl Due {
    /// Combines two due times: the earlier time applies, and urgency is kept.
    fn or_earlier(self, other: Option<Due>) -> Due {
        let Some(other) = other else { return self };
        Due { at: self.at.min(other.at), in_turn: self.in_turn && other.in_turn }
    }
}

impl<R: Reported> StatusState<R> {
    /// Whether the status is of an older spec. Clients that wait for an edit to be processed wait for `observedGeneration`.
    fn is_of_older_spec(&self) -> bool {
        let wanted = self.wanted.as_ref().map(R::generation);
        let status = self.written.as_ref().and_then(|written| written.status.as_ref());
        status.is_some_and(|status| R::observed(status) != wanted)
    }

    fn is_awaited(&self) -> bool {
        let status = self.written.as_ref().and_then(|written| written.status.as_ref());
        self.wanted.as_ref().zip(status).is_some_and(|(wanted, status)| R::is_awaited(wanted, status))
    }

    /// The wait before an urgent status. Usually zero; but if another controller keeps overwriting our status, the two must not
    /// answer each other immediately and indefinitely.
    fn contradiction_backoff(&self, now: Instant) -> Duration {
        match self.contradicted {
            times if times > 0 && self.is_contradicted_still(now) => {
                RETRY.saturating_mul(1 << (times - 1).min(8)).min(LONGEST_RETRY)
            }
            _ => Duration::ZERO,
        }
    }

    fn is_contradicted_still(&self, now: Instant) -> bool {
        self.contradicted_at.is_some_and(|at| now < at + FORGIVEN)
    }

    fn progress_apart(&self) -> Duration {
        let parts = self.wanted.as_ref().map_or(0, R::parts);
        (PROGRESS + PROGRESS_PER_GROUP * parts).min(COALESCE)
    }

    fn has_progress(&self) -> bool {
        let written = self.written.as_ref().and_then(|written| written.status.as_ref());
        self.wanted.as_ref().is_some_and(|wanted| R::has_progress(wanted, written))
    }
}

impl<R: Reported> Statuses<R> {
    /// Records the current status of an object.
    pub fn observed(&mut self, uid: Uid, written: WrittenStatus<R::Status>) {
        let state = self.states.entry(uid).or_default();
        let other = state.written.as_ref().is_some_and(|known| known.status != written.status);
        // The watch also shows our own writes and changes of other fields; these do not contradict our status.
        if other && std::mem::take(&mut state.ours) && !planted(Bug::StatusFight) {
            let now = Instant::now();
            state.contradicted = if state.is_contradicted_still(now) { state.contradicted + 1 } else { 1 };
            state.contradicted_at = Some(now);
        }
        state.outdated |= other;
        state.written = Some(written);
        if std::mem::take(&mut state.moved) {
            (state.refused, state.not_before) = (0, None);
            let due = state.due.zip(state.sent).map(|(due, sent)| Due { at: sent, ..due });
            self.set_due(uid, due);
        }
    }

    pub fn want(&mut self, uid: Uid, status: R::Wanted, urgent: bool, now: Instant) {
        let state = self.states.entry(uid).or_default();
        let same = state.wanted.as_ref() == Some(&status);
        (state.wanted, state.outdated) = (Some(status), false);
        let urgent = urgent || state.is_of_older_spec() || state.is_awaited();
        if same && state.due.is_some() && !urgent {
            return;
        }
        let apart = match (urgent, state.has_progress()) {
            (true, _) => state.contradiction_backoff(now),
            (false, true) => state.progress_apart(),
            (false, false) => COALESCE,
        };
        let at = state.sent.map_or(now, |sent| (sent + apart).max(now));
        let at = state.not_before.map_or(at, |not_before| not_before.max(at));
        let due = Due { at, in_turn: !urgent }.or_earlier(state.due);
        self.set_due(uid, Some(due));
    }

    fn set_due(&mut self, uid: Uid, due: Option<Due>) {
        let Some(state) = self.states.get_mut(&uid) else { return };
        if let Some(old) = std::mem::replace(&mut state.due, due) {
            self.due_set(old).remove(&(old.at, uid));
        }
        if let Some(due) = due {
            self.due_set(due).insert((due.at, uid));
        }
    }

    fn due_set(&mut self, due: Due) -> &mut BTreeSet<(Instant, Uid)> {
        if due.in_turn { &mut self.due_in_turn } else { &mut self.due }
    }

    pub fn next_moment(&self) -> Option<Instant> {
        let urgent = self.due.first().map(|(at, _)| *at);
        let in_turn =
            self.due_in_turn.first().map(|(at, _)| self.next_slot.map_or(*at, |slot| slot.max(*at)));
        urgent.into_iter().chain(in_turn).min()
    }

    /// Returns the object whose status is due now, and whether it waited for its turn.
    fn next_due(&self, now: Instant) -> Option<(Uid, bool)> {
        let first =
            |due: &BTreeSet<(Instant, Uid)>| due.first().filter(|(at, _)| *at <= now).map(|(_, uid)| *uid);
        let my_turn = self.next_slot.is_none_or(|slot| slot <= now);
        let in_turn = || first(&self.due_in_turn).filter(|_| my_turn).map(|uid| (uid, true));
        first(&self.due).map(|uid| (uid, false)).or_else(in_turn)
    }

    /// Returns the next status to write now. Drops statuses that change nothing.
    pub fn pop(&mut self, now: Instant, wall: Timestamp) -> Option<DueWrite<R::Status>> {
        while let Some((uid, in_turn)) = self.next_due(now) {
            let due = self.states.get(&uid).and_then(|state| state.due);
            self.set_due(uid, None);
            let Some(state) = self.states.get_mut(&uid) else { continue };
            if state.in_flight {
                state.passed_over = due;
                continue;
            }
            let (Some(wanted), Some(written)) = (&state.wanted, &state.written) else { continue };
            // The decision about the current object will provide a newer status, which this one must not replace.
            if state.outdated || R::generation(wanted) < written.generation {
                continue;
            }
            let status = R::report(wanted, written.status.as_ref(), wall);
            if written.status.as_ref() == Some(&status) {
                continue;
            }
            state.in_flight = true;
            state.sent = Some(now);
            // The watch may show this write before the answer arrives.
            state.ours = false;
            if in_turn {
                self.next_slot = Some(now + BETWEEN_TWO);
            }
            return Some(DueWrite { uid, resource_version: written.resource_version.clone(), status });
        }
        None
    }

    pub fn answered(&mut self, uid: Uid, outcome: Outcome, now: Instant) {
        let Some(state) = self.states.get_mut(&uid) else { return };
        state.in_flight = false;
        state.ours = outcome == Outcome::Done;
        if outcome == Outcome::Failed && planted(Bug::StatusNotRetried) {
            return;
        }
        (state.refused, state.not_before) = match outcome {
            Outcome::Done => (0, None),
            Outcome::Moved | Outcome::Failed => {
                let wait = RETRY.saturating_mul(1 << state.refused.min(8)).min(LONGEST_RETRY);
                (state.refused + 1, Some(now + wait))
            }
        };
        state.moved = outcome == Outcome::Moved;
        let at = match outcome {
            Outcome::Done => state.sent.map_or(now, |sent| sent + COALESCE),
            Outcome::Moved | Outcome::Failed => state.not_before.unwrap_or(now + RETRY),
        };
        let passed_over = state.passed_over.take();
        let due = Due { at, in_turn: outcome == Outcome::Done };
        let mut due = due.or_earlier(state.due).or_earlier(passed_over);
        due.at = due.at.max(state.not_before.unwrap_or(now));
        self.set_due(uid, Some(due));
    }

    pub fn forget(&mut self, uid: Uid) {
        self.set_due(uid, None);
        self.states.remove(&uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequence::SequenceStatuses;
    use rollcall_api::sequence::{PodSequenceStatus, report};
    use rollcall_core::sequence::Status;
    use rollcall_core::sequence::status::Phase;

    type Statuses = super::Statuses<SequenceStatuses>;
    type WrittenStatus = super::WrittenStatus<PodSequenceStatus>;

    fn status(message: &str) -> Status {
        Status {
            observed_generation: 1,
            phase: Phase::Pending,
            current_index: 0,
            current_group_pods: Vec::new(),
            ready_pods_in_current_group: 0,
            processed_pods: Vec::new(),
            message: message.into(),
            groups: Vec::new(),
            blocked_by: Vec::new(),
            summary_group: String::new(),
            summary_ready: String::new(),
            resumed_at: None,
            begun_again: None,
            conditions: Vec::new(),
            nodes: None,
        }
    }

    fn written(status: PodSequenceStatus, version: &str) -> WrittenStatus {
        WrittenStatus { status: Some(status), resource_version: version.into(), ..unwritten(1) }
    }

    fn unwritten(generation: i64) -> WrittenStatus {
        let (uid, version) = (Uid::digest("s"), 1);
        WrittenStatus { uid, version, status: None, resource_version: "1".into(), generation }
    }

    fn seen(statuses: &mut Statuses, uid: Uid) {
        statuses.observed(uid, unwritten(1));
    }

    /// A replica that was paused sees statuses that other replicas wrote meanwhile. It must not overwrite them with older
    /// decisions.
    #[tokio::test(start_paused = true)]
    async fn what_was_decided_before_somebody_elses_status_was_seen_is_not_written_over_it() {
        let (mut statuses, uid, now) = (Statuses::default(), Uid::digest("s"), Instant::now());
        let wall = Timestamp::UNIX_EPOCH;
        statuses.observed(uid, unwritten(1));
        statuses.want(uid, status("old"), true, now);
        let theirs = report(&status("theirs"), None, wall);
        statuses.observed(uid, written(theirs, "2"));
        assert!(statuses.pop(now, wall).is_none());
        statuses.want(uid, status("new"), true, now);
        let due = statuses.pop(now, wall).expect("decided on the current status");
        assert_eq!((due.resource_version.as_str(), due.status.message.as_deref()), ("2", Some("new")));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_refused_is_tried_less_and_less() {
        let (mut statuses, uid, wall) = (Statuses::default(), Uid::digest("s"), Timestamp::UNIX_EPOCH);
        seen(&mut statuses, uid);
        let (begin, mut attempts) = (Instant::now(), 0);
        let mut now = begin;
        // Urgent changes every 100 ms do not cause more attempts.
        while now < begin + Duration::from_secs(300) {
            statuses.want(uid, status(&format!("{attempts}")), true, now);
            if statuses.pop(now, wall).is_some() {
                attempts += 1;
                statuses.answered(uid, Outcome::Failed, now);
            }
            now += Duration::from_millis(100);
        }
        assert!((5..20).contains(&attempts), "{attempts} attempts in five minutes");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_urgent_waits_for_its_turn_and_what_is_does_not() {
        let (mut statuses, wall) = (Statuses::default(), Timestamp::UNIX_EPOCH);
        let begin = Instant::now();
        let uids: Vec<Uid> = (0..100).map(|number| Uid::digest(&number.to_string())).collect();
        for uid in &uids {
            seen(&mut statuses, *uid);
            statuses.want(*uid, status("first"), false, begin);
        }
        let mut written = 0;
        for tenths in 0..=50 {
            let now = begin + Duration::from_millis(100 * tenths);
            while statuses.pop(now, wall).is_some() {
                written += 1;
            }
        }
        assert_eq!(written, 26, "one at once, then five a second for five seconds");
        let now = begin + Duration::from_millis(5001);
        statuses.want(uids[99], status("second"), true, now);
        assert_eq!(statuses.pop(now, wall).map(|due_write| due_write.uid), Some(uids[99]));
        assert!(statuses.pop(now, wall).is_none());
        assert_eq!(statuses.next_moment(), Some(begin + Duration::from_millis(5200)));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_due_while_a_write_is_in_flight_is_written_when_the_answer_arrives() {
        let (mut statuses, uid, wall) = (Statuses::default(), Uid::digest("s"), Timestamp::UNIX_EPOCH);
        let now = Instant::now();
        seen(&mut statuses, uid);
        statuses.want(uid, status("one"), true, now);
        let first = statuses.pop(now, wall).expect("the first one");
        statuses.want(uid, status("two"), true, now);
        assert!(statuses.pop(now, wall).is_none(), "one at a time");
        statuses.observed(uid, written(first.status, "2"));
        // The decision about the answer results in the same status, and does not mark it as urgent.
        statuses.want(uid, status("two"), false, now);
        statuses.answered(uid, Outcome::Done, now);
        let second = statuses.pop(now, wall).expect("not ten seconds later");
        assert_eq!(second.status.message.as_deref(), Some("two"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_status_of_an_older_spec_is_not_written_any_more() {
        let (mut statuses, uid, wall) = (Statuses::default(), Uid::digest("s"), Timestamp::UNIX_EPOCH);
        let now = Instant::now();
        seen(&mut statuses, uid);
        statuses.want(uid, status("of the first spec"), true, now);
        statuses.observed(uid, unwritten(2));
        assert!(statuses.pop(now, wall).is_none());
        statuses.want(uid, Status { observed_generation: 2, ..status("of the second") }, false, now);
        assert_eq!(
            statuses.pop(now, wall).and_then(|due_write| due_write.status.observed_generation),
            Some(2)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_object_moved_under_is_tried_at_the_next_news() {
        let (mut statuses, uid, wall) = (Statuses::default(), Uid::digest("s"), Timestamp::UNIX_EPOCH);
        let now = Instant::now();
        seen(&mut statuses, uid);
        statuses.want(uid, status("one"), true, now);
        assert!(statuses.pop(now, wall).is_some());
        statuses.answered(uid, Outcome::Moved, now);
        assert!(statuses.pop(now, wall).is_none());
        statuses.want(uid, status("two"), true, now);
        assert!(statuses.pop(now, wall).is_none(), "it would fail again");
        seen(&mut statuses, uid);
        assert!(statuses.pop(now, wall).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn two_that_see_different_things_do_not_answer_each_other_for_ever() {
        let (mut statuses, uid, wall) = (Statuses::default(), Uid::digest("s"), Timestamp::UNIX_EPOCH);
        let begin = Instant::now();
        seen(&mut statuses, uid);
        let mut attempts = 0;
        for tenths in 0..600 {
            let now = begin + Duration::from_millis(100 * tenths);
            statuses.want(uid, status("ours"), true, now);
            if let Some(due_write) = statuses.pop(now, wall) {
                attempts += 1;
                let ours = written(due_write.status, "2");
                statuses.observed(uid, ours.clone());
                statuses.answered(uid, Outcome::Done, now);
                // The watch also shows our status; then the other controller immediately overwrites it.
                statuses.observed(uid, ours);
                seen(&mut statuses, uid);
            }
        }
        assert!((4..12).contains(&attempts), "{attempts} attempts in a minute");
    }

    #[tokio::test(start_paused = true)]
    async fn own_writes_contradict_nobody_even_if_they_are_seen_before_their_answer() {
        let (mut statuses, uid, wall) = (Statuses::default(), Uid::digest("s"), Timestamp::UNIX_EPOCH);
        let now = Instant::now();
        seen(&mut statuses, uid);
        for message in ["one", "two", "three"] {
            statuses.want(uid, status(message), true, now);
            let due_write = statuses.pop(now, wall).expect("an urgent status is written at once");
            let ours = written(due_write.status, message);
            statuses.observed(uid, ours.clone());
            statuses.observed(uid, ours);
            statuses.answered(uid, Outcome::Done, now);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_object_moved_under_without_news_is_tried_less_and_less() {
        let (mut statuses, uid, wall) = (Statuses::default(), Uid::digest("s"), Timestamp::UNIX_EPOCH);
        let begin = Instant::now();
        seen(&mut statuses, uid);
        let mut attempts = 0;
        for seconds in 0..600 {
            let now = begin + Duration::from_secs(seconds);
            statuses.want(uid, status("one"), true, now);
            if statuses.pop(now, wall).is_some() {
                attempts += 1;
                statuses.answered(uid, Outcome::Moved, now);
            }
        }
        assert!((10..30).contains(&attempts), "{attempts} attempts in ten minutes");
    }
}
