//! The output of the demo while the shop starts.

use crate::commands::explain::{self, CommandStyle};
use crate::commands::status::screen::Screen;
use crate::commands::status::view::SequenceView;
use crate::load::Loaded;
use crate::output::{BAD, Format, STRONG, styled};
use crate::shown;
use anyhow::Result;
use rollcall_core::facts::{Pod, PodPhase};
use rollcall_sim::Snapshot;
use std::time::{Duration, Instant};

/// How virtual time relates to real time.
pub enum Pace {
    AtOnce,
    From { begun: Instant, speed: f64 },
}

impl Pace {
    pub fn starting_now(speed: f64) -> Pace {
        Pace::From { begun: Instant::now(), speed }
    }

    /// Sleeps until the real time that corresponds to virtual time `at`.
    fn wait(&self, at: Duration) {
        if let Pace::From { begun, speed } = self {
            let due = *begun + at.div_f64(*speed);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
    }
}

pub struct DemoScreen {
    pace: Pace,
    screen: Screen,
    /// The pod that failed, and the last held pod, which waits because of it.
    failed: Option<(Pod, Pod)>,
    over: bool,
}

impl DemoScreen {
    pub fn new(pace: Pace) -> DemoScreen {
        DemoScreen { pace, screen: Screen::new(Format::Text), failed: None, over: false }
    }

    pub fn update(&mut self, snapshot: &Snapshot) -> Result<()> {
        // The simulation continues briefly to check that the result is stable; the demo does not show that part.
        if self.over {
            return Ok(());
        }
        self.pace.wait(snapshot.at);
        let Some(sequence) = snapshot.sequences().pop() else { return Ok(()) };
        self.explain(snapshot)?;
        let view = SequenceView::new(&sequence);
        self.over = view.settled().is_some();
        self.screen.show(view, snapshot.now)?;
        self.screen.tick(snapshot.now)
    }

    /// From the first failure until it is resolved, shows why the last tier waits.
    fn explain(&mut self, snapshot: &Snapshot) -> Result<()> {
        let pods = snapshot.pods();
        let now = |pod: &Pod| pods.iter().find(|other| other.uid == pod.uid);
        match &self.failed {
            Some((failed, _)) if now(failed).is_none_or(|pod| pod.phase == PodPhase::Succeeded) => {
                self.failed = None;
                self.screen.keep()
            }
            None => {
                let failed = pods.iter().find(|pod| has_failed(pod));
                let held = pods.iter().rfind(|pod| !pod.gates.is_empty());
                self.failed = failed.cloned().zip(held.cloned());
                self.show_reason(snapshot)
            }
            Some(_) => self.show_reason(snapshot),
        }
    }

    fn show_reason(&mut self, snapshot: &Snapshot) -> Result<()> {
        let Some((failed, held)) = &self.failed else { return Ok(()) };
        let loaded = Loaded {
            index: snapshot.index(),
            namespace: held.namespace.to_string(),
            pod_names: Vec::new(),
            gaps: Vec::new(),
        };
        let head = styled(BAD, shown!("{} has failed, and later groups wait. Why?", failed.name));
        let command = styled(STRONG, shown!("$ rollcall explain pod/{}", held.name));
        let why =
            explain::pod(&loaded, &held.name, &CommandStyle::of_namespace(&loaded.namespace), snapshot.now)?;
        self.screen.below(shown!("\n{}\n{}\n{}\n", head, command, why))
    }
}

fn has_failed(pod: &Pod) -> bool {
    pod.trouble.as_ref().is_some_and(|trouble| trouble.what.contains("exit code"))
}
