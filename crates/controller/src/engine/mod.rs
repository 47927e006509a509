//! The loop: one task, one index. Takes in news, decides about what it touches, sends what was decided.
//!
//! ```text
//! watches ─┐                     ┌─▶ releases, notes ─┐
//! answers ─┼─▶ index ─▶ decide ──┤                    ├─▶ API server
//! time ────┘                     └─▶ status, events ──┘
//! ```
//!
//! Releases come before statuses and statuses before events, so that what a person sees never holds up what they
//! wait for; every [`REPORT_EVERY_NTH_WRITE`]th write is kept for them, so that they are not held up for ever either.

mod answers;
mod features;
mod news;
mod rereads;
mod send;

use crate::act;
use crate::announce::Announcer;
use crate::clock::Clock;
use crate::conflicts::Conflicts;
use crate::health::HEARTBEAT;
use crate::launch::Launching;
use crate::lease::News;
use crate::metrics::ByInvariant;
use crate::queue::{Laned, Queue};
use crate::repeats::Repeats;
use crate::reports::Reports;
use crate::reservation::TicketGauges;
use crate::sequence::{Gauges, Notes};
use crate::shared::Shared;
use crate::slots::{Lane, Slots};
use crate::watch::Watches;
use crate::{Config, LeaseLost};
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{BoxStream, FuturesUnordered, SelectAll, StreamExt};
use kube::Client;
use rereads::Rereads;
use rollcall_api::watch::KeptLabels;
use rollcall_core::Uid;
use rollcall_core::cluster::Target;
use rollcall_core::decision::{Action, Decision, Report};
use rollcall_core::dispatch::{check, decide, keep};
use rollcall_core::index::{Index, Listed};
use rollcall_core::key::{Feature, Key, Lane as KeyLane};
use rollcall_core::kind::Kind;
use rollcall_core::planted::{Bug, planted};
use rollcall_core::sequence::index::Mode;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
#[cfg(debug_assertions)]
use std::sync::PoisonError;
use std::task::Poll;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// While decisions have something to send, one write in so many may still be a status or an event.
const REPORT_EVERY_NTH_WRITE: u32 = 32;
/// News taken in before the next decisions: enough to see a burst as one, little enough to stay prompt.
const BURST: usize = 256;
/// How long a write to a pod without a known outcome is left to the watch before the pod is looked at.
pub(crate) const LOOK_AFTER: Duration = Duration::from_secs(2);
/// How long a stop waits for writes that are under way.
const DRAIN: Duration = Duration::from_secs(5);

/// A request that was answered.
struct Done {
    /// The key for which it was sent; `None` for what no decision waits for.
    key: Option<Key>,
    verb: Verb,
    target: Target,
    /// When the news came that made it possible.
    since: Instant,
    answer: act::Answer,
}

/// What was asked of the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    PatchPod,
    GetPod,
    PatchNode,
    WriteNote,
    DropNote,
    WriteBarrier,
    MakeBarrier,
    GetBarrier,
    Create,
    Delete,
    WriteTicket,
    Nominate,
    WriteStatus,
    WriteEvent,
}

impl Verb {
    /// The word of the metric `rollcall_writes_total`.
    fn as_str(self) -> &'static str {
        match self {
            Verb::PatchPod => "release",
            Verb::GetPod | Verb::GetBarrier => "look",
            Verb::PatchNode => "mark",
            Verb::WriteNote | Verb::DropNote => "note",
            Verb::WriteBarrier | Verb::MakeBarrier => "barrier",
            Verb::Create => "create",
            Verb::Delete => "delete",
            Verb::WriteTicket => "ticket",
            Verb::Nominate => "nominate",
            Verb::WriteStatus => "status",
            Verb::WriteEvent => "event",
        }
    }

    /// Who pays for it: the feature that decided it, or nobody in particular.
    fn lane(self, key: Option<Key>) -> Lane {
        match self {
            Verb::PatchPod | Verb::PatchNode | Verb::WriteNote | Verb::DropNote => key.map(Laned::lane),
            Verb::WriteBarrier | Verb::MakeBarrier | Verb::GetBarrier => key.map(Laned::lane),
            Verb::Create | Verb::Delete | Verb::WriteTicket | Verb::Nominate => key.map(Laned::lane),
            Verb::GetPod | Verb::WriteStatus | Verb::WriteEvent => None,
        }
    }
}

pub struct Engine {
    client: Client,
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) shared: Arc<Shared>,
    pub(crate) index: Index,
    pub(crate) queue: Queue<Key>,
    pub(crate) reports: Reports,
    pub(crate) announcer: Announcer,
    pub(crate) notes: Notes,
    pub(crate) gauges: Gauges,
    pub(crate) launching: Launching,
    pub(crate) tickets: TicketGauges,
    in_flight: FuturesUnordered<BoxFuture<'static, Done>>,
    slots: Slots,
    /// What each list under way has named so far.
    listing: BTreeMap<Kind, BTreeSet<Listed>>,
    /// Kinds that this cluster does not have.
    absent: BTreeSet<Kind>,
    /// Pods with a write whose outcome is unknown, by when to look at them.
    pub(crate) unknown_outcome: BTreeSet<(Instant, Uid)>,
    pub(crate) repeats: Repeats,
    conflicts: Conflicts,
    watches: Watches,
    rereads: Rereads,
    leading_until: Option<Instant>,
    lease_version: Option<String>,
    sent: u32,
    /// Pods of which a dry run has said what it would do.
    logged_in_dry_run: BTreeSet<Uid>,
}

impl Engine {
    pub fn new(client: Client, config: Config, clock: Clock, shared: Arc<Shared>) -> Engine {
        let watches = Watches {
            client: client.clone(),
            own_namespace: config.namespace.clone(),
            seed: config.seed,
            labels: KeptLabels::by_need(),
            sequences_listed: CancellationToken::new(),
        };
        let kept: Vec<usize> = KeyLane::ALL.iter().map(|lane| lane.kept_slots()).collect();
        Engine {
            client,
            clock,
            shared,
            index: Index::new(Mode {
                full: config.full,
                taint_prefix: config.taint_prefix,
                reservations: config.reservations,
            }),
            queue: Queue::new(config.seed),
            reports: Reports::default(),
            announcer: Announcer::default(),
            notes: Notes::default(),
            gauges: Gauges::default(),
            launching: Launching::default(),
            tickets: TicketGauges::default(),
            in_flight: FuturesUnordered::new(),
            slots: Slots::new(config.max_in_flight, &kept),
            listing: BTreeMap::new(),
            absent: BTreeSet::new(),
            unknown_outcome: BTreeSet::new(),
            repeats: Repeats::default(),
            conflicts: Conflicts::default(),
            watches,
            rereads: Rereads::default(),
            // Without an election everybody leads, for ever.
            leading_until: None,
            lease_version: None,
            sent: 0,
            logged_in_dry_run: BTreeSet::new(),
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
        self.shared.health.watching(&kinds);
        let mut watches = self.watches.all(&kinds);
        let mut rereads = SelectAll::new();
        loop {
            self.work();
            #[cfg(debug_assertions)]
            self.show_when_idle();
            rereads.extend(self.rereads.take_begun());
            let next = self.next_moment();
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(lease) = news.next() => self.lease(lease)?,
                Some(done) = self.next_answer() => self.answered(done),
                Some((kind, message)) = watches.next() => self.heard(kind, message),
                Some(read) = rereads.next() => self.read_again(read),
                () = tokio::time::sleep_until(next) => {}
            }
            // Whatever else is ready now belongs to the same picture.
            for _ in 0..BURST {
                if let Some(Some(done)) = self.next_answer().now_or_never() {
                    self.answered(done);
                } else if let Some(Some((kind, message))) = watches.next().now_or_never() {
                    self.heard(kind, message);
                } else if let Some(Some(read)) = rereads.next().now_or_never() {
                    self.read_again(read);
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
            News::Lost if planted(Bug::ActsWithoutLease) => {}
            News::Lost => return Err(LeaseLost),
        }
        Ok(())
    }

    /// Whether this replica may act now.
    fn leads(&self, now: Instant) -> bool {
        let late = planted(Bug::ActsWithoutLease);
        !self.config.leader_elect || self.leading_until.is_some_and(|until| now < until || late)
    }

    fn next_moment(&self) -> Instant {
        let idle = Instant::now() + HEARTBEAT;
        if !self.is_any_synced() || !self.leads(Instant::now()) || self.is_full() {
            return idle;
        }
        // What is due and finds no room waits for an answer, not for a time that has passed.
        let has_room = |lane: Lane| self.slots.free_for(lane) > 0;
        let reports = [
            self.reports.next_moment(),
            self.announcer.next_moment(),
            self.unknown_outcome.first().map(|(at, _)| *at),
        ];
        let reports = reports.into_iter().filter(|_| has_room(None));
        let others = [
            self.queue.next_moment(|lane| has_room(Some(lane)) && self.is_lane_synced(lane)),
            self.notes.next_moment(),
            self.conflicts.next_moment(),
        ];
        reports.chain(others).flatten().chain([idle]).min().unwrap_or(idle)
    }

    /// Whether a feature may decide.
    fn is_any_synced(&self) -> bool {
        Feature::ALL.iter().any(|feature| self.index.is_synced(*feature))
    }

    fn is_lane_synced(&self, lane: usize) -> bool {
        self.index.is_synced(KeyLane::ALL[lane].feature())
    }

    /// Nothing more can be sent, for whomever.
    fn is_full(&self) -> bool {
        self.slots.in_use() >= self.config.max_in_flight
    }

    /// Everything that can be done now without waiting.
    fn work(&mut self) {
        let now = Instant::now();
        self.want_labels();
        self.end_conflicts(now);
        let (touched, synced) = (self.index.take_touched(), self.index.is_synced(Feature::Sequence));
        if self.config.full {
            self.update_admission_roster(&touched, synced);
        }
        for key in touched {
            self.queue.add(key, now);
        }
        self.shared.health.turned(synced);
        let leads = self.leads(now);
        self.shared.metrics.leader.set(i64::from(leads));
        self.shared.metrics.queue_depth.set(self.queue.depth() as i64);
        if !self.is_any_synced() || !leads {
            return;
        }
        self.queue.wake(now);
        if synced {
            self.try_notes_again(now);
        }
        self.look_at_unknown_outcomes(now);
        let may_decide: Vec<bool> = (0..KeyLane::ALL.len()).map(|lane| self.is_lane_synced(lane)).collect();
        loop {
            let report = self.sent % REPORT_EVERY_NTH_WRITE == REPORT_EVERY_NTH_WRITE - 1;
            if report && self.report_one(now) {
                continue;
            }
            let slots = &self.slots;
            match self.queue.pop(now, |lane| may_decide[lane] && slots.free_for(Some(lane)) > 0) {
                Some((key, since)) => self.decide(key, since, now),
                None => break,
            }
        }
        while self.report_one(now) {}
        self.shared.metrics.in_flight.set(self.in_flight.len() as i64);
    }

    #[cfg(debug_assertions)]
    fn show_when_idle(&self) {
        let mut observer = self.shared.idle_observer.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = self.in_flight.is_empty() && self.queue.depth() == 0 && self.is_any_synced();
        if let Some(observe) = observer.as_mut().filter(|_| idle) {
            observe(&self.index);
        }
    }

    fn decide(&mut self, key: Key, since: Instant, now: Instant) {
        if self.is_being_read(key) {
            return;
        }
        let at = self.clock.now();
        let free = self.slots.free_for(Some(Laned::lane(key)));
        let budget = if self.config.dry_run { usize::MAX } else { free };
        let decision = decide(&self.index, key, self.settings(key), at, budget);
        self.shared.metrics.decisions.inc();
        let violations = check(&self.index, key, &decision, at);
        if !violations.is_empty() {
            for violation in &violations {
                let invariant = ByInvariant { invariant: violation.invariant };
                self.shared.metrics.violations.get_or_create(&invariant).inc();
                tracing::error!(
                    invariant = violation.invariant,
                    detail = violation.detail,
                    "refused a decision"
                );
            }
            return self.queue.failed(key, now);
        }
        self.carry_out(key, decision, since, now);
    }

    /// Does what was decided.
    fn carry_out(&mut self, key: Key, decision: Decision, since: Instant, now: Instant) {
        let Decision { actions, more, report, urgent, events, wake_at, keep: kept, finished } = decision;
        keep(&mut self.index, key, kept);
        let wake_at = wake_at.filter(|_| !planted(Bug::WakeForgotten));
        self.queue.wake_at(key, wake_at.map(|at| self.clock.instant_of(at)));
        if more {
            self.queue.add(key, since);
        }
        let mut noting = false;
        for action in actions {
            noting |= matches!(action, Action::WriteNote { .. });
            self.send(key, action, since);
        }
        if let Some(Report::Sequence(status)) = &report {
            self.gauges.count(key.uid(), status, &self.shared.metrics);
        }
        // While the note of a sequence is being written nothing is released; the next decision has more to say.
        if let Some(report) = report.filter(|_| !noting && !self.config.dry_run) {
            self.reports.want(key.uid(), report, urgent, now);
        }
        if !self.config.dry_run {
            self.announcer.add(events, now);
        }
        self.decided(key, finished);
    }
}
