//! Simulates a whole start in virtual time, from manifests to a report. "Arrived" means ready, or succeeded if the pod runs
//! to completion.
//!
//! - [`apply`]: creates the objects of the plan. [`timeline`]: records the life of each pod from the commits.
//! - [`facts`]: builds the core's index from the stored objects. [`snapshot`]: the cluster at one point in time, for
//!   callbacks.
//! - [`closed_nodes`]: nodes that a sequence still blocks. [`dns`]: DNS names of pods. [`drains`]: evicts the pods of
//!   drained nodes.
//! - [`arrived`]: whether everything has arrived. [`verdict`]: builds the report. [`causes`]: why something has not
//!   arrived.
//! - [`tickets`]: records the life of each ticket. [`ranks`]: progress of the containers in pods with a launch order.
//! - [`never`]: lists what can never start. [`notes`]: further remarks. [`chain`]: the critical chain.

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

/// Start time of every simulated cluster: Thursday 2026-01-01, 00:00 UTC.
const BEGINNING: i64 = 1_767_225_600;
/// Interval of the check whether everything has arrived.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Time that everything must stay arrived, so that later effects of the last arrival are seen.
const STAYS: Duration = Duration::from_secs(2);
/// A run that ends without progress for this long counts as stuck.
const STUCK_AFTER: Duration = Duration::from_secs(600);

/// Runs a plan to its end. The same plan always gives the same report.
pub fn simulate(plan: Plan) -> Result<Report> {
    block_on_virtual_time(run(plan, None, |_, _, _| {}))
}

/// Like [`simulate`], and also calls `call` at the given interval of virtual time. Virtual time stands still during a call.
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

/// All objects of the plan, whether applied at the beginning or later.
fn applied(plan: &Plan) -> impl Iterator<Item = &Value> {
    let later = plan.at.iter().filter_map(|at| match &at.action {
        Action::Apply { objects } => Some(objects),
        _ => None,
    });
    plan.objects.iter().chain(later.flatten()).map(|given| &given.value)
}

/// Whether the plan contains objects of the reservation API, such as an Order.
fn needs_reservations(plan: &Plan) -> bool {
    applied(plan).any(|object| object["apiVersion"] == names::KORDER_API_VERSION)
}

/// Whether the controller must run in Full mode, which includes admission. It must if a sequence has Node scope, if a
/// namespace opts in to gate injection, if containers start in order, or if capacity is reserved.
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
    prepare: impl FnOnce(&rollcall_controller::shared::Shared, &Arc<Shared>, Clock),
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
    let beside = Arc::new(rollcall_controller::shared::Shared::default());
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

/// Waits until everything has arrived or the time limit is reached.
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
