//! Texts beside and below the bars.

use super::axis::time;
use crate::shown;
use crate::shown::{Show, Shown};
use rollcall_sim::report::{GroupReport, PodState, RankReport, Report};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Describes the progress of a group: `2/2 ready after 12.4s`, or how many pods arrived.
pub fn progress(report: &Report, group: &GroupReport) -> String {
    let arrived = group.arrived;
    let of = match group.expected {
        Some(expected) => format!("{arrived}/{expected}"),
        None => format!("{arrived}"),
    };
    match (group.completed, group.state.as_str()) {
        (Some(completed), _) => format!("{of} {} after {}", how(report, group), time(completed)),
        (None, "TimedOut") => format!("{of} {}, timed out", how(report, group)),
        (None, _) if group.opened.is_none() => format!("{of} {}, never opened", how(report, group)),
        (None, _) => format!("{of} {}, not complete", how(report, group)),
    }
}

/// The verb for arrived pods: pods of Jobs are "done", other pods are "ready".
fn how(report: &Report, group: &GroupReport) -> &'static str {
    let last = |pod: &usize| report.pods.get(*pod)?.spans.last().map(|span| span.state);
    let done = group.pods.iter().filter(|pod| last(pod) == Some(PodState::Succeeded)).count();
    match done {
        0 => "ready",
        all if all == group.pods.len() => "done",
        _ => "arrived",
    }
}

/// Describes the wait of a group: `waited for Database Layer 17.1s`. Of several groups, names the one that completed last.
pub fn waited(report: &Report, groups: &[GroupReport], group: &GroupReport, width: usize) -> Option<Shown> {
    let before = group.waits_for.iter().copied().filter(|place| *place < groups.len());
    // A group that is not complete counts as the last, because the wait for it continues.
    let last = before.max_by_key(|before| groups[*before].completed.unwrap_or(u64::MAX))?;
    let name = |others: usize| cut(&name(groups, last), width.saturating_sub(others));
    match group.opened {
        Some(opened) => {
            let waited = opened.saturating_sub(began(report, group)?);
            let length = time(waited);
            let others = "waited for ".len() + 1 + length.len();
            (waited > 0).then(|| shown!("waited for {} {}", name(others), length))
        }
        None => Some(shown!("waits for {}", name("waits for ".len()))),
    }
}

/// The label of a rank below the row of its pod: its priority and its containers.
pub fn rank(rank: &RankReport) -> String {
    format!("    {} {}", rank.priority, rank.containers.join(", "))
}

/// The name of a group, or its number if it has no name.
pub fn name(groups: &[GroupReport], place: usize) -> String {
    match groups[place].name.as_str() {
        "" => format!("group {}", place + 1),
        name => name.to_owned(),
    }
}

/// The creation time of the group's first pod.
pub fn began(report: &Report, group: &GroupReport) -> Option<u64> {
    let first = |pod: &usize| report.pods.get(*pod)?.spans.first().map(|span| span.from);
    group.pods.iter().filter_map(first).min()
}

/// Summarises pods without rows of their own: `37 ready`, `35 ready, 2 held`.
pub fn tally(report: &Report, pods: &[usize]) -> String {
    let last = |pod: &usize| report.pods.get(*pod)?.spans.last().map(|span| span.state);
    let counted =
        super::bar::STATES.map(|state| (state, pods.iter().filter(|pod| last(pod) == Some(state)).count()));
    let mut counted: Vec<_> = counted.into_iter().filter(|(_, count)| *count > 0).collect();
    counted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counted
        .iter()
        .map(|(state, count)| format!("{count} {}", super::bar::word(*state)))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Makes the text exactly `width` columns wide: pads it with blanks, or cuts it.
pub fn fit(text: &str, width: usize) -> Shown {
    cut(text, width).padded(width)
}

/// Limits the text to `width` columns. The cut is in the middle, because similar names mostly differ at the end.
fn cut(text: &str, width: usize) -> Shown {
    let whole = Shown::cleaned(text);
    if whole.width() <= width {
        return whole;
    }
    let width = width.max(1);
    let tail = (width - 1) / 2;
    let head = width - 1 - tail;
    let chars = || whole.as_str().chars();
    let back: String = taken(chars().rev(), tail).chars().rev().collect();
    shown!("{}…{}", taken(chars(), head), back)
}

/// Limits a sentence to `width` columns; the cut is at the end, because the beginning is the most important part.
pub fn cut_end(text: &str, width: usize) -> Shown {
    let whole = Shown::cleaned(text);
    if whole.width() <= width {
        return whole;
    }
    shown!("{}…", taken(whole.as_str().chars(), width.saturating_sub(1)))
}

fn taken(chars: impl Iterator<Item = char>, width: usize) -> String {
    let mut used = 0;
    let fits = |char: &char| {
        used += char.width().unwrap_or(0);
        used <= width
    };
    chars.take_while(fits).collect()
}

/// Wraps the text at blanks into lines of at most `width` columns; lines after the first are indented.
pub fn wrapped(text: &str, width: usize, indent: usize) -> Shown {
    let mut lines = Vec::new();
    let mut line = String::new();
    for (number, word) in Shown::cleaned(text).as_str().split(' ').enumerate() {
        if !line.trim().is_empty() && line.width() + 1 + word.width() > width {
            lines.push(line.trim_end().shown());
            line = " ".repeat(indent) + word;
        } else {
            if number > 0 {
                line.push(' ');
            }
            line += word;
        }
    }
    lines.push(line.shown());
    Shown::joined(lines, "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_in_the_middle() {
        assert_eq!(fit("web", 5).as_str(), "web  ");
        assert_eq!(fit("payments-api-7d4b9c6f5-x2x1z", 15).as_str(), "payment…5-x2x1z");
        assert_eq!(fit("データベース", 7).as_str(), "デ…ス  ");
        assert_eq!(fit("データベース", 8).as_str(), "デー…ス ");
    }

    #[test]
    fn nothing_steers_the_terminal() {
        assert_eq!(fit("a\x1b[2Jb\u{202e}", 9).as_str(), "a�[2Jb�  ");
        assert_eq!(wrapped("a\rb c\n", 3, 0).as_str(), "a�b\nc⏎");
        assert_eq!(cut_end("a\u{7}bc", 3).as_str(), "a�…");
    }

    #[test]
    fn broken_at_blanks() {
        assert_eq!(wrapped("aa bb cc", 5, 2).as_str(), "aa bb\n  cc");
        assert_eq!(wrapped("  aa bb", 40, 2).as_str(), "  aa bb");
        assert_eq!(wrapped("aaaaaaaa b", 4, 2).as_str(), "aaaaaaaa\n  b");
    }
}
