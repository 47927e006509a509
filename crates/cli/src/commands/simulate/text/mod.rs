//! Draws a run as text: a row per group and pod, with time from left to right.

mod axis;
mod bar;
mod tickets;
mod words;

use crate::output::{BAD, BUSY, FAINT, GOOD, STRONG, styled};
use crate::shown;
use crate::shown::{Show, Shown};
use axis::{Scale, time};
use bar::{Cell, STATES};
use rollcall_sim::report::{
    GroupReport, Never, Outcome, PodReport, PodState, Report, SequenceReport, Span, Why,
};
use std::collections::BTreeSet;
use unicode_width::UnicodeWidthStr;
use words::{fit, wrapped};

/// The available width, and whether to fold pods.
#[derive(Clone, Copy, Debug)]
pub struct PictureLimits {
    pub width: usize,
    /// Whether every pod has a row, no matter how many there are.
    pub all_pods: bool,
}

/// Width without a terminal; it fits CI logs and documents.
pub const USUAL_WIDTH: usize = 100;
/// Minimum width to draw for; in a narrower terminal the lines wrap.
const LEAST_WIDTH: usize = 60;
/// Maximum width to draw for; in wider pictures the eye cannot follow a row from the name to the end of its bar.
const MOST_WIDTH: usize = 160;
/// Target number of pod rows, about two screens. Rows of groups are always shown.
const ROWS: usize = 96;
/// Maximum number of pod rows per group.
const MOST_PODS: usize = 8;
/// Number of pod rows per group in a long picture: only pods on the critical chain and pods that never arrived.
const LEAST_PODS: usize = 3;
/// Maximum length of the list of pods that can never start; the first entries mostly cause the others.
const MOST_NEVER: usize = 20;
const MOST_NAME: usize = 36;
/// Wide enough for `  … and 137 more`.
const LEAST_NAME: usize = 16;
/// Width of the progress column, as in `2/2 ready after 12.4s` or `10/12 ready, never opened`.
const PROGRESS: usize = 25;
/// From this width on, the row of a group also shows the group that it waited for.
const WIDE: usize = 110;
const WAITED: usize = 34;
/// The picture extends past the end of the run by 1/16 of its length, so that the bars of the last pods are visible.
const BEYOND: u64 = 16;
/// A non-breaking space, where lines are not wrapped.
const FIXED: &str = "\u{a0}";

pub fn text(report: &Report, room: PictureLimits) -> Shown {
    let width = room.width.clamp(LEAST_WIDTH, MOST_WIDTH);
    let picture = Picture::new(report, width, room.all_pods);
    let mut text = picture.draw();
    text += totals(report, width);
    text += never(&report.never, width);
    if !report.notes.is_empty() {
        text += shown!("\nnotes:\n");
        for note in &report.notes {
            text += shown!("{}\n", wrapped(&format!("  {note}"), width, 2));
        }
    }
    text
}

struct Picture<'a> {
    report: &'a Report,
    names: usize,
    scale: Scale,
    beside: usize,
    pods_per_group: usize,
    critical: BTreeSet<usize>,
}

impl<'a> Picture<'a> {
    fn new(report: &'a Report, width: usize, all_pods: bool) -> Picture<'a> {
        let groups = || report.sequences.iter().flat_map(|sequence| &sequence.groups);
        let group_names = groups().map(|group| group.name.width());
        let ranks = report.pods.iter().flat_map(|pod| &pod.ranks).map(|rank| words::rank(rank).width());
        let tickets = report.tickets.iter().map(|ticket| ticket.name.width() + 2);
        let pod_names = report.pods.iter().map(|pod| pod.name.width() + 2).chain(ranks).chain(tickets);
        let most = (width * 3 / 10).min(MOST_NAME);
        let names = group_names.chain(pod_names).max().unwrap_or(0).clamp(LEAST_NAME, most.max(LEAST_NAME));
        let beside = if width >= WIDE { PROGRESS + WAITED } else { PROGRESS };
        let columns = width - names - 2 - 2 - beside;
        let share = ROWS / groups().count().max(1);
        let pods_per_group = match all_pods {
            true => usize::MAX,
            false if share < LEAST_PODS => 0,
            false => share.min(MOST_PODS),
        };
        let critical = report.critical.iter().map(|step| step.pod).collect();
        // The axis includes the last `--at` action, even if it had no effect.
        let end = report.ended.max(report.last_action);
        let scale = Scale::new(columns, end + end / BEYOND);
        Picture { report, names, scale, beside, pods_per_group, critical }
    }

    fn draw(&self) -> Shown {
        let Report { pods, sequences, orders, tickets, .. } = self.report;
        if pods.is_empty() && sequences.is_empty() && orders.is_empty() && tickets.is_empty() {
            return shown!("The manifests contain no pods and no sequences.\n");
        }
        let mut text = shown!("{}  {}\n", " ".repeat(self.names), styled(FAINT, self.scale.line()));
        let mut shown = BTreeSet::new();
        for sequence in &self.report.sequences {
            text += self.sequence(sequence);
            shown.extend(sequence.groups.iter().flat_map(|group| group.pods.iter().copied()));
        }
        let others: Vec<usize> = (0..self.report.pods.len()).filter(|pod| !shown.contains(pod)).collect();
        if !others.is_empty() {
            text += shown!("{}\n", styled(STRONG, "pods without a sequence"));
            text += self.pods(&others, false);
        }
        text += self.reservations();
        let legends = [Some(self.legend()).filter(|legend| !legend.is_empty()), self.legend_of_tickets()];
        let legends: Vec<Shown> = legends.into_iter().flatten().collect();
        match legends.is_empty() {
            true => text,
            false => text + shown!("\n{}\n", styled(FAINT, Shown::joined(legends.into_iter(), "\n"))),
        }
    }

    fn sequence(&self, sequence: &SequenceReport) -> Shown {
        let SequenceReport { namespace, name, by_node, phase, message, groups } = sequence;
        let several = self.report.sequences.iter().any(|other| other.namespace != *namespace);
        let place = if several { shown!("{}/{}", namespace, name) } else { shown!("{}", name) };
        let look = match phase.as_str() {
            "Completed" => GOOD,
            "Failed" => BAD,
            _ => BUSY,
        };
        let mut text = shown!("{} {}", styled(STRONG, shown!("podseq/{}", place)), styled(look, phase));
        if phase != "Completed" && !message.is_empty() {
            let before = shown!("podseq/{} {}: ", place, phase).width();
            text += shown!(": {}", words::cut_end(message, self.width().saturating_sub(before)));
        }
        text += shown!("\n");
        for number in 0..groups.len() {
            text += self.group(groups, number, *by_node);
        }
        text
    }

    fn group(&self, groups: &[GroupReport], number: usize, by_node: bool) -> Shown {
        let group = &groups[number];
        // A group without pods has no time of creation; its bar begins at 0.
        let began = words::began(self.report, group).unwrap_or(0);
        let cells = bar::of_group(group, began, self.scale);
        let progress = words::progress(self.report, group);
        let wide = self.beside > PROGRESS;
        let room = if wide { WAITED - 1 } else { self.scale.columns + 2 + PROGRESS - 2 };
        let waited = words::waited(self.report, groups, group, room);
        let beside = match &waited {
            Some(waited) if wide => shown!("{} {}", fit(&progress, PROGRESS), styled(FAINT, waited)),
            Some(_) | None => shown!("{}", progress),
        };
        let name = fit(&words::name(groups, number), self.names);
        let mut text = self.row(styled(STRONG, name), &cells, beside);
        // A long picture has only one line per group; the HTML page shows the waits.
        if let (false, Some(waited), 1..) = (wide, waited, self.pods_per_group) {
            text += shown!("{}  {}\n", " ".repeat(self.names), styled(FAINT, shown!("└ {}", waited)));
        }
        text + self.pods(&group.pods, by_node)
    }

    /// Draws the rows of pods: all of them, or the most informative ones and a summary of the others. With `by_node`, each row
    /// names the node of its pod.
    fn pods(&self, pods: &[usize], by_node: bool) -> Shown {
        let interesting = |pod: &&usize| {
            self.critical.contains(*pod)
                || self.report.pods.get(**pod).is_some_and(|pod| pod.arrived.is_none())
        };
        let room = match self.pods_per_group {
            0 => pods.iter().filter(interesting).count().min(LEAST_PODS),
            most => most,
        };
        let mut shown: Vec<usize> = (0..pods.len()).collect();
        let mut folded = Vec::new();
        if pods.len() > room {
            // The sort is stable: within each half, pods stay in the order of creation.
            shown.sort_by_key(|place| !interesting(&&pods[*place]));
            // The summary line replaces one row.
            let rows = if self.pods_per_group == 0 { room } else { room.saturating_sub(1) };
            folded = shown.split_off(rows).into_iter().map(|place| pods[place]).collect();
            shown.sort_unstable();
        }
        let mut text = Shown::default();
        for pod in shown.iter().filter_map(|place| self.report.pods.get(pods[*place])) {
            let cells = bar::of_spans(pod, &pod.spans, self.scale);
            text += self.row(fit(&format!("  {}", pod.name), self.names), &cells, beside(pod, by_node));
            for rank in &pod.ranks {
                let cells = bar::of_spans(pod, &rank.spans, self.scale);
                text += self.row(fit(&words::rank(rank), self.names), &cells, Shown::default());
            }
        }
        // In a long picture the row of the group already shows the number of pods.
        if !folded.is_empty() && self.pods_per_group > 0 {
            let more = format!("  … and {} more", folded.len());
            let tally = words::tally(self.report, &folded);
            text += shown!("{}  {}\n", fit(&more, self.names), styled(FAINT, tally));
        }
        text
    }

    fn row(&self, name: Shown, cells: &[Cell], beside: Shown) -> Shown {
        if beside.is_empty() {
            // Trailing blanks are omitted.
            let end = cells.iter().rposition(|cell| *cell != Cell::Nothing).map_or(0, |last| last + 1);
            return shown!("{}  {}\n", name, bar::draw(&cells[..end]));
        }
        shown!("{}  {}  {}\n", name, bar::draw(cells), beside)
    }

    fn width(&self) -> usize {
        self.names + 2 + self.scale.columns + 2 + self.beside
    }

    /// The legend of the states that occur in the picture.
    fn legend(&self) -> Shown {
        let groups = || self.report.sequences.iter().flat_map(|sequence| &sequence.groups);
        let seen = |state| {
            let is_seen = |spans: &[Span]| spans.iter().any(|span| span.state == state);
            let of_ranks = |pod: &PodReport| pod.ranks.iter().any(|rank| is_seen(&rank.spans));
            let pods = || self.report.pods.iter().any(|pod| is_seen(&pod.spans) || of_ranks(pod));
            match state {
                PodState::Starting => pods() || groups().any(|group| group.opened.is_some()),
                PodState::Ready => pods() || groups().any(|group| group.completed.is_some()),
                _ => pods(),
            }
        };
        let used = STATES.into_iter().filter(|state| seen(*state));
        // Lines are not wrapped within an entry.
        let entry = |state| format!("{} {}", bar::mark(state), bar::word(state)).replace(' ', FIXED);
        let legend = wrapped(&used.map(entry).collect::<Vec<_>>().join("   "), self.width(), 0);
        let lines = legend.as_str().lines().map(|line| line.replace(FIXED, " "));
        Shown::joined(lines.map(|line| line.shown()), "\n")
    }
}

/// The text beside the bar of a pod; empty if the bar is sufficient.
fn beside(pod: &PodReport, by_node: bool) -> Shown {
    match (&pod.reason, &pod.node) {
        (Some(why), _) => styled(BAD, &why.code),
        (None, Some(node)) if by_node => styled(FAINT, shown!("on {}", node)),
        (None, _) => Shown::default(),
    }
}

fn totals(report: &Report, width: usize) -> Shown {
    let ended = time(report.ended);
    let nodes = if report.nodes == 1 { "1 node".into() } else { format!("{} nodes", report.nodes) };
    let arrived = report.pods.iter().filter(|pod| pod.arrived.is_some()).count();
    let pods = match report.pods.len() {
        1 => format!("{arrived} of 1 pod arrived"),
        all => format!("{arrived} of {all} pods arrived"),
    };
    let (word, look) = match report.outcome {
        Outcome::Complete => ("complete", GOOD),
        Outcome::Stuck => ("stuck", BAD),
        Outcome::Unfinished => ("unfinished", BUSY),
    };
    let when = match report.outcome {
        Outcome::Complete => format!("after {ended}"),
        Outcome::Stuck => format!("after {ended}; nothing more can happen"),
        Outcome::Unfinished => format!("at the time limit, after {ended}; raise it with --until"),
    };
    let mut text = shown!("\n{} {}\n", styled(look.bold(), word), when);
    text += shown!("{} on {}, seed {}\n", pods, nodes, report.seed);
    if let Some(tickets) = tickets::totals(report) {
        text += shown!("{}\n", tickets);
    }
    if !report.critical.is_empty() {
        let name = |pod: usize| report.pods.get(pod).map_or("?", |pod| pod.name.as_str());
        let steps = report.critical.iter();
        let steps =
            steps.map(|step| format!("{} {}", name(step.pod), time(step.to.saturating_sub(step.from))));
        let chain = format!("critical chain: {}", steps.collect::<Vec<_>>().join(" → "));
        text += shown!("{}\n", wrapped(&chain, width, 2));
    }
    text
}

fn never(never: &[Never], width: usize) -> Shown {
    if never.is_empty() {
        return Shown::default();
    }
    let mut text = shown!("\n{}\n", styled(BAD.bold(), "can never start:"));
    for Never { what, pods: _, why } in never.iter().take(MOST_NEVER) {
        let Why { code, sentence, hint } = why;
        text += shown!("{}\n", wrapped(&format!("  ✗ {what}: {sentence} ({code})"), width, 4));
        if let Some(hint) = hint {
            text += shown!("{}\n", wrapped(&format!("    hint: {hint}"), width, 10));
        }
    }
    if never.len() > MOST_NEVER {
        text += shown!("  … and {} more; use --output json to see all\n", never.len() - MOST_NEVER);
    }
    text
}

#[cfg(test)]
mod tests;
