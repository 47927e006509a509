//! Output: data goes to stdout, messages go to stderr. Colour is used only on a terminal, and never carries information of its
//! own.
//!
//! Output for people is of type [`Shown`], so that no text from a cluster reaches a terminal unescaped. Output for machines is
//! written by [`json`] and [`document`].

use crate::shown;
use crate::shown::{Show, Shown, escaped_json};
use anstyle::{AnsiColor, Style};
use clap::ValueEnum;
use jiff::Timestamp;
use serde::Serialize;
use std::fmt;
use std::io::{ErrorKind, Write};
use std::ops::Add;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    #[default]
    Text,
    Json,
}

pub const STRONG: Style = Style::new().bold();
pub const FAINT: Style = Style::new().dimmed();
pub const GOOD: Style = AnsiColor::Green.on_default();
pub const BUSY: Style = AnsiColor::Yellow.on_default();
pub const BAD: Style = AnsiColor::Red.on_default();

/// Applies a style to `text`; [`data`] removes it if stdout is not a terminal.
pub fn styled(style: Style, text: impl Show) -> Shown {
    text.shown().styled(style)
}

/// Writes data for people.
pub fn data(text: &Shown) -> anyhow::Result<()> {
    written(&mut anstream::stdout().lock(), text.as_str())
}

/// Writes documents that this program generates for machines and files (manifests, pages, scripts) unchanged. Not for text from
/// a cluster.
pub fn document(text: &str) -> anyhow::Result<()> {
    written(&mut std::io::stdout().lock(), text)
}

/// Writes an object as JSON over several lines.
pub fn json(value: &impl Serialize) -> anyhow::Result<()> {
    document(&(escaped_json(&serde_json::to_string_pretty(value)?) + "\n"))
}

/// Writes an object as JSON in one line.
pub fn json_line(value: &impl Serialize) -> anyhow::Result<()> {
    document(&(escaped_json(&serde_json::to_string(value)?) + "\n"))
}

/// Writes the text. A reader that closes the pipe early (`| head`) causes no error.
fn written(out: &mut impl Write, text: &str) -> anyhow::Result<()> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Draws on a terminal, over the last `lines` lines.
pub fn draw_over(lines: usize, text: &Shown) -> anyhow::Result<()> {
    let colours = anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never;
    let text = if colours { text.as_str().to_owned() } else { text.without_colours() };
    let up = if lines > 0 { format!("\x1b[{lines}A") } else { String::new() };
    let mut out = std::io::stdout().lock();
    // Line wrapping is off meanwhile: a wrapped line would occupy two rows, and the next drawing would move up too few rows.
    Ok(write!(out, "{up}\x1b[J\x1b[?7l{text}\x1b[?7h").and_then(|()| out.flush())?)
}

/// Width in columns of the terminal at stdout; `None` without a terminal.
pub fn width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Prints a note: information that is not part of the result.
pub fn note(text: impl Show) {
    write_to_stderr(&shown!("{} {}\n", styled(BUSY, "note:"), text));
}

pub fn hint(text: impl Show) {
    write_to_stderr(&shown!("{} {}\n", styled(FAINT, "hint:"), text));
}

/// Prints an error in one line, unless it is a [`DrawnError`].
pub fn error(error: &anyhow::Error) {
    let text = format!("{error:#}");
    let text = if error.is::<DrawnError>() { Shown::drawing(&text) } else { Shown::cleaned(&text) };
    write_to_stderr(&shown!("{} {}\n", styled(BAD, "error:"), text));
}

/// An error that shows a position in a text, over several lines and in colours.
#[derive(Debug)]
pub struct DrawnError(pub String);

impl fmt::Display for DrawnError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DrawnError {}

fn write_to_stderr(line: &Shown) {
    // An error is ignored: if stderr is closed, it cannot be reported.
    let _ = anstream::stderr().write_all(line.as_str().as_bytes());
}

/// Formats a table like `kubectl get`: columns as wide as needed, with three blanks between them; the last one is not padded.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> Shown {
    let head = head.iter().map(|title| title.shown()).collect();
    let rows = rows.iter().map(|row| row.iter().map(Show::shown).collect());
    let lines: Vec<Vec<Shown>> = std::iter::once(head).chain(rows).collect();
    let columns = lines.iter().map(Vec::len).max().unwrap_or_default();
    let widest = |column: usize| lines.iter().filter_map(|line| line.get(column)).map(Shown::width).max();
    let widths: Vec<usize> = (0..columns).map(|column| widest(column).unwrap_or_default()).collect();
    let line = |cells: &Vec<Shown>| {
        let used = cells.iter().rposition(|cell| !cell.is_empty()).map_or(0, |last| last + 1);
        let padded = cells[..used].iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            if column + 1 == used { cell.clone() } else { cell.clone().padded(*width) }
        });
        Shown::joined(padded, "   ") + Shown::own("\n")
    };
    lines.iter().map(line).fold(Shown::default(), Shown::add)
}

/// Formats a duration as kubectl formats ages: at most two units, the second only if it is significant.
pub fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(since).as_secs().max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |big: i64, unit: &str, small: i64, sub: &str| match small {
        0 => format!("{big}{unit}"),
        small => format!("{big}{unit}{small}{sub}"),
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => two(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, "d", hours % 24, "h"),
        _ => format!("{days}d"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_kubectls() {
        let ages = [0, 41, 119, 120, 125, 599, 600, 7_300, 10_800, 12_000, 30_000, 180_000, 700_000];
        let shown = ages.map(|seconds| {
            let since = Timestamp::from_second(1_000_000).unwrap();
            age(since, Timestamp::from_second(1_000_000 + seconds).unwrap())
        });
        let expected =
            ["0s", "41s", "119s", "2m", "2m5s", "9m59s", "10m", "121m", "3h", "3h20m", "8h", "2d2h", "8d"];
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_clock_that_is_ahead_gives_no_negative_age() {
        let at = |second| Timestamp::from_second(second).unwrap();
        assert_eq!(age(at(10), at(5)), "0s");
    }

    #[test]
    fn columns_align_by_characters() {
        let rows = [vec!["größe".into(), "1".into()], vec!["a".into(), String::new()]];
        assert_eq!(table(&["NAME", "N"], &rows).as_str(), "NAME    N\ngröße   1\na\n");
    }
}
