//! Bars that show states over time, one character per column.

use super::axis::Scale;
use crate::output::{BAD, BUSY, FAINT, GOOD, styled};
use crate::shown::{Show, Shown};
use anstyle::Style;
use rollcall_sim::report::{GroupReport, PodReport, PodState, Span};

/// The content of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// The pod does not exist.
    Nothing,
    State(PodState),
    /// The time after the pod has succeeded or failed.
    Over(PodState),
}

pub fn mark(state: PodState) -> char {
    match state {
        PodState::Held => '·',
        PodState::Unschedulable => '?',
        PodState::Starting => '░',
        PodState::Ready => '█',
        PodState::NotReady => '▒',
        PodState::Succeeded => '✓',
        PodState::Failed => '✗',
        PodState::Terminating => '~',
    }
}

pub fn word(state: PodState) -> &'static str {
    match state {
        PodState::Held => "held",
        PodState::Unschedulable => "no node fits",
        PodState::Starting => "starting",
        PodState::Ready => "ready",
        PodState::NotReady => "not ready",
        PodState::Succeeded => "succeeded",
        PodState::Failed => "failed",
        PodState::Terminating => "terminating",
    }
}

/// In the order of the life cycle, for the legend.
pub const STATES: [PodState; 8] = [
    PodState::Held,
    PodState::Unschedulable,
    PodState::Starting,
    PodState::Ready,
    PodState::NotReady,
    PodState::Succeeded,
    PodState::Failed,
    PodState::Terminating,
];

pub fn style(state: PodState) -> Style {
    match state {
        PodState::Held | PodState::Terminating => FAINT,
        PodState::Starting => BUSY,
        PodState::Ready | PodState::Succeeded => GOOD,
        PodState::Unschedulable | PodState::NotReady | PodState::Failed => BAD,
    }
}

/// Priority of a state if several fall into one column, so that failures are never hidden.
fn weight(state: PodState) -> u8 {
    match state {
        PodState::Failed => 3,
        PodState::NotReady => 2,
        PodState::Succeeded => 1,
        PodState::Held
        | PodState::Unschedulable
        | PodState::Starting
        | PodState::Ready
        | PodState::Terminating => 0,
    }
}

/// A period of time in one state.
struct Stretch {
    from: u64,
    to: u64,
    state: PodState,
}

/// Draws the spans of a pod, or of one rank of its containers.
pub fn of_spans(pod: &PodReport, spans: &[Span], scale: Scale) -> Vec<Cell> {
    let end = pod.deleted.unwrap_or(u64::MAX);
    let ends = spans.iter().skip(1).map(|span| span.from).chain([end]);
    let stretch = |(span, to): (&Span, u64)| Stretch { from: span.from, to, state: span.state };
    cells(&spans.iter().zip(ends).map(stretch).collect::<Vec<_>>(), scale)
}

/// Draws a group, from the creation of its first pod: waiting, open, complete.
pub fn of_group(group: &GroupReport, began: u64, scale: Scale) -> Vec<Cell> {
    let opened = group.opened.unwrap_or(u64::MAX);
    let completed = group.completed.unwrap_or(u64::MAX);
    let stretches = [
        Stretch { from: began, to: opened, state: PodState::Held },
        Stretch { from: opened.max(began), to: completed, state: PodState::Starting },
        Stretch { from: completed.max(began), to: u64::MAX, state: PodState::Ready },
    ];
    cells(&stretches, scale)
}

fn cells(stretches: &[Stretch], scale: Scale) -> Vec<Cell> {
    (0..scale.columns).map(|column| cell(stretches, scale.times(column))).collect()
}

fn cell(stretches: &[Stretch], (from, to): (u64, u64)) -> Cell {
    let middle = from + (to - from) / 2;
    let here = stretches
        .iter()
        .filter(|stretch| stretch.from < to && stretch.to > from && stretch.from < stretch.to);
    let covers = |stretch: &Stretch| stretch.from <= middle && middle < stretch.to;
    let Some(most) = here.max_by_key(|stretch| (weight(stretch.state), covers(stretch), stretch.from)) else {
        return Cell::Nothing;
    };
    let ended = matches!(most.state, PodState::Succeeded | PodState::Failed);
    // Only the first column after the end gets the mark of the final state.
    if ended && most.from < from { Cell::Over(most.state) } else { Cell::State(most.state) }
}

/// Draws the cells; neighbours of the same style share one styled run.
pub fn draw(cells: &[Cell]) -> Shown {
    let look = |cell: &Cell| match *cell {
        Cell::Nothing => (' ', None),
        Cell::State(state) => (mark(state), Some(style(state))),
        Cell::Over(state) => ('─', Some(style(state))),
    };
    let mut text = Shown::default();
    for same in cells.chunk_by(|one, other| look(one).1 == look(other).1) {
        let run: String = same.iter().map(|cell| look(cell).0).collect();
        match look(&same[0]).1 {
            Some(style) => text += styled(style, run),
            None => text += run.shown(),
        }
    }
    text
}
