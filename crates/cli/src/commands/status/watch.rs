//! One sequence until it is complete or has failed.

use super::tree::{self, Style};
use super::view::View;
use crate::connect::Connection;
use crate::load::{self, is, sequences_path};
use crate::outcome::Outcome;
use crate::output::{self, Format};
use crate::{cli, similar};
use anyhow::{Result, anyhow, bail};
use futures::StreamExt;
use jiff::Timestamp;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::Request;
use rollcall_api::sequence::{GroupStatus, Phase, SequenceObject};
use rollcall_api::watch::ListOf;
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// Groups drawn at a time: with their blockers they fit a screen of 24 lines.
const ROWS: usize = 8;
/// How often the elapsed times are drawn again.
const TICK: Duration = Duration::from_secs(1);
/// A watch ends by itself after this time, well before the connection would be given up.
const WATCH_SECONDS: u32 = 290;
/// An API server that restarts is back by then.
const FAILURES: u32 = 60;
const PAUSE: Duration = Duration::from_secs(1);
/// Without `--timeout`: longer than anybody watches.
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
            // Somebody who has just started it wants to know at once that it cannot be reached.
            Err(error) if screen.last.is_none() || failures == FAILURES => return Err(error),
            Err(_) => {
                failures += 1;
                sleep(PAUSE).await;
                continue;
            }
        };
        failures = 0;
        if let Some(phase) = screen.settled(view)? {
            return Ok(phase);
        }
        match watch(connection, name, &version, screen).await {
            Ok(Some(phase)) => return Ok(phase),
            Ok(None) => {}
            // What is wrong shows when it is asked for again.
            Err(Broken::Connection) => sleep(PAUSE).await,
            Err(Broken::Answer(error)) => return Err(error),
        }
    }
}

/// The sequence, and the version to watch it from.
async fn get(connection: &Connection, name: &str) -> Result<(View, String)> {
    let namespace = &connection.namespace;
    let params = ListParams::default().fields(&format!("metadata.name={name}"));
    let request = Request::new(sequences_path(Some(namespace))).list(&params)?;
    let list: ListOf<SequenceObject> = match connection.client.request(request).await {
        Ok(list) => list,
        Err(error) if is(&error, 404) => bail!(
            "the cluster at {} does not know PodSequences; {} install | kubectl apply -f -",
            connection.server,
            cli::program()
        ),
        Err(error) => {
            return Err(connection.explained(error, &format!("list podsequences in namespace {namespace}")));
        }
    };
    match list.items.first() {
        Some(object) => Ok((View::new(object), list.metadata.resource_version)),
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
                screen.tick().map_err(Broken::Answer)?;
                continue;
            }
        };
        match event {
            None => return Ok(None),
            Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
                if let Some(phase) = screen.settled(View::new(&object)).map_err(Broken::Answer)? {
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

/// Where the changes are shown: drawn over each other on a terminal, one after the other elsewhere.
struct Screen {
    format: Format,
    terminal: bool,
    /// Lines drawn, to be drawn over.
    drawn: usize,
    last: Option<View>,
}

impl Screen {
    fn new(format: Format) -> Screen {
        Screen { format, terminal: std::io::stdout().is_terminal(), drawn: 0, last: None }
    }

    /// Shows the change; says whether it was the last one.
    fn settled(&mut self, view: View) -> Result<Option<Phase>> {
        let settled = view.settled();
        if self.last.as_ref() != Some(&view) {
            match (self.format, self.terminal) {
                (Format::Json, _) => output::data(&(serde_json::to_string(&view)? + "\n"))?,
                (Format::Text, true) => self.draw(&view)?,
                (Format::Text, false) => output::data(&changes(self.last.as_ref(), &view, Timestamp::now()))?,
            }
            self.last = Some(view);
        }
        Ok(settled)
    }

    fn tick(&mut self) -> Result<()> {
        match (self.format, self.terminal, self.last.clone()) {
            (Format::Text, true, Some(view)) => self.draw(&view),
            (_, _, _) => Ok(()),
        }
    }

    fn draw(&mut self, view: &View) -> Result<()> {
        let text = tree::text(view, Style { bars: true, rows: ROWS }, Timestamp::now());
        let up = if self.drawn > 0 { format!("\x1b[{}A", self.drawn) } else { String::new() };
        self.drawn = text.lines().count();
        // Wrapping off meanwhile: a line that wraps would be two, and the way up one short.
        let frame = format!("{up}\x1b[J\x1b[?7l{text}\x1b[?7h");
        output::terminal(&frame)
    }
}

/// What is new, in lines that make sense in a log.
fn changes(before: Option<&View>, view: &View, now: Timestamp) -> String {
    let state = |view: &View| (view.status.phase, view.status.message.clone());
    let mut text = String::new();
    let known: BTreeMap<&str, &GroupStatus> = before
        .map(|before| before.status.groups.iter().map(|group| (group.name.as_str(), group)).collect())
        .unwrap_or_default();
    for group in &view.status.groups {
        let shown = |group: &GroupStatus| (group.state, group.arrived, group.expected);
        if known.get(group.name.as_str()).map(|known| shown(known)) != Some(shown(group)) {
            text += &format!("{}: {}\n", view.name, tree::line(group, 0, false, now));
        }
    }
    if before.map(state) != Some(state(view)) {
        let phase = view.status.phase.map_or("no status yet", Phase::as_str);
        let message = view.status.message.as_deref().filter(|message| !message.is_empty());
        text += &format!("{}: {phase}{}\n", view.name, message.map_or(String::new(), |m| format!(": {m}")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn a_log_has_only_what_is_new() {
        let view = |object| View::new(&testing::sequence(object));
        let before = view(testing::shop_in_progress());
        let mut next = testing::shop_in_progress();
        next["status"]["groups"][1]["arrived"] = 2.into();
        next["status"]["groups"][1]["state"] = "Complete".into();
        next["status"]["groups"][1]["completedAt"] = "2026-11-15T23:00:40.000Z".into();
        next["status"]["message"] = "waiting for 1 of 1 pods of \"Frontend Layer\"".into();
        let next = view(next);
        let plain = |text: String| anstream::adapter::strip_str(&text).to_string();
        let log = [
            "first:",
            &changes(None, &before, testing::now()),
            "then:",
            &changes(Some(&before), &next, testing::now()),
        ];
        insta::assert_snapshot!(plain(log.join("\n")));
        assert_eq!(changes(Some(&next), &next, testing::now()), "");
    }
}
