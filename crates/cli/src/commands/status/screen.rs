//! Displays a sequence while it changes: redrawn in place on a terminal, appended line by line elsewhere.

use super::tree::{self, Style};
use super::view::SequenceView;
use crate::output::{self, Format};
use crate::shown;
use crate::shown::Shown;
use anyhow::Result;
use jiff::Timestamp;
use rollcall_api::sequence::{GroupStatus, Phase};
use std::collections::BTreeMap;
use std::io::IsTerminal;

/// Maximum number of groups per drawing; with their blockers they fit a screen of 24 lines.
const ROWS: usize = 8;

pub struct Screen {
    format: Format,
    terminal: bool,
    /// The current drawing, which the next one replaces.
    drawn: Shown,
    last: Option<SequenceView>,
    /// Text below the sequence.
    below: Shown,
}

impl Screen {
    pub fn new(format: Format) -> Screen {
        let terminal = std::io::stdout().is_terminal();
        Screen { format, terminal, drawn: Shown::default(), last: None, below: Shown::default() }
    }

    pub fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    pub fn show(&mut self, view: SequenceView, now: Timestamp) -> Result<()> {
        if self.last.as_ref() == Some(&view) {
            return Ok(());
        }
        match (self.format, self.terminal) {
            (Format::Json, _) => output::json_line(&view)?,
            (Format::Text, true) => self.draw(&view, now)?,
            (Format::Text, false) => output::data(&changes(self.last.as_ref(), &view, now))?,
        }
        self.last = Some(view);
        Ok(())
    }

    /// Redraws the elapsed times.
    pub fn tick(&mut self, now: Timestamp) -> Result<()> {
        match (self.format, self.terminal, self.last.clone()) {
            (Format::Text, true, Some(view)) => self.draw(&view, now),
            (_, _, _) => Ok(()),
        }
    }

    /// Sets the text below the sequence from the next drawing on. Without a terminal, the text is printed once, when it first
    /// appears.
    pub fn below(&mut self, text: Shown) -> Result<()> {
        if !self.terminal && self.below.is_empty() {
            output::data(&text)?;
        }
        self.below = text;
        Ok(())
    }

    /// Prints a permanent line, above the drawing of the sequence if there is one.
    pub fn print_line(&mut self, line: Shown) -> Result<()> {
        if !self.terminal {
            return output::data(&line);
        }
        let lines = std::mem::take(&mut self.drawn).as_str().lines().count();
        output::draw_over(lines, &line)?;
        self.tick(Timestamp::now())
    }

    /// Keeps the current drawing on the screen; the next one starts below it.
    pub fn keep(&mut self) -> Result<()> {
        (self.drawn, self.below) = (Shown::default(), Shown::default());
        if self.terminal { output::data(&Shown::own("\n")) } else { Ok(()) }
    }

    fn draw(&mut self, view: &SequenceView, now: Timestamp) -> Result<()> {
        let text = tree::text(view, Style { bars: true, rows: ROWS }, now) + self.below.clone();
        if text == self.drawn {
            return Ok(());
        }
        let lines = self.drawn.as_str().lines().count();
        self.drawn = text;
        output::draw_over(lines, &self.drawn)
    }
}

/// Returns the changes between two views as log lines.
fn changes(before: Option<&SequenceView>, view: &SequenceView, now: Timestamp) -> Shown {
    let state = |view: &SequenceView| (view.status.phase, view.status.message.clone());
    let mut text = Shown::default();
    let known: BTreeMap<&str, &GroupStatus> = before
        .map(|before| before.status.groups.iter().map(|group| (group.name.as_str(), group)).collect())
        .unwrap_or_default();
    for group in &view.status.groups {
        let shown = |group: &GroupStatus| (group.state, group.arrived, group.expected);
        if known.get(group.name.as_str()).map(|known| shown(known)) != Some(shown(group)) {
            text += shown!("{}: {}\n", view.name, tree::line(group, 0, false, now));
        }
    }
    if before.map(state) != Some(state(view)) {
        let phase = view.status.phase.map_or("no status yet", Phase::as_str);
        let message = view.status.message.as_deref().filter(|message| !message.is_empty());
        let message = message.map_or(String::new(), |message| format!(": {message}"));
        text += shown!("{}: {}{}\n", view.name, phase, message);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn a_log_has_only_what_is_new() {
        let view = |object| SequenceView::new(&testing::sequence(object));
        let before = view(testing::shop_in_progress());
        let mut next = testing::shop_in_progress();
        next["status"]["groups"][1]["arrived"] = 2.into();
        next["status"]["groups"][1]["state"] = "Complete".into();
        next["status"]["groups"][1]["completedAt"] = "2026-11-15T23:00:40.000Z".into();
        next["status"]["message"] = "waiting for 1 of 1 pods of \"Frontend Layer\"".into();
        let next = view(next);
        let changes = |before, next| changes(before, next, testing::now()).without_colours();
        let log = ["first:", &changes(None, &before), "then:", &changes(Some(&before), &next)];
        insta::assert_snapshot!(log.join("\n"));
        assert_eq!(changes(Some(&next), &next), "");
    }
}
