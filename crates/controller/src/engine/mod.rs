//! The controller loop: one task, one index. It applies changes, decides about the keys that they touch, and sends the decided
//! writes.
//!
//! ```text
//! watches ─┐                     ┌─▶ releases, notes ─┐
//! answers ─┼─▶ index ─▶ decide ──┤                    ├─▶ API server
//! time ────┘                     └─▶ status, events ──┘
//! ```
//!
//! Releases have priority over statuses, and statuses over events, so that reporting never delays pods. But every
//! [`REPORT_EVERY_NTH_WRITE`]th write is reserved for reports, so that they are not delayed indefinitely either.

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
use crate::slots::{SlotLane, Slots};
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

/// While decisions need write slots, one of this many writes may still be a status or an event.
const REPORT_EVERY_NTH_WRITE: u32 = 32;
/// Most messages that are processed before the next decisions: enough to see a burst as a whole, few enough to stay responsive.
const BURST: usize = 256;
/// After a write to a pod with an unknown outcome, the time that the watch has to show the result before the pod is read.
pub(crate) const LOOK_AFTER: Duration = Duration::from_secs(2);
/// How long a shutdown waits for writes in flight.
const DRAIN: Duration = Duration::from_secs(5);

/// A request that was answered.
struct Done {
    /// The key that caused the request; `None` if no decision waits for it.
    key: Option<Key>,
    verb: Verb,
    target: Target,
    /// The time of the change that led to the request.
    since: Instant,
    answer: act::WriteAnswer,
}

/// The type of a request.
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
    /// The `action` label of the metric `rollcall_writes_total`.
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

    /// The lane whose slot the request occupies; `None` for requests that belong to no lane.
    fn lane(self, key: Option<Key>) -> SlotLane {
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
    /// The objects that each list in progress has contained so far.
    listing: BTreeMap<Kind, BTreeSet<Listed>>,
    /// Kinds that this cluster does not serve.
    absent: BTreeSet<Kind>,
    /// Pods with a write of unknown outcome, by the time to read them.
    pub(crate) unknown_outcome: BTreeSet<(Instant, Uid)>,
    pub(crate) repeats: Repeats,
    conflicts: Conflicts,
    watches: Watches,
    rereads: Rereads,
    leading_until: Option<Instant>,
    lease_version: Option<String>,
    sent: u32,
    /// Pods whose release a dry run has already logged.
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
            // Without leader election, every replica leads permanently.
            leading_until: None,
            lease_version: None,
            sent: 0,
            logged_in_dry_run: BTreeSet::new(),
            config,
        }
    }

    /// Runs until `stop`. Returns an error when the lease is lost, so that the process restarts with a clean state.
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
                Some((kind, message)) = watches.next() => self.on_watch_message(kind, message),
                Some(read) = rereads.next() => self.read_again(read),
                () = tokio::time::sleep_until(next) => {}
            }
            // Everything else that is ready is processed before the next decisions.
            for _ in 0..BURST {
                if let Some(Some(done)) = self.next_answer().now_or_never() {
                    self.answered(done);
                } else if let Some(Some((kind, message))) = watches.next().now_or_never() {
                    self.on_watch_message(kind, message);
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

    /// Returns the next answer. If the process was paused, a write may not have been sent yet, and another replica may lead by
    /// now. Requests therefore make no progress unless this replica leads.
    async fn next_answer(&mut self) -> Option<Done> {
        std::future::poll_fn(|context| match self.in_flight.is_empty() || self.leads(Instant::now()) {
            true => self.in_flight.poll_next_unpin(context),
            false => Poll::Pending,
        })
        .await
    }

    /// Waits for the writes in flight, then releases the lease for the next leader.
    async fn drain(mut self) {
        let finish = async { while self.next_answer().await.is_some() {} };
        if tokio::time::timeout(DRAIN, finish).await.is_err() {
            tracing::warn!("stopped with unanswered writes; the next start determines their outcome");
        }
        if let (Some(_), Some(version)) = (self.leading_until, &self.lease_version)
            && let Err(failure) =
                crate::lease::give_back(&self.client, &self.config.namespace, &self.config.identity, version)
                    .await
        {
            tracing::warn!(%failure, "could not release the leader lease; it expires on its own");
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
        // Work that is due but has no free slot waits for an answer, not for a time in the past.
        let has_room = |lane: SlotLane| self.slots.free_for(lane) > 0;
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

    /// Whether at least one feature may decide.
    fn is_any_synced(&self) -> bool {
        Feature::ALL.iter().any(|feature| self.index.is_synced(*feature))
    }

    fn is_lane_synced(&self, lane: usize) -> bool {
        self.index.is_synced(KeyLane::ALL[lane].feature())
    }

    /// Whether all write slots are in use.
    fn is_full(&self) -> bool {
        self.slots.in_use() >= self.config.max_in_flight
    }

    /// Does everything that can be done now without waiting.
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
                    "the checker rejected a decision"
                );
            }
            return self.queue.failed(key, now);
        }
        self.carry_out(key, decision, since, now);
    }

    /// Carries out a decision.
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
        // While the note of a sequence is being written, nothing is released; the next decision has a more complete status.
        if let Some(report) = report.filter(|_| !noting && !self.config.dry_run) {
            self.reports.want(key.uid(), report, urgent, now);
        }
        if !self.config.dry_run {
            self.announcer.add(events, now);
        }
        self.decided(key, finished);
    }
}
