//! The loop: one task, one index. Takes in news, decides about what it touches, sends what was decided.
//!
//! ```text
//! watches ─┐                     ┌─▶ releases, notes ─┐
//! answers ─┼─▶ index ─▶ decide ──┤                    ├─▶ API server
//! time ────┘                     └─▶ status, events ──┘
//! ```
//!
//! Releases come before statuses and statuses before events, so that what a person sees never holds up what they
//! wait for; every [`SHARE`]th write is kept for them, so that they are not held up for ever either.

use crate::act::{self, EventWrite, StatusWrite};
use crate::announce::Announcer;
use crate::client::{Failure, Meaning};
use crate::clock::Clock;
use crate::health::{HEARTBEAT, Health};
use crate::lease::News;
use crate::metrics::{ByInvariant, ByKind, ByState};
use crate::queue::Queue;
use crate::statuses::Statuses;
use crate::watch::{self, Item, Message};
use crate::{Config, LeaseLost};
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{BoxStream, FuturesUnordered, SelectAll, StreamExt};
use kube::Client;
use rollcall_core::Uid;
use rollcall_core::facts::Pod;
use rollcall_core::index::{Answer, Index, Kind, Listed, Note, Object};
use rollcall_core::sequence::{Action, Decision, Settings, check, decide};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// One write in so many may go to statuses and events while releases wait.
const SHARE: u32 = 32;
/// News taken in before the next decisions: enough to see a burst as one, little enough to stay prompt.
const BURST: usize = 256;
/// How long a release without a known outcome is left to the watch before the pod is looked at.
const LOOK_AFTER: Duration = Duration::from_secs(2);
/// How long a stop waits for writes that are under way.
const DRAIN: Duration = Duration::from_secs(5);

/// A write that was answered.
enum Done {
    Released { pod: Uid, key: Uid, since: Instant, answer: Result<Pod, Failure> },
    Looked { pod: Uid, answer: Result<Pod, Failure> },
    Noted { key: Uid, answer: Result<Note, Failure> },
    NoteDropped { key: Uid, answer: Result<(), Failure> },
    StatusWritten { key: Uid, answer: Result<Item, Failure> },
    Announced { answer: Result<(), Failure> },
}

pub struct Engine {
    client: Client,
    config: Config,
    clock: Clock,
    health: Arc<Health>,
    index: Index,
    queue: Queue,
    statuses: Statuses,
    announcer: Announcer,
    in_flight: FuturesUnordered<BoxFuture<'static, Done>>,
    /// What each list under way has named so far.
    listing: BTreeMap<Kind, BTreeSet<Listed>>,
    /// Releases whose outcome is unknown, by when to look at the pod.
    unsure: BTreeSet<(Instant, Uid)>,
    /// Notes that are being written or removed.
    noting: BTreeSet<Uid>,
    notes_work: bool,
    leading_until: Option<Instant>,
    lease_version: Option<String>,
    sent: u32,
    counted: BTreeMap<Uid, [i64; 3]>,
    would: BTreeSet<Uid>,
}

impl Engine {
    pub fn new(client: Client, config: Config, clock: Clock, health: Arc<Health>) -> Engine {
        Engine {
            client,
            clock,
            health,
            index: Index::default(),
            queue: Queue::new(config.seed),
            statuses: Statuses::default(),
            announcer: Announcer::default(),
            in_flight: FuturesUnordered::new(),
            listing: BTreeMap::new(),
            unsure: BTreeSet::new(),
            noting: BTreeSet::new(),
            notes_work: true,
            // Without an election everybody leads, for ever.
            leading_until: None,
            lease_version: None,
            sent: 0,
            counted: BTreeMap::new(),
            would: BTreeSet::new(),
            config,
        }
    }

    /// Turns until `stop`. Ends with an error when the lease is lost: whoever starts us again starts clean.
    pub async fn run(
        mut self,
        mut news: BoxStream<'static, News>,
        stop: CancellationToken,
    ) -> Result<(), LeaseLost> {
        let watches = watch::all(&self.client, &self.config.namespace, self.config.seed);
        let tagged =
            |(kind, stream): (Kind, BoxStream<'static, Message>)| stream.map(move |m| (kind, m)).boxed();
        let mut watches: SelectAll<BoxStream<'static, (Kind, Message)>> =
            watches.into_iter().map(tagged).collect();
        loop {
            self.work();
            let next = self.next_moment();
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(lease) = news.next() => self.lease(lease)?,
                Some(done) = self.in_flight.next() => self.answered(done),
                Some((kind, message)) = watches.next() => self.heard(kind, message),
                () = tokio::time::sleep_until(next) => {}
            }
            // Whatever else is ready now belongs to the same picture.
            for _ in 0..BURST {
                if let Some(Some(done)) = self.in_flight.next().now_or_never() {
                    self.answered(done);
                } else if let Some(Some((kind, message))) = watches.next().now_or_never() {
                    self.heard(kind, message);
                } else {
                    break;
                }
            }
        }
        self.drain().await;
        Ok(())
    }

    /// Lets the writes under way finish, and hands the lease to the next one.
    async fn drain(mut self) {
        let finish = async { while self.in_flight.next().await.is_some() {} };
        if tokio::time::timeout(DRAIN, finish).await.is_err() {
            tracing::warn!(
                "stopped with writes still unanswered; the next start finds out what became of them"
            );
        }
        if let (Some(_), Some(version)) = (self.leading_until, &self.lease_version)
            && let Err(failure) = crate::lease::give_back(&self.client, &self.config.namespace, version).await
        {
            tracing::warn!(%failure, "the leader lease could not be given back; it expires by itself");
        }
    }

    fn lease(&mut self, news: News) -> Result<(), LeaseLost> {
        match news {
            News::Leading { until, version } => {
                if self.leading_until.is_none() {
                    tracing::info!("leading");
                }
                self.leading_until = Some(until);
                self.lease_version = Some(version);
            }
            News::Following => {}
            News::Lost => return Err(LeaseLost),
        }
        Ok(())
    }

    /// Whether this replica may act now.
    fn leads(&self, now: Instant) -> bool {
        !self.config.leader_elect || self.leading_until.is_some_and(|until| now < until)
    }

    fn next_moment(&self) -> Instant {
        let idle = Instant::now() + HEARTBEAT;
        if !self.index.is_synced() || !self.leads(Instant::now()) || self.room() == 0 {
            return idle;
        }
        let unsure = self.unsure.first().map(|(at, _)| *at);
        let moments =
            [self.queue.next_moment(), self.statuses.next_moment(), self.announcer.next_moment(), unsure];
        moments.into_iter().flatten().chain([idle]).min().unwrap_or(idle)
    }

    fn room(&self) -> usize {
        self.config.max_in_flight.saturating_sub(self.in_flight.len())
    }

    /// Everything that can be done now without waiting.
    fn work(&mut self) {
        let now = Instant::now();
        for key in self.index.take_touched() {
            self.queue.add(key, now);
        }
        let synced = self.index.is_synced();
        self.health.turned(synced);
        let leads = self.leads(now);
        self.health.metrics.leader.set(i64::from(leads));
        self.health.metrics.queue_depth.set(self.queue.len() as i64);
        if !synced || !leads {
            return;
        }
        self.queue.wake(now);
        self.look_at_unsure(now);
        while self.room() > 0 {
            let share = self.sent % SHARE == SHARE - 1;
            if share && self.report_one(now) {
                continue;
            }
            match self.queue.pop(now) {
                Some((key, since)) => self.decide(key, since, now),
                None => break,
            }
        }
        while self.room() > 0 && self.report_one(now) {}
        self.health.metrics.in_flight.set(self.in_flight.len() as i64);
    }

    fn decide(&mut self, key: Uid, since: Instant, now: Instant) {
        let at = self.clock.now();
        let settings =
            Settings { notes: self.notes_work && self.index.namespace(&self.config.namespace).is_some() };
        let budget = if self.config.dry_run { usize::MAX } else { self.room() };
        let decision = decide(&self.index, key, settings, at, budget);
        self.health.metrics.decisions.inc();
        let violations = check(&self.index, key, &decision, at);
        if !violations.is_empty() {
            for violation in &violations {
                let invariant = ByInvariant { invariant: violation.invariant };
                self.health.metrics.violations.get_or_create(&invariant).inc();
                tracing::error!(
                    invariant = violation.invariant,
                    detail = violation.detail,
                    "refused a decision"
                );
            }
            return self.queue.failed(key, now);
        }
        self.follow(key, decision, since, now);
    }

    /// Does what was decided.
    fn follow(&mut self, key: Uid, decision: Decision, since: Instant, now: Instant) {
        let Decision { actions, more, status, urgent, recorded, events, wake_at, finished } = decision;
        if let Some(recorded) = recorded {
            self.index.remember(key, recorded);
        }
        self.queue.wake_at(key, wake_at.map(|at| self.clock.instant_of(at)));
        if more {
            self.queue.add(key, since);
        }
        let mut noting = false;
        for action in actions {
            noting |= matches!(action, Action::WriteNote { .. });
            self.send(key, action, since);
        }
        if let Some(status) = status {
            self.count(key, &status);
            // While its note is being written nothing is released; the next decision has more to say.
            if !noting {
                self.statuses.want(key, status, urgent, now);
            }
        }
        self.announcer.add(key, events, now);
        if finished {
            self.index.lay_to_rest(key);
            self.forget(key);
        }
    }

    fn send(&mut self, key: Uid, action: Action, since: Instant) {
        if self.config.dry_run {
            return self.say(key, &action);
        }
        let client = self.client.clone();
        match action {
            Action::Release { pod, namespace, name, gate } => {
                self.index.release_sent(pod, &gate);
                self.push(async move {
                    let answer = act::release(&client, pod, &namespace, &name, &gate).await;
                    Done::Released { pod, key, since, answer }
                });
            }
            Action::WriteNote { note } => {
                if self.noting.insert(key) {
                    let own = self.config.namespace.clone();
                    self.push(async move {
                        let answer = act::write_note(&client, &own, &note).await;
                        Done::Noted { key, answer }
                    });
                }
            }
            Action::DropNote { sequence } => {
                if self.noting.insert(key) {
                    let own = self.config.namespace.clone();
                    self.push(async move {
                        let answer = act::drop_note(&client, &own, sequence).await;
                        Done::NoteDropped { key, answer }
                    });
                }
            }
        }
    }

    /// What would be done, once for each pod.
    fn say(&mut self, key: Uid, action: &Action) {
        match action {
            Action::Release { pod, namespace, name, gate } => {
                if self.would.insert(*pod) {
                    tracing::info!(%namespace, %name, %gate, "dry run: would release");
                }
            }
            Action::WriteNote { .. } | Action::DropNote { .. } => {
                tracing::debug!(sequence = %key, "dry run: would write or remove the note");
            }
        }
    }

    fn push(&mut self, write: impl Future<Output = Done> + Send + 'static) {
        self.sent = self.sent.wrapping_add(1);
        self.in_flight.push(write.boxed());
    }

    /// Writes one status or one event that is due; says whether there was one.
    fn report_one(&mut self, now: Instant) -> bool {
        if self.config.dry_run {
            return false;
        }
        if let Some(due) = self.statuses.pop(now, self.clock.now()) {
            let Some(entry) = self.index.sequence(due.uid).filter(|entry| !entry.ghost) else { return true };
            let write = StatusWrite {
                uid: due.uid,
                namespace: entry.sequence.namespace.to_string(),
                name: entry.sequence.name.to_string(),
                resource_version: due.resource_version,
                status: due.status,
            };
            let client = self.client.clone();
            let key = due.uid;
            self.push(
                async move { Done::StatusWritten { key, answer: act::write_status(&client, write).await } },
            );
            return true;
        }
        let Some((uid, event)) = self.announcer.pop(now) else { return false };
        let Some(entry) = self.index.sequence(uid).filter(|entry| !entry.ghost) else { return true };
        let write = EventWrite {
            uid,
            namespace: entry.sequence.namespace.to_string(),
            name: entry.sequence.name.to_string(),
            resource_version: self.statuses.resource_version(uid).unwrap_or_default().to_owned(),
            event,
            at: self.clock.now(),
            instance: self.config.identity.clone(),
        };
        let client = self.client.clone();
        self.push(async move { Done::Announced { answer: act::write_event(&client, write).await } });
        true
    }

    /// Asks about pods whose release has no known outcome, one GET each.
    fn look_at_unsure(&mut self, now: Instant) {
        while self.room() > 0 {
            let Some((at, pod)) = self.unsure.first().copied().filter(|(at, _)| *at <= now) else { return };
            self.unsure.remove(&(at, pod));
            // The watch has told in the meantime.
            if !self.index.in_flight(pod) {
                continue;
            }
            let Some(known) = self.index.pod(pod) else { continue };
            let (client, namespace, name) =
                (self.client.clone(), known.namespace.clone(), known.name.clone());
            self.push(async move {
                let answer = act::look(&client, &namespace, &name).await;
                Done::Looked { pod, answer }
            });
        }
    }

    fn answered(&mut self, done: Done) {
        let now = Instant::now();
        match done {
            Done::Released { pod, key, since, answer } => self.released(pod, key, since, answer, now),
            Done::Looked { pod, answer } => self.looked(pod, answer, now),
            Done::Noted { key, answer } => self.noted(key, answer, now),
            Done::NoteDropped { key, answer } => {
                self.noting.remove(&key);
                match self.outcome("note", answer) {
                    Ok(()) => self.index.delete_note(key),
                    Err(_) => self.queue.failed(key, now),
                }
            }
            Done::StatusWritten { key, answer } => match self.outcome("status", answer) {
                Ok(item) => {
                    self.take(item);
                    self.statuses.answered(key, true, now);
                }
                Err(_) => self.statuses.answered(key, false, now),
            },
            // An event that cannot be written is dropped: the status says the same and stays.
            Done::Announced { answer } => drop(self.outcome("event", answer)),
        }
    }

    fn outcome<T>(&mut self, action: &'static str, answer: Result<T, Failure>) -> Result<T, Failure> {
        let metrics = &self.health.metrics;
        match &answer {
            Ok(_) => metrics.wrote(action, "done"),
            Err(failure) => {
                metrics.wrote(action, failure.kind());
                metrics.api_errors.get_or_create(&ByKind { kind: failure.kind() }).inc();
                match failure.meaning() {
                    Meaning::Moved => tracing::debug!(action, %failure, "the world moved"),
                    Meaning::Refused | Meaning::Unknown => tracing::warn!(action, %failure, "a write failed"),
                }
            }
        }
        answer
    }

    fn released(&mut self, pod: Uid, key: Uid, since: Instant, answer: Result<Pod, Failure>, now: Instant) {
        match self.outcome("release", answer) {
            Ok(facts) => {
                let held = self.clock.now().duration_since(facts.created);
                let held = Duration::try_from(held).unwrap_or_default();
                self.health.metrics.release_answered(now.duration_since(since), held);
                tracing::debug!(namespace = %facts.namespace, name = %facts.name, "released");
                self.index.release_answered(pod, Answer::Done(Box::new(facts)));
                self.queue.succeeded(key);
            }
            Err(failure) => match failure.meaning() {
                Meaning::Moved if failure.code == Some(404) => self.index.release_answered(pod, Answer::Gone),
                Meaning::Moved | Meaning::Refused => {
                    self.index.release_answered(pod, Answer::NotDone);
                    self.queue.failed(key, now);
                }
                Meaning::Unknown => {
                    self.unsure.insert((now + LOOK_AFTER, pod));
                    self.queue.failed(key, now);
                }
            },
        }
    }

    fn looked(&mut self, pod: Uid, answer: Result<Pod, Failure>, now: Instant) {
        match self.outcome("look", answer) {
            // Done or not, the pod as it is now tells.
            Ok(facts) if facts.uid == pod => self.index.release_answered(pod, Answer::Done(Box::new(facts))),
            Ok(_) => self.index.release_answered(pod, Answer::Gone),
            Err(failure) if failure.code == Some(404) => self.index.release_answered(pod, Answer::Gone),
            Err(_) => drop(self.unsure.insert((now + LOOK_AFTER, pod))),
        }
    }

    fn noted(&mut self, key: Uid, answer: Result<Note, Failure>, now: Instant) {
        self.noting.remove(&key);
        match self.outcome("note", answer) {
            Ok(note) => {
                self.index.note_written(note);
                self.queue.succeeded(key);
            }
            Err(failure) => match failure.code {
                // There is no namespace of ours, or no right in it: better without notes than not at all.
                Some(403 | 404 | 413) => {
                    tracing::warn!(%failure, "notes cannot be written: sequences deleted while the controller is away will leave their pods held");
                    self.notes_work = false;
                    self.queue.add(key, now);
                }
                Some(_) | None => self.queue.failed(key, now),
            },
        }
    }

    fn heard(&mut self, kind: Kind, message: Message) {
        let failed = matches!(message, Message::Failed { .. });
        if !failed {
            self.health.heard(kind);
        }
        match message {
            Message::Begins { version } => {
                self.index.list_begins(kind, version);
                self.listing.insert(kind, BTreeSet::new());
            }
            Message::Page { items } => {
                let listing = self.listing.entry(kind).or_default();
                listing.extend(items.iter().map(|item| item.object.listed()));
                items.into_iter().for_each(|item| self.take(item));
            }
            Message::Ended => {
                let listed = self.listing.remove(&kind).unwrap_or_default();
                self.index.list_ended(kind, &listed);
                self.notes_work |= kind == Kind::Note;
                tracing::debug!(kind = kind.as_str(), number = listed.len(), "listed");
            }
            Message::Applied { item } => self.take(item),
            Message::Deleted { item } => {
                if let Object::Sequence(sequence) = &item.object {
                    self.forget(sequence.uid);
                }
                self.index.delete(item.object);
            }
            Message::Alive => {}
            Message::Failed { failure } => self.watch_failed(kind, &failure),
        }
        self.health.metrics.sequences.set(self.index.sequences().count() as i64);
    }

    fn watch_failed(&mut self, kind: Kind, failure: &Failure) {
        self.health.metrics.watch_failures.get_or_create(&ByKind { kind: kind.as_str() }).inc();
        tracing::warn!(kind = kind.as_str(), %failure, "a watch failed and will be tried again");
        // Without rights in a namespace of our own (`make run` on a bare cluster) it goes without notes.
        if kind == Kind::Note && matches!(failure.code, Some(403 | 404)) && !self.index.is_synced() {
            self.notes_work = false;
            self.index.without(Kind::Note);
            self.health.heard(kind);
        }
    }

    fn take(&mut self, item: Item) {
        if let (Object::Sequence(sequence), Some(written)) = (&item.object, item.written) {
            self.statuses.observed(sequence.uid, *written);
        }
        self.index.apply(item.object);
    }

    fn forget(&mut self, key: Uid) {
        self.queue.forget(key);
        self.statuses.forget(key);
        self.announcer.forget(key);
        if let Some(old) = self.counted.remove(&key) {
            self.adjust(old, [0; 3]);
        }
    }

    /// Keeps the gauges of held, released and arrived members up to date.
    fn count(&mut self, key: Uid, status: &rollcall_core::sequence::Status) {
        let mut new = [0i64; 3];
        for group in &status.groups {
            new[0] += i64::from(group.present - group.released);
            new[1] += i64::from(group.released);
            new[2] += i64::from(group.arrived);
        }
        let old = self.counted.insert(key, new).unwrap_or_default();
        self.adjust(old, new);
    }

    fn adjust(&self, old: [i64; 3], new: [i64; 3]) {
        for (position, state) in ["held", "released", "arrived"].into_iter().enumerate() {
            self.health.metrics.pods.get_or_create(&ByState { state }).inc_by(new[position] - old[position]);
        }
    }
}
