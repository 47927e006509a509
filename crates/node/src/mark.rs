//! `rollcall-node mark`: keeps a marker while conditions hold.

use crate::Outcome;
use crate::arguments::Mark;
use crate::condition::in_words;
use crate::marker::{Change, Keeper};
use crate::talk::{Talk, Topic};
use crate::watch::{Event, Events, Watch, spawn};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// A command that does not exit after SIGTERM is killed after this time. A pod has 30 s to terminate by default.
const GRACE: Duration = Duration::from_secs(2);

pub fn run(options: Mark) -> io::Result<Outcome> {
    let Mark { path, conditions, interval, command } = options;
    let events = Events::new()?;
    let mut talk = Talk::new();
    let mut keeper = Keeper::new(path);
    // A marker of an earlier run must not count, so it is removed first.
    clear(&mut keeper, &mut talk);
    let watch = Watch::start(&conditions, interval, &events)?;
    let mut step = Step::new(command);
    loop {
        let now = Instant::now();
        let missing = watch.missing(now);
        if missing.is_empty() && step.is_done() {
            keep(&mut keeper, &mut talk);
        } else {
            let (topic, why) = match missing.first() {
                Some((condition, why)) => (Topic::State, format!("{condition}: {why}")),
                None => step.why_not(),
            };
            clear(&mut keeper, &mut talk);
            talk.report(topic, format!("not ready, no marker: {why}"), now);
            // After an interruption, the command must succeed again.
            step.advance(missing.is_empty(), interval, &events.sender, now);
        }
        talk.catch_up(now);
        match events.next(now + interval) {
            Some(Event::Signal(signal)) => {
                step.stop(&events);
                let said = match keeper.retire() {
                    Ok(Change::Removed) => "the marker has been removed".to_owned(),
                    Ok(Change::None | Change::Written) => "no marker to remove".to_owned(),
                    Err(trouble) => trouble,
                };
                talk.line(&format!("terminated by signal {signal}: {said}"));
                return Ok(Outcome::Ended(signal));
            }
            Some(Event::Command(ended)) => step.ended(ended, Instant::now()),
            Some(Event::ReadNodes | Event::Gone | Event::Mounts) | None => {}
        }
    }
}

fn keep<W: io::Write>(keeper: &mut Keeper, talk: &mut Talk<W>) {
    let now = Instant::now();
    match keeper.keep(None) {
        Ok(change) => {
            talk.forget(Topic::Trouble);
            if change == Change::Written {
                talk.report(Topic::State, format!("ready: marker {} written", keeper.path().display()), now);
            }
        }
        Err(trouble) => talk.repeat(Topic::Trouble, trouble, now),
    }
}

fn clear<W: io::Write>(keeper: &mut Keeper, talk: &mut Talk<W>) {
    match keeper.clear() {
        Ok(_) => talk.forget(Topic::Trouble),
        Err(trouble) => talk.repeat(Topic::Trouble, trouble, Instant::now()),
    }
}

/// The command that must exit with code 0 before the marker is written.
struct Step {
    command: Vec<OsString>,
    state: State,
    /// Why the last run failed.
    failure: Option<String>,
}

enum State {
    /// To be run; the time is that of the last failed run.
    Due(Option<Instant>),
    Running(Pid),
    Done,
}

impl Step {
    fn new(command: Vec<OsString>) -> Step {
        let state = if command.is_empty() { State::Done } else { State::Due(None) };
        Step { command, state, failure: None }
    }

    fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Why the step is not complete. A running command has a topic of its own, so that it does not suppress the message
    /// about its last failure.
    fn why_not(&self) -> (Topic, String) {
        match &self.failure {
            Some(failure) => (Topic::State, format!("{failure}; retrying")),
            None => (Topic::Remark, format!("{} runs", self.name())),
        }
    }

    fn name(&self) -> String {
        self.command.first().map_or(String::new(), |name| name.to_string_lossy().into_owned())
    }

    /// Starts the command if it is due. After an interruption, the command must run again.
    fn advance(&mut self, wanted: bool, interval: Duration, events: &Sender<Event>, now: Instant) {
        match self.state {
            State::Done if !wanted && !self.command.is_empty() => self.state = State::Due(None),
            State::Due(at) if wanted && at.is_none_or(|at| now >= at + interval) => {
                match spawn_command(&self.command, events) {
                    Ok(pid) => self.state = State::Running(pid),
                    Err(error) => self.ended(Err(format!("{}: {}", self.name(), in_words(&error))), now),
                }
            }
            State::Due(_) | State::Running(_) | State::Done => {}
        }
    }

    fn ended(&mut self, ended: Result<(), String>, now: Instant) {
        (self.state, self.failure) = match ended {
            Ok(()) => (State::Done, None),
            Err(why) => (State::Due(Some(now)), Some(why)),
        };
    }

    /// Terminates the command.
    fn stop(&self, events: &Events) {
        let State::Running(pid) = self.state else { return };
        let end = Instant::now() + GRACE;
        // The command has a process group of its own, so that its child processes are terminated, too.
        let kill =
            |signal| rustix::process::kill_process_group(pid, signal).or_else(|_| kill_process(pid, signal));
        let _ = kill(Signal::TERM);
        while Instant::now() < end {
            if let Some(Event::Command(_)) = events.next(end) {
                return;
            }
        }
        let _ = kill(Signal::KILL);
    }
}

fn spawn_command(command: &[OsString], events: &Sender<Event>) -> io::Result<Pid> {
    let child = Command::new(&command[0]).args(&command[1..]).process_group(0).spawn()?;
    let name = command[0].to_string_lossy().into_owned();
    let pid = Pid::from_child(&child);
    let events = events.clone();
    spawn("command", move || {
        let _ = events.send(Event::Command(awaited(child, &name)));
    })?;
    Ok(pid)
}

fn awaited(mut child: Child, name: &str) -> Result<(), String> {
    let status = child.wait().map_err(|error| format!("{name}: {}", in_words(&error)))?;
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(code), _) => Err(format!("{name} exited with code {code}")),
        (None, signal) => Err(format!("{name} was terminated by signal {}", signal.unwrap_or_default())),
    }
}
