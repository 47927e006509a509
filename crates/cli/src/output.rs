//! Data goes to stdout, talk to stderr. Colour only on a terminal, and it never says what the words do not.

use anstyle::{AnsiColor, Style};
use clap::ValueEnum;
use jiff::Timestamp;
use serde::Serialize;
use std::fmt::Display;
use std::io::{ErrorKind, Write};

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
pub fn styled(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Writes data. A reader that has seen enough (`| head`) is no error.
pub fn data(text: &str) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Writes to a terminal what moves its cursor; [`data`] would take that away together with colours.
pub fn terminal(frame: &str) -> anyhow::Result<()> {
    let colours = anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never;
    let mut out = std::io::stdout().lock();
    let frame = if colours { frame.to_owned() } else { without_colours(frame) };
    Ok(out.write_all(frame.as_bytes()).and_then(|()| out.flush())?)
}

/// Takes away the styles (`ESC [ … m`) and leaves the movements.
fn without_colours(frame: &str) -> String {
    let mut text = String::new();
    for (position, part) in frame.split("\x1b[").enumerate() {
        let end = part.find(|char: char| char.is_ascii_alphabetic());
        match end {
            Some(end) if position > 0 && part.as_bytes()[end] == b'm' => text += &part[end + 1..],
            Some(_) | None if position > 0 => text = text + "\x1b[" + part,
            Some(_) | None => text += part,
        }
    }
    text
}

/// Columns of the terminal that data goes to; `None` if it goes elsewhere.
pub fn width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

pub fn json(value: &impl Serialize) -> anyhow::Result<()> {
    data(&(serde_json::to_string_pretty(value)? + "\n"))
}

/// Something to know that is no part of the answer.
pub fn note(text: impl Display) {
    say(&format!("{} {text}", styled(BUSY, "note:")));
}

pub fn hint(text: impl Display) {
    say(&format!("{} {text}", styled(FAINT, "hint:")));
}

pub fn error(error: &anyhow::Error) {
    say(&format!("{} {error:#}", styled(BAD, "error:")));
}

fn say(line: &str) {
    // Nobody is left to be told that stderr is closed.
    let _ = writeln!(anstream::stderr(), "{line}");
}

/// Columns as `kubectl get` prints them: as wide as needed, three blanks between, the last one open.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = head.iter().map(|title| title.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: Vec<&str>| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        padded.collect::<Vec<_>>().join("   ").trim_end().to_owned() + "\n"
    };
    let mut text = line(head.to_vec());
    for row in rows {
        text += &line(row.iter().map(String::as_str).collect());
    }
    text
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
    fn colours_go_and_movements_stay() {
        let frame =
            format!("\x1b[3A\x1b[J\x1b[?7l{}ümlaut {}\x1b[?7h", styled(GOOD, "x"), styled(STRONG, ""));
        assert_eq!(without_colours(&frame), "\x1b[3A\x1b[J\x1b[?7lxümlaut \x1b[?7h");
        assert_eq!(without_colours("plain"), "plain");
    }

    #[test]
    fn columns_align_by_characters() {
        let rows = [vec!["größe".into(), "1".into()], vec!["a".into(), String::new()]];
        assert_eq!(table(&["NAME", "N"], &rows), "NAME    N\ngröße   1\na\n");
    }
}
