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

mod answers;
mod news;
mod send;

use crate::announce::Announcer;
use crate::client::Failure;
use crate::clock::Clock;
use crate::health::{HEARTBEAT, Health};
use crate::lease::News;
use crate::metrics::ByInvariant;
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
use rollcall_core::index::{Index, Kind, Listed, Note};
use rollcall_core::node::Node;
use rollcall_core::planted::{Bug, is};
use rollcall_core::sequence::{Action, Decision, Settings, check, decide};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// One write in so many may go to statuses and events while releases wait.
const SHARE: u32 = 32;
/// News taken in before the next decisions: enough to see a burst as one, little enough to stay prompt.
const BURST: usize = 256;
/// How long a release without a known outcome is left to the watch before the pod is looked at.
const LOOK_AFTER: Duration = Duration::from_secs(2);
/// After how long notes are tried again that were forbidden or had no namespace, at first and at most.
const NOTES_AGAIN: Duration = Duration::from_secs(5);
const NOTES_AGAIN_AT_MOST: Duration = Duration::from_secs(600);
/// How often a note is written again that somebody removes: a person does so once, but another controller that has not heard
/// of the sequence would do so for ever.
const NOTE_AGAIN: u32 = 3;
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
    Marked { key: Uid, node: Arc<str>, answer: Result<Node, Failure> },
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
    /// While notes cannot be written at all: when to try again; and how often they could not be in a row.
    notes_off: Option<Instant>,
    notes_failed: u32,
    /// Sequences whose note is not accepted, or not left alone, with the generation it was made of.
    unnotable: BTreeMap<Uid, i64>,
    /// How often the note of a living sequence was removed by somebody.
    notes_lost: BTreeMap<Uid, u32>,
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
            index: if config.full { Index::of_full_mode() } else { Index::default() }
                .with_taint_prefix(config.taint_prefix),
            queue: Queue::new(config.seed),
            statuses: Statuses::default(),
            announcer: Announcer::default(),
            in_flight: FuturesUnordered::new(),
            listing: BTreeMap::new(),
            unsure: BTreeSet::new(),
            noting: BTreeSet::new(),
            notes_off: None,
            notes_failed: 0,
            unnotable: BTreeMap::new(),
            notes_lost: BTreeMap::new(),
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
        news: BoxStream<'static, News>,
        stop: CancellationToken,
    ) -> Result<(), LeaseLost> {
        let mut news = news.fuse();
        let kinds = self.index.kinds();
        self.health.watching(kinds);
        let watches = watch::all(&self.client, kinds, &self.config.namespace, self.config.seed);
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
                Some(done) = self.next_answer() => self.answered(done),
                Some((kind, message)) = watches.next() => self.heard(kind, message),
                () = tokio::time::sleep_until(next) => {}
            }
            // Whatever else is ready now belongs to the same picture.
            for _ in 0..BURST {
                if let Some(Some(done)) = self.next_answer().now_or_never() {
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

    /// The next answer to what was sent. A write may still wait to go out when the process is paused, and somebody else may
    /// lead when it goes on: then nothing is driven on until this replica leads again, or ends.
    async fn next_answer(&mut self) -> Option<Done> {
        std::future::poll_fn(|context| match self.in_flight.is_empty() || self.leads(Instant::now()) {
            true => self.in_flight.poll_next_unpin(context),
            false => Poll::Pending,
        })
        .await
    }

    /// Lets the writes under way finish, and hands the lease to the next one.
    async fn drain(mut self) {
        let finish = async { while self.next_answer().await.is_some() {} };
        if tokio::time::timeout(DRAIN, finish).await.is_err() {
            tracing::warn!(
                "stopped with writes still unanswered; the next start finds out what became of them"
            );
        }
        if let (Some(_), Some(version)) = (self.leading_until, &self.lease_version)
            && let Err(failure) =
                crate::lease::give_back(&self.client, &self.config.namespace, &self.config.identity, version)
                    .await
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
            News::Lost if is(Bug::ActsWithoutLease) => {}
            News::Lost => return Err(LeaseLost),
        }
        Ok(())
    }

    /// Whether this replica may act now.
    fn leads(&self, now: Instant) -> bool {
        let late = is(Bug::ActsWithoutLease);
        !self.config.leader_elect || self.leading_until.is_some_and(|until| now < until || late)
    }

    fn next_moment(&self) -> Instant {
        let idle = Instant::now() + HEARTBEAT;
        if !self.index.is_synced() || !self.leads(Instant::now()) || self.room() == 0 {
            return idle;
        }
        let unsure = self.unsure.first().map(|(at, _)| *at);
        let notes = self.notes_off;
        let moments = [
            self.queue.next_moment(),
            self.statuses.next_moment(),
            self.announcer.next_moment(),
            unsure,
            notes,
        ];
        moments.into_iter().flatten().chain([idle]).min().unwrap_or(idle)
    }

    fn room(&self) -> usize {
        self.config.max_in_flight.saturating_sub(self.in_flight.len())
    }

    /// Everything that can be done now without waiting.
    fn work(&mut self) {
        let now = Instant::now();
        let (touched, synced) = (self.index.take_touched(), self.index.is_synced());
        if self.config.full {
            self.call_the_roll(&touched, synced);
        }
        for key in touched {
            self.queue.add(key, now);
        }
        self.health.turned(synced);
        let leads = self.leads(now);
        self.health.metrics.leader.set(i64::from(leads));
        self.health.metrics.queue_depth.set(self.queue.depth() as i64);
        if !synced || !leads {
            return;
        }
        self.queue.wake(now);
        self.try_notes_again(now);
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

    /// Tells the webhook what has changed. Every replica does so, leading or not.
    fn call_the_roll(&self, touched: &BTreeSet<Uid>, synced: bool) {
        let lacking = synced && !self.health.roster().is_complete();
        if !touched.is_empty() || lacking {
            let mut roster = self.health.roster_mut();
            touched.iter().for_each(|key| roster.update(&self.index, *key));
            if lacking {
                roster.completed();
            }
        }
    }

    fn decide(&mut self, key: Uid, since: Instant, now: Instant) {
        let at = self.clock.now();
        let settings = Settings { notes: self.can_note(key) };
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

    /// Whether there can be a note of this sequence.
    fn can_note(&self, key: Uid) -> bool {
        let generation = self.index.sequence(key).map(|entry| entry.sequence.generation);
        let refused = self.unnotable.get(&key).copied();
        // A dry run writes none, so its releases must not wait for one.
        !self.config.dry_run
            && self.notes_off.is_none()
            && (refused.is_none() || refused != generation)
            && self.index.namespace(&self.config.namespace).is_some()
    }

    /// Does what was decided.
    fn follow(&mut self, key: Uid, decision: Decision, since: Instant, now: Instant) {
        let Decision { actions, more, status, urgent, recorded, events, nodes, wake_at, finished } = decision;
        if let Some(recorded) = recorded {
            self.index.remember(key, recorded);
        }
        self.index.remember_nodes(key, nodes);
        let wake_at = wake_at.filter(|_| !is(Bug::WakeForgotten));
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
            if !noting && !self.config.dry_run {
                self.statuses.want(key, status, urgent, now);
            }
        }
        if !self.config.dry_run {
            self.announcer.add(key, events, now);
        }
        if finished {
            self.index.lay_to_rest(key);
            self.forget(key);
        } else if self.index.sequence(key).is_none() {
            // Its end was not told but found out, by a list.
            self.forget_reports(key);
        }
    }
}
