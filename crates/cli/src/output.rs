//! Data goes to stdout, talk to stderr. Colour only on a terminal, and it never says what the words do not.
//!
//! What people read is [`Shown`], so nothing that a cluster says reaches a terminal as it came. What machines read goes
//! through [`json`] and [`document`].

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

/// `text` in a style; [`data`] takes the style away where it would be noise.
pub fn styled(style: Style, text: impl Show) -> Shown {
    text.shown().styled(style)
}

/// Writes data for people.
pub fn data(text: &Shown) -> anyhow::Result<()> {
    written(&mut anstream::stdout().lock(), text.as_str())
}

/// Writes what this program made for machines and files, as it is: manifests, pages, scripts. Nothing of a cluster.
pub fn document(text: &str) -> anyhow::Result<()> {
    written(&mut std::io::stdout().lock(), text)
}

/// Writes an object over several lines.
pub fn json(value: &impl Serialize) -> anyhow::Result<()> {
    document(&(escaped_json(&serde_json::to_string_pretty(value)?) + "\n"))
}

/// Writes an object in a line of its own.
pub fn json_line(value: &impl Serialize) -> anyhow::Result<()> {
    document(&(escaped_json(&serde_json::to_string(value)?) + "\n"))
}

/// A reader that has seen enough (`| head`) is no error.
fn written(out: &mut impl Write, text: &str) -> anyhow::Result<()> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Draws on a terminal, over the last so many lines.
pub fn draw_over(lines: usize, text: &Shown) -> anyhow::Result<()> {
    let colours = anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never;
    let text = if colours { text.as_str().to_owned() } else { text.without_colours() };
    let up = if lines > 0 { format!("\x1b[{lines}A") } else { String::new() };
    let mut out = std::io::stdout().lock();
    // Wrapping off meanwhile: a line that wraps would be two, and the way up one short.
    Ok(write!(out, "{up}\x1b[J\x1b[?7l{text}\x1b[?7h").and_then(|()| out.flush())?)
}

/// Columns of the terminal that data goes to; `None` if it goes elsewhere.
pub fn width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Something to know that is no part of the answer.
pub fn note(text: impl Show) {
    say(&shown!("{} {}\n", styled(BUSY, "note:"), text));
}

pub fn hint(text: impl Show) {
    say(&shown!("{} {}\n", styled(FAINT, "hint:"), text));
}

/// An error is one line, unless it is drawn.
pub fn error(error: &anyhow::Error) {
    let text = format!("{error:#}");
    let text = if error.is::<DrawnError>() { Shown::drawing(&text) } else { Shown::cleaned(&text) };
    say(&shown!("{} {}\n", styled(BAD, "error:"), text));
}

/// An error that shows the place in a text, over several lines and in colours.
#[derive(Debug)]
pub struct DrawnError(pub String);

impl fmt::Display for DrawnError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DrawnError {}

fn say(line: &Shown) {
    // Nobody is left to be told that stderr is closed.
    let _ = anstream::stderr().write_all(line.as_str().as_bytes());
}

/// Columns as `kubectl get` prints them: as wide as needed, three blanks between, the last one open.
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

/// A span of time as kubectl shows ages: two units at most, the second only where it still matters.
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
