//! Carries out what is next, shows how far it is, and looks again: until all is done, or nothing goes on.

use super::warnings::Warning;
use super::world::{Unread, World};
use super::write::{Write, Written};
use crate::commands::status::{screen::Screen, view::View};
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

/// Between two looks: pods need longer to end or to start, and a look is ten small requests.
const PAUSE: Duration = Duration::from_millis(500);
/// In a large namespace a look takes longer; then there is as much rest as this many looks take.
const REST: u32 = 4;
/// An API server that restarts is back by then.
const FAILURES: u32 = 60;
/// How often in a row somebody else may have written to what is to be written.
const MOVES: u32 = 60;
/// How long something has to look stuck to be taken for it: a pod that has just been replaced is not ready either.
const STUCK_AFTER: Duration = Duration::from_secs(5);

/// What comes next, judged by what is there now.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    Write(Vec<Write>),
    Wait(Wait),
    Done,
    /// It cannot go on; why, and what to do.
    Failed {
        why: String,
        hints: Vec<String>,
    },
}

/// What has to happen before it goes on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wait {
    /// The groups that this is about.
    pub tiers: Vec<Arc<str>>,
    /// What they wait for: `2 pods are left: web-1, web-2`.
    pub what: String,
    /// Commands that help if it takes too long.
    pub hints: Vec<String>,
    /// Nothing goes on by itself, if this is so for a while: why, and what to do.
    pub stuck: Option<(String, Vec<String>)>,
}

/// What there is to judge by.
pub struct Moment<'a> {
    pub world: &'a World,
    /// The workloads that this run has written to.
    pub written: &'a BTreeSet<Uid>,
    /// Since the first look.
    pub elapsed: Duration,
}

/// What was found at one look.
pub struct Look {
    pub next: Next,
    /// The groups that are through.
    pub done: BTreeSet<Arc<str>>,
}

/// How the command is called, and what it is about.
pub struct Drive<'a> {
    pub connection: &'a Connection,
    pub timeout: Duration,
    /// Of a tier that is through: `is stopped`.
    pub through: &'static str,
    /// What always helps, when it fails or takes too long.
    pub advice: Vec<String>,
}

impl Drive<'_> {
    /// Turns until there is nothing left to do.
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
            screen.show(View::new(&world.sequence), Timestamp::now())?;
            let elapsed = begin.elapsed();
            let Look { next, done } = judge(Moment { world: &world, written: &written, elapsed })?;
            for title in known.iter().flat_map(|known| done.difference(known)) {
                screen.say(shown!("\"{}\" {}\n", title, self.through))?;
            }
            known = Some(done);
            match next {
                Next::Done => return Ok(Outcome::Done),
                Next::Failed { why, hints } => return Ok(self.failed(&why, &hints)),
                Next::Write(writes) => match self.write(&world, &writes, &mut written, &mut screen).await? {
                    true => (timer, moved) = (Timer::default(), 0),
                    false if moved == MOVES => bail!("{} changes all the time; try again", world.namespace()),
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

    /// Writes one after the other; what has changed meanwhile is left for the next look. Says whether anything was written.
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
                    screen.say(shown!("{}\n", write.says))?;
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

    /// Says how it ends, if it does.
    fn wait(&self, wait: &Wait, timer: &mut Timer) -> Option<Outcome> {
        let now = Instant::now();
        let titles: Vec<String> = wait.tiers.iter().map(|title| format!("\"{title}\"")).collect();
        let titles = titles.join(", ");
        if timer.waited_for != wait.tiers {
            *timer = Timer { waited_for: wait.tiers.clone(), since: Some(now), ..Timer::default() };
        }
        let stuck = wait.stuck.as_ref();
        if timer.stuck.as_ref().map(|(why, _)| why) != stuck.map(|(why, _)| why) {
            timer.stuck = stuck.map(|(why, _)| (why.clone(), now));
        }
        if let (Some((why, hints)), Some((_, since))) = (stuck, &timer.stuck)
            && now >= *since + STUCK_AFTER
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

/// Since when the same is waited for.
#[derive(Default)]
struct Timer {
    waited_for: Vec<Arc<str>>,
    since: Option<Instant>,
    stuck: Option<(String, Instant)>,
    pause: Duration,
}

/// Says what there is to know before anything is changed.
pub fn warn(warnings: &[Warning]) {
    for Warning { text, hint } in warnings {
        output::note(text);
        hint.iter().for_each(output::hint);
    }
}

/// What would be done, a group after the other.
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

/// A list of names, cut where nobody reads on.
pub fn some<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    const MOST: usize = 5;
    let names: Vec<&str> = names.into_iter().collect();
    match names.len() {
        0..=MOST => names.join(", "),
        more => format!("{} and {} more", names[..MOST].join(", "), more - MOST),
    }
}
