//! A whole start, from manifests to a report, in virtual time.
//!
//! - [`apply`]: the objects, as a person applies them. [`timeline`]: what became of each pod, seen commit by commit.
//! - [`facts`]: all that is known, as the core keeps it. [`snapshot`]: the cluster at one time, for a caller.
//! - [`closed_nodes`]: which nodes are not open yet for whom. [`dns`]: the names of pods. [`drains`]: what is
//!   evicted, and what may not be.
//! - [`arrived`]: whether everything has. [`verdict`]: what became of it all. [`causes`]: why something has not arrived.
//!   [`tickets`]: room that is kept. [`ranks`]: how far the containers of a pod are that start in order. [`never`]: what never will. [`notes`]: what else is worth knowing. [`chain`]: what the end had to wait for.

mod apply;
mod arrived;
mod causes;
mod chain;
mod closed_nodes;
mod dns;
mod drains;
mod facts;
mod never;
mod notes;
#[cfg(debug_assertions)]
mod observed;
mod ranks;
mod snapshot;
mod tickets;
mod timeline;
mod user_actions;
mod verdict;

#[cfg(debug_assertions)]
pub use observed::simulate_observed;
pub use snapshot::Snapshot;

use crate::embedded::{self, Embedded};
use crate::plan::{Action, Plan};
use crate::report::{Outcome, Report};
use crate::server::Shared;
use crate::store::Author;
use anyhow::Result;
use drains::Drains;
use jiff::Timestamp;
use rollcall_api::launch::asks_for_order;
use rollcall_api::names;
use rollcall_controller::Config;
use rollcall_controller::clock::Clock;
use serde_json::Value;
use snapshot::SnapshotCallback;
use std::sync::Arc;
use std::time::Duration;
use timeline::Timeline;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// When every simulated cluster begins: a Thursday, at midnight, UTC.
const BEGINNING: i64 = 1_767_225_600;
/// How often it is looked whether everything has arrived.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long everything has to stay arrived, so that later effects of the last arrival are seen.
const STAYS: Duration = Duration::from_secs(2);
/// Nothing new for so long, at the end of the time: it will not come any more.
const STUCK_AFTER: Duration = Duration::from_secs(600);

/// Runs a plan to its end. The same plan gives the same report.
pub fn simulate(plan: Plan) -> Result<Report> {
    block_on_virtual_time(run(plan, None, |_, _, _| {}))
}

/// The same, and calls `call` every so often in virtual time. However long it takes, nothing happens meanwhile.
pub fn simulate_for(
    plan: Plan,
    every: Duration,
    call: &mut dyn FnMut(&Snapshot) -> Result<()>,
) -> Result<Report> {
    block_on_virtual_time(run(plan, Some(SnapshotCallback { every, call }), |_, _, _| {}))
}

fn block_on_virtual_time(run: impl Future<Output = Result<Report>>) -> Result<Report> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    runtime.block_on(run)
}

/// All that is applied, from the beginning or later.
fn applied(plan: &Plan) -> impl Iterator<Item = &Value> {
    let later = plan.at.iter().filter_map(|at| match &at.action {
        Action::Apply { objects } => Some(objects),
        _ => None,
    });
    plan.objects.iter().chain(later.flatten()).map(|given| &given.value)
}

/// Whether room is kept.
fn needs_reservations(plan: &Plan) -> bool {
    applied(plan).any(|object| object["apiVersion"] == names::KORDER_API_VERSION)
}

/// Whether the controller runs in Full mode, with its admission: when a sequence goes by nodes, or a namespace wants its pods
/// to be given their gates, or containers are to start in order, or room is kept.
fn needs_full_mode(plan: &Plan) -> bool {
    let by_nodes =
        |object: &Value| object["kind"] == names::SEQUENCE_KIND && object["spec"]["scope"] == "Node";
    let enabled = |object: &Value| {
        object["kind"] == "Namespace"
            && object["metadata"]["labels"][names::ENABLED_LABEL] == names::ENABLED_VALUE
    };
    needs_reservations(plan)
        || applied(plan).any(|given| {
            let pods = ["", "/spec/template", "/spec/jobTemplate/spec/template"];
            let mut pods = pods.iter().filter_map(|place| given.pointer(place));
            by_nodes(given) || enabled(given) || pods.any(asks_for_order)
        })
}

/// `prepare` is called before the controller starts, with what it will share, the cluster and its clock.
async fn run(
    plan: Plan,
    callback: Option<SnapshotCallback<'_>>,
    prepare: impl FnOnce(&rollcall_controller::Shared, &Arc<Shared>, Clock),
) -> Result<Report> {
    let clock = Clock::starting_at(Timestamp::from_second(BEGINNING)?);
    let embedded = Embedded::new(clock, plan.seed);
    let shared = embedded.shared.clone();
    let timeline = Timeline::new(clock.now());
    let (full, reservations) = (needs_full_mode(&plan), needs_reservations(&plan));
    let notes = {
        let mut cluster = shared.lock();
        cluster.store.observe(Box::new(timeline.clone()));
        cluster.store.author = Author::User;
        cluster.programs = apply::program_behaviour(&plan);
        cluster.admission.installed = full;
        cluster.admission.serves_reservations = reservations;
        let notes = apply::create_objects(&mut cluster, &plan)?;
        cluster.store.author = Author::Cluster;
        notes
    };
    let config = Config { full, reservations, ..embedded::config("simulation", plan.seed) };
    let client = embedded.client(Author::Controller(0));
    let beside = Arc::new(rollcall_controller::Shared::default());
    prepare(&beside, &shared, clock);
    let controller = rollcall_controller::run_with(client, config, clock, beside, CancellationToken::new());
    let drains = Drains::default();
    let outcome = tokio::select! {
        biased;
        outcome = wait_for_outcome(&plan, &shared, &timeline, &drains) => outcome,
        failed = user_actions::perform(&plan.at, &shared, &drains) => return Err(failed),
        failed = snapshot::call_periodically(callback, clock, &shared) => return Err(failed),
        () = embedded.run() => anyhow::bail!("the embedded cluster ended"),
        ended = controller => anyhow::bail!("the controller ended: {ended:?}"),
    };
    let cluster = shared.lock();
    let notes = [notes, drains.notes()].concat();
    Ok(verdict::report(&plan, &cluster, &timeline, outcome, notes))
}

/// Waits until everything has arrived, or the time is over.
async fn wait_for_outcome(
    plan: &Plan,
    shared: &Arc<Shared>,
    timeline: &Timeline,
    drains: &Drains,
) -> Outcome {
    let begun = Instant::now();
    let last_action = plan.at.iter().map(|at| at.time).max().unwrap_or_default();
    let mut arrived_since: Option<Instant> = None;
    while begun.elapsed() < plan.until {
        sleep(LOOK_EVERY).await;
        let arrived = begun.elapsed() > last_action
            && !drains.are_under_way()
            && arrived::has_everything(&shared.lock(), timeline);
        arrived_since = match (arrived, arrived_since) {
            (true, Some(since)) if since.elapsed() >= STAYS => return Outcome::Complete,
            (true, since) => since.or(Some(Instant::now())),
            (false, _) => None,
        };
    }
    let silent = plan.until.saturating_sub(timeline.last_progress()) > STUCK_AFTER;
    match silent && !notes::awaits_a_cron_job(&shared.lock()) {
        true => Outcome::Stuck,
        false => Outcome::Unfinished,
    }
}
