//! What stands beside and below the bars.

use super::axis::time;
use rollcall_sim::report::{GroupReport, PodState, Report};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// `2/2 ready after 12.4s`, or how far it came.
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

/// Pods of Jobs are never ready: they are done.
fn how(report: &Report, group: &GroupReport) -> &'static str {
    let last = |pod: &usize| report.pods.get(*pod)?.spans.last().map(|span| span.state);
    let done = group.pods.iter().filter(|pod| last(pod) == Some(PodState::Succeeded)).count();
    match done {
        0 => "ready",
        all if all == group.pods.len() => "done",
        _ => "arrived",
    }
}

/// `waited for Database Layer 17.1s`: of several groups, the one that came last.
pub fn waited(report: &Report, groups: &[GroupReport], group: &GroupReport, width: usize) -> Option<String> {
    let before = group.waits_for.iter().copied().filter(|place| *place < groups.len());
    // One that is not complete is what it waits for still.
    let last = before.max_by_key(|before| groups[*before].completed.unwrap_or(u64::MAX))?;
    let name = |others: usize| cut(&name(groups, last), width.saturating_sub(others));
    match group.opened {
        Some(opened) => {
            let waited = opened.saturating_sub(began(report, group)?);
            let length = time(waited);
            let others = "waited for ".len() + 1 + length.len();
            (waited > 0).then(|| format!("waited for {} {length}", name(others)))
        }
        None => Some(format!("waits for {}", name("waits for ".len()))),
    }
}

/// Groups need not have a name of their own.
pub fn name(groups: &[GroupReport], place: usize) -> String {
    match groups[place].name.as_str() {
        "" => format!("group {}", place + 1),
        name => name.to_owned(),
    }
}

/// When the first of its pods was there.
pub fn began(report: &Report, group: &GroupReport) -> Option<u64> {
    let first = |pod: &usize| report.pods.get(*pod)?.spans.first().map(|span| span.from);
    group.pods.iter().filter_map(first).min()
}

/// Of pods that are not shown one by one: `37 ready`, `35 ready, 2 held`.
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

/// Names and messages are whatever somebody wrote: what would steer the terminal is made visible instead.
pub fn plain(text: &str) -> String {
    let steers = |char: char| {
        char.is_control()
            || matches!(char, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|char| if steers(char) { '\u{fffd}' } else { char }).collect()
}

/// Exactly so wide: filled up with blanks, or cut.
pub fn fit(text: &str, width: usize) -> String {
    let cut = cut(text, width);
    let missing = width.saturating_sub(cut.width());
    cut + &" ".repeat(missing)
}

/// At most so wide, cut in the middle: names that differ mostly differ at their end.
fn cut(text: &str, width: usize) -> String {
    let text = &plain(text);
    if text.width() <= width {
        return text.to_owned();
    }
    let width = width.max(1);
    let tail = (width - 1) / 2;
    let head = width - 1 - tail;
    let front = taken(text.chars(), head);
    let back: String = taken(text.chars().rev(), tail).chars().rev().collect();
    format!("{front}…{back}")
}

/// At most so wide: a sentence, whose beginning says most.
pub fn cut_end(text: &str, width: usize) -> String {
    let text = &plain(text);
    if text.width() <= width { text.to_owned() } else { taken(text.chars(), width.saturating_sub(1)) + "…" }
}

fn taken(chars: impl Iterator<Item = char>, width: usize) -> String {
    let mut used = 0;
    let fits = |char: &char| {
        used += char.width().unwrap_or(0);
        used <= width
    };
    chars.take_while(fits).collect()
}

/// Lines of at most `width` columns, broken at blanks; those after the first are indented.
pub fn wrapped(text: &str, width: usize, indent: usize) -> String {
    let mut done = String::new();
    let mut line = String::new();
    for (number, word) in plain(text).split(' ').enumerate() {
        if !line.trim().is_empty() && line.width() + 1 + word.width() > width {
            done = done + line.trim_end() + "\n";
            line = " ".repeat(indent) + word;
        } else {
            if number > 0 {
                line.push(' ');
            }
            line += word;
        }
    }
    done + &line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_in_the_middle() {
        assert_eq!(fit("web", 5), "web  ");
        assert_eq!(fit("payments-api-7d4b9c6f5-x2x1z", 15), "payment…5-x2x1z");
        assert_eq!(fit("データベース", 7), "デ…ス  ");
        assert_eq!(fit("データベース", 8), "デー…ス ");
    }

    #[test]
    fn nothing_steers_the_terminal() {
        assert_eq!(fit("a\x1b[2Jb\u{202e}", 9), "a�[2Jb�  ");
        assert_eq!(wrapped("a\rb c\n", 3, 0), "a�b\nc�");
        assert_eq!(cut_end("a\u{7}bc", 3), "a�…");
    }

    #[test]
    fn broken_at_blanks() {
        assert_eq!(wrapped("aa bb cc", 5, 2), "aa bb\n  cc");
        assert_eq!(wrapped("  aa bb", 40, 2), "  aa bb");
        assert_eq!(wrapped("aaaaaaaa b", 4, 2), "aaaaaaaa\n  b");
    }
}
