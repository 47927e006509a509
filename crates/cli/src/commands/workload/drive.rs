//! Executes the next step, shows the progress, and reads the world again, until the command is done or cannot continue.

use super::stuck::Stuck;
use super::warnings::Warning;
use super::world::{Unread, World};
use super::write::{Write, Written};
use crate::commands::status::{screen::Screen, view::SequenceView};
use crate::connect::Connection;
use crate::outcome::Outcome;
use crate::output::{self, Format};
use crate::shown;
use crate::shown::Shown;
use anyhow::{Result, bail};
use jiff::Timestamp;
use rollcall_core::Uid;
use rollcall_core::line::human;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Pause between two reads: pods take longer to start or end, and a read consists of ten small requests.
const PAUSE: Duration = Duration::from_millis(500);
/// In a large namespace a read takes longer; the pause is then this many times the duration of a read.
const REST: u32 = 4;
/// Failed reads in a row, one per second, before giving up: enough for an API server to restart.
const FAILURES: u32 = 60;
/// Write conflicts in a row before giving up.
const MOVES: u32 = 60;
/// How long a workload must look stuck before the command fails: a pod that was just replaced is not ready either.
const STUCK_AFTER: Duration = Duration::from_secs(5);

/// The next step, decided from the current world.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    Write(Vec<Write>),
    Wait(Wait),
    Done,
    /// The command cannot continue: the reason, and commands that help.
    Failed {
        why: String,
        hints: Vec<String>,
    },
}

/// A condition that the command waits for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wait {
    /// Titles of the groups that it waits for.
    pub tiers: Vec<Arc<str>>,
    /// Description, such as `not stopped yet: pod/web-1, pod/web-2`.
    pub what: String,
    /// Commands that help after a timeout.
    pub hints: Vec<String>,
    /// Why the wait cannot end without intervention. The command fails if this persists.
    pub stuck: Option<Stuck>,
}

/// Input of a decision.
pub struct Moment<'a> {
    pub world: &'a World,
    /// Workloads that this run has changed.
    pub written: &'a BTreeSet<Uid>,
    /// Time since the first read.
    pub elapsed: Duration,
}

/// Result of a decision.
pub struct Look {
    pub next: Next,
    /// Titles of the groups that are done.
    pub done: BTreeSet<Arc<str>>,
}

/// Parameters of a run.
pub struct Drive<'a> {
    pub connection: &'a Connection,
    pub timeout: Duration,
    /// Text about a group that is done, such as `is stopped`.
    pub through: &'static str,
    /// Hints after any failure or timeout.
    pub advice: Vec<String>,
}

impl Drive<'_> {
    /// Reads, decides and writes until the command is done, fails or times out.
    pub async fn run(
        &self,
        mut world: World,
        mut judge: impl FnMut(Moment<'_>) -> Result<Look>,
    ) -> Result<Outcome> {
        let (begin, mut screen) = (Instant::now(), Screen::new(Format::Text));
        let mut written = BTreeSet::new();
        let mut known: Option<BTreeSet<Arc<str>>> = None;
        let (mut timer, mut moved) = (Timer::default(), 0);
        loop {
            screen.show(SequenceView::new(&world.sequence), Timestamp::now())?;
            let elapsed = begin.elapsed();
            let Look { next, done } = judge(Moment { world: &world, written: &written, elapsed })?;
            for title in known.iter().flat_map(|known| done.difference(known)) {
                screen.print_line(shown!("\"{}\" {}\n", title, self.through))?;
            }
            known = Some(done);
            match next {
                Next::Done => return Ok(Outcome::Done),
                Next::Failed { why, hints } => return Ok(self.failed(&why, &hints)),
                Next::Write(writes) => match self.write(&world, &writes, &mut written, &mut screen).await? {
                    true => (timer, moved) = (Timer::default(), 0),
                    false if moved == MOVES => bail!("write conflicts in {}; try again", world.namespace()),
                    false => moved += 1,
                },
                Next::Wait(wait) => {
                    if let Some(outcome) = self.wait(&wait, &mut timer) {
                        return Ok(outcome);
                    }
                    screen.tick(Timestamp::now())?;
                    sleep(timer.pause).await;
                }
            }
            world = self.look_again(&world, &mut timer).await?;
        }
    }

    /// Sends the writes in order and stops at the first conflict, to decide again. Returns whether anything was written.
    async fn write(
        &self,
        world: &World,
        writes: &[Write],
        written: &mut BTreeSet<Uid>,
        screen: &mut Screen,
    ) -> Result<bool> {
        for (number, write) in writes.iter().enumerate() {
            match write.send(self.connection, world.namespace()).await? {
                Written::Done => {
                    written.extend(write.workload());
                    screen.print_line(shown!("{}\n", write.says))?;
                }
                Written::Moved => {
                    sleep(PAUSE).await;
                    return Ok(number > 0);
                }
            }
        }
        Ok(true)
    }

    async fn look_again(&self, world: &World, timer: &mut Timer) -> Result<World> {
        let mut failures = 0;
        loop {
            let asked = Instant::now();
            match world.again(self.connection).await {
                Ok(world) => {
                    timer.pause = PAUSE.max(asked.elapsed() * REST);
                    return Ok(world);
                }
                Err(Unread { passes: true, .. }) if failures < FAILURES => {
                    failures += 1;
                    sleep(Duration::from_secs(1)).await;
                }
                Err(unread) => return Err(unread.error),
            }
        }
    }

    /// Returns the outcome if the command is stuck or the time limit has passed.
    fn wait(&self, wait: &Wait, timer: &mut Timer) -> Option<Outcome> {
        let now = Instant::now();
        let titles: Vec<String> = wait.tiers.iter().map(|title| format!("\"{title}\"")).collect();
        let titles = titles.join(", ");
        if timer.waited_for != wait.tiers {
            *timer = Timer { waited_for: wait.tiers.clone(), since: Some(now), ..Timer::default() };
        }
        let stuck = wait.stuck.as_ref();
        // The same pod may be unready for changing causes.
        if timer.stuck.map(|(pod, _)| pod) != stuck.map(|stuck| stuck.pod) {
            timer.stuck = stuck.map(|stuck| (stuck.pod, now));
        }
        if let (Some(Stuck { why, hints, .. }), Some((_, since))) = (stuck, timer.stuck)
            && now >= since + STUCK_AFTER
        {
            return Some(self.failed(&format!("{titles}: {why}"), hints));
        }
        let since = *timer.since.get_or_insert(now);
        (now >= since + self.timeout).then(|| {
            output::note(format!(
                "--timeout: {titles} took longer than {}: {}",
                human(self.timeout),
                wait.what
            ));
            wait.hints.iter().chain(&self.advice).for_each(output::hint);
            Outcome::TimedOut
        })
    }

    fn failed(&self, why: &str, hints: &[String]) -> Outcome {
        output::note(why);
        hints.iter().chain(&self.advice).for_each(output::hint);
        Outcome::Failed
    }
}

/// How long the command has waited for the same groups.
#[derive(Default)]
struct Timer {
    waited_for: Vec<Arc<str>>,
    since: Option<Instant>,
    /// The pod that is stuck, and since when.
    stuck: Option<(Uid, Instant)>,
    pause: Duration,
}

/// Prints the warnings.
pub fn warn(warnings: &[Warning]) {
    for Warning { text, hint } in warnings {
        output::note(text);
        hint.iter().for_each(output::hint);
    }
}

/// Prints the planned changes, group by group.
pub fn plan(title: &str, tiers: &[(Arc<str>, Vec<String>)]) -> Shown {
    let mut text = shown!("{}\n", title);
    for (number, (title, lines)) in tiers.iter().enumerate() {
        text += shown!("{}. \"{}\"\n", number + 1, title);
        for line in lines {
            text += shown!("   {}\n", line);
        }
    }
    text
}

/// Joins the first few names, followed by the number of the others.
pub fn some<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    const MOST_NAMES: usize = 5;
    let names: Vec<&str> = names.into_iter().collect();
    match names.len() {
        0..=MOST_NAMES => names.join(", "),
        more => format!("{} and {} more", names[..MOST_NAMES].join(", "), more - MOST_NAMES),
    }
}
