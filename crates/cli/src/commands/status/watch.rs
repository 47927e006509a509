//! Watches one sequence until it is complete or has failed.

use super::screen::Screen;
use super::view::SequenceView;
use crate::connect::Connection;
use crate::load::{self, has_code, sequences_path};
use crate::outcome::Outcome;
use crate::output::{self, Format};
use crate::{cli, similar};
use anyhow::{Result, anyhow, bail};
use futures::StreamExt;
use jiff::Timestamp;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::Request;
use rollcall_api::sequence::{Phase, SequenceObject};
use rollcall_api::watch::ListOf;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// Interval between redraws of the elapsed times.
const TICK: Duration = Duration::from_secs(1);
/// Duration of one watch request, shorter than the read timeout of the connection.
const WATCH_SECONDS: u32 = 290;
/// Number of retries, enough for an API server to restart.
const FAILURES: u32 = 60;
const PAUSE: Duration = Duration::from_secs(1);
/// The timeout if `--timeout` is not set; in effect unlimited.
const FOR_EVER: Duration = Duration::from_secs(365 * 86_400);

pub async fn until_settled(
    connection: &Connection,
    name: &str,
    timeout: Option<Duration>,
    format: Format,
) -> Result<Outcome> {
    let deadline = Instant::now() + timeout.unwrap_or(FOR_EVER);
    let mut screen = Screen::new(format);
    let explain = || output::hint(format!("{} explain podseq/{name}", cli::program()));
    match timeout_at(deadline, follow(connection, name, &mut screen)).await {
        Ok(Ok(Phase::Failed)) => {
            explain();
            Ok(Outcome::Failed)
        }
        Ok(Ok(Phase::Completed | Phase::Pending | Phase::InProgress)) => Ok(Outcome::Done),
        Ok(Err(error)) => Err(error),
        Err(_) => {
            output::note(format!("--timeout: podsequence {name} is not complete yet"));
            explain();
            Ok(Outcome::TimedOut)
        }
    }
}

async fn follow(connection: &Connection, name: &str, screen: &mut Screen) -> Result<Phase> {
    let mut failures = 0;
    loop {
        let (view, version) = match get(connection, name).await {
            Ok(found) => found,
            // If the first request fails, the command reports the error at once instead of retrying.
            Err(error) if screen.is_empty() || failures == FAILURES => return Err(error),
            Err(_) => {
                failures += 1;
                sleep(PAUSE).await;
                continue;
            }
        };
        failures = 0;
        if let Some(phase) = show(screen, view)? {
            return Ok(phase);
        }
        match watch(connection, name, &version, screen).await {
            Ok(Some(phase)) => return Ok(phase),
            Ok(None) => {}
            // The next GET reports the cause if the problem persists.
            Err(Broken::Connection) => sleep(PAUSE).await,
            Err(Broken::Answer(error)) => return Err(error),
        }
    }
}

/// Reads the sequence, and the resourceVersion to watch from.
async fn get(connection: &Connection, name: &str) -> Result<(SequenceView, String)> {
    let namespace = &connection.namespace;
    let params = ListParams::default().fields(&format!("metadata.name={name}"));
    let request = Request::new(sequences_path(Some(namespace))).list(&params)?;
    let list: ListOf<SequenceObject> = match connection.client.request(request).await {
        Ok(list) => list,
        Err(error) if has_code(&error, 404) => bail!(
            "PodSequences are not installed in the cluster at {}; run: {} install | kubectl apply -f -",
            connection.server,
            cli::program()
        ),
        Err(error) => {
            return Err(connection.explained(error, &format!("list podsequences in namespace {namespace}")));
        }
    };
    match list.items.first() {
        Some(object) => Ok((SequenceView::new(object), list.metadata.resource_version)),
        None => {
            let there = load::in_namespace(connection, namespace).await?;
            let names = there.iter().map(|object| object.metadata.name.as_str());
            bail!("no podsequence {name} in namespace {namespace}{}", similar::suggestion(name, names))
        }
    }
}

enum Broken {
    Connection,
    Answer(anyhow::Error),
}

async fn watch(
    connection: &Connection,
    name: &str,
    version: &str,
    screen: &mut Screen,
) -> Result<Option<Phase>, Broken> {
    let params = WatchParams::default().fields(&format!("metadata.name={name}")).timeout(WATCH_SECONDS);
    let request = Request::new(sequences_path(Some(&connection.namespace))).watch(&params, version);
    let request = request.map_err(|error| Broken::Answer(error.into()))?;
    let events = connection.client.request_events::<SequenceObject>(request).await;
    let mut events = std::pin::pin!(events.map_err(|_| Broken::Connection)?);
    loop {
        let event = tokio::select! {
            biased;
            event = events.next() => event,
            () = sleep(TICK) => {
                screen.tick(Timestamp::now()).map_err(Broken::Answer)?;
                continue;
            }
        };
        match event {
            None => return Ok(None),
            Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
                if let Some(phase) = show(screen, SequenceView::new(&object)).map_err(Broken::Answer)? {
                    return Ok(Some(phase));
                }
            }
            Some(Ok(WatchEvent::Deleted(_))) => {
                return Err(Broken::Answer(anyhow!("podsequence {name} was deleted")));
            }
            Some(Ok(WatchEvent::Bookmark(_))) => {}
            Some(Ok(WatchEvent::Error(_)) | Err(_)) => return Err(Broken::Connection),
        }
    }
}

/// Shows a changed view, and returns the final phase if the sequence has reached one.
fn show(screen: &mut Screen, view: SequenceView) -> Result<Option<Phase>> {
    let settled = view.settled();
    screen.show(view, Timestamp::now())?;
    Ok(settled)
}
