//! Text that is safe to print on a terminal.
//!
//! Text from a cluster is untrusted: names, reasons, and the output of containers in events. Printed raw, it could clear the
//! screen, write to the clipboard, reverse text, or imitate a line of this program. So [`crate::output`] prints only [`Shown`]
//! for people. A [`Shown`] is created by cleaning text, or from literals of this program. [`shown!`](crate::shown) combines
//! both like an HTML template: it cleans the arguments, unless they are [`Shown`] already.

use anstyle::Style;
use std::ops::{Add, AddAssign};
use std::sync::Arc;
use unicode_width::UnicodeWidthStr;

/// Replaces a character that would control the terminal.
const STEERS: char = '\u{fffd}';
/// Replaces a line end, so that untrusted text stays in one line.
const LINE_END: char = '⏎';

/// Text without control sequences for the terminal, except for this program's own colours and line ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown(String);

impl Shown {
    /// Cleans untrusted text: makes it one line, and replaces characters that would control the terminal. Cleaning is
    /// idempotent.
    pub fn cleaned(text: &str) -> Shown {
        let clean = |char: char| match char {
            '\n' => LINE_END,
            '\t' => ' ',
            char if steers(char) => STEERS,
            char => char,
        };
        Shown(text.replace("\r\n", "\n").chars().map(clean).collect())
    }

    /// Creates text from a literal of this program, keeping its line ends.
    pub fn own(text: &'static str) -> Shown {
        Shown(text.to_owned())
    }

    /// Accepts a drawing with line ends and colours (`ESC [ … m`) from a library that removes both from its inputs. All other
    /// control sequences are cleaned.
    pub fn drawing(text: &str) -> Shown {
        let mut shown = Shown::default();
        for (number, line) in text.split('\n').enumerate() {
            if number > 0 {
                shown.0.push('\n');
            }
            for (number, part) in line.split("\x1b[").enumerate() {
                let end = part.find(|char: char| !char.is_ascii_digit() && char != ';');
                match end.filter(|end| number > 0 && part[*end..].starts_with('m')) {
                    Some(end) => {
                        shown.0 += &format!("\x1b[{}m", &part[..end]);
                        shown += Shown::cleaned(&part[end + 1..]);
                    }
                    None if number > 0 => shown += Shown::cleaned(&format!("\x1b[{part}")),
                    None => shown += Shown::cleaned(part),
                }
            }
        }
        shown
    }

    /// Replaces each `{}` in a literal form with a part. [`shown!`](crate::shown) checks that the numbers match.
    pub fn filled(form: &'static str, parts: &[&dyn Show]) -> Shown {
        let mut parts = parts.iter();
        let mut shown = Shown::default();
        for (number, words) in form.split("{}").enumerate() {
            if number > 0 {
                shown += parts.next().map(|part| part.shown()).unwrap_or_default();
            }
            shown.0 += words;
        }
        shown
    }

    pub fn styled(self, style: Style) -> Shown {
        Shown(format!("{style}{}{style:#}", self.0))
    }

    /// Pads the text with blanks to at least `width` columns. Only for text without colours.
    pub fn padded(mut self, width: usize) -> Shown {
        self.0 += &" ".repeat(width.saturating_sub(self.width()));
        self
    }

    /// The width of the text in columns of a terminal. Only for text without colours.
    pub fn width(&self) -> usize {
        self.0.width()
    }

    pub fn joined(parts: impl IntoIterator<Item = Shown>, between: &'static str) -> Shown {
        let mut all = Shown::default();
        for (number, part) in parts.into_iter().enumerate() {
            if number > 0 {
                all.0 += between;
            }
            all += part;
        }
        all
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn without_colours(&self) -> String {
        anstream::adapter::strip_str(&self.0).to_string()
    }
}

/// Whether a character could control the terminal: control characters (C0, DEL, C1), Unicode line ends, and characters that
/// change the writing direction.
pub fn steers(char: char) -> bool {
    char.is_control() || rollcall_api::forms::turns(char)
}

/// Escapes characters in JSON that would control a terminal. The parsed value stays the same.
pub fn escaped_json(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for char in json.chars() {
        match char {
            // A line end between values; serde_json has already escaped those within strings.
            '\n' => text.push(char),
            char if steers(char) => text += &format!("\\u{:04x}", u32::from(char)),
            char => text.push(char),
        }
    }
    text
}

/// Values that can fill a form: text, which is cleaned, numbers, and text that is already clean.
pub trait Show {
    fn shown(&self) -> Shown;
}

impl Show for Shown {
    fn shown(&self) -> Shown {
        self.clone()
    }
}

impl Show for str {
    fn shown(&self) -> Shown {
        Shown::cleaned(self)
    }
}

impl Show for String {
    fn shown(&self) -> Shown {
        Shown::cleaned(self)
    }
}

impl Show for Arc<str> {
    fn shown(&self) -> Shown {
        Shown::cleaned(self)
    }
}

impl<T: Show + ?Sized> Show for &T {
    fn shown(&self) -> Shown {
        (*self).shown()
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {
        $(impl Show for $number {
            fn shown(&self) -> Shown {
                Shown(self.to_string())
            }
        })*
    };
}

numbers!(u32, u64, usize, f64);

impl Add for Shown {
    type Output = Shown;

    fn add(mut self, more: Shown) -> Shown {
        self += more;
        self
    }
}

impl AddAssign for Shown {
    fn add_assign(&mut self, more: Shown) {
        self.0 += &more.0;
    }
}

/// Whether a form has exactly `parts` placeholders. Only `{}` is supported, without names or widths.
pub const fn wants(form: &str, parts: usize) -> bool {
    let bytes = form.as_bytes();
    let (mut at, mut found) = (0, 0);
    while at < bytes.len() {
        if bytes[at] == b'{' {
            if at + 1 == bytes.len() || bytes[at + 1] != b'}' {
                return false;
            }
            found += 1;
        }
        at += 1;
    }
    found == parts
}

/// Formats text: `shown!("{} of {}\n", number, name)`. The form is a literal, and the arguments are cleaned.
#[macro_export]
macro_rules! shown {
    ($form:literal $(, $part:expr)* $(,)?) => {{
        const PARTS: &[&str] = &[$(stringify!($part)),*];
        const { assert!($crate::shown::wants($form, PARTS.len()), "the form needs one argument for each {{}}, and supports only {{}}") };
        $crate::shown::Shown::filled($form, &[$(&$part),*])
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_the_terminal() {
        let hostile =
            "a\x1b[2J\x1b]52;c;eA==\x07\u{9b}8m\u{202e}b\u{61c}\u{200f}\u{2028}\r\nhint: x\rc\td\x7f";
        let clean = "a�[2J�]52;c;eA==��8m�b���⏎hint: x�c d�";
        assert_eq!(Shown::cleaned(hostile).as_str(), clean);
        assert_eq!(Shown::cleaned(clean).as_str(), clean);
        assert_eq!(Shown::cleaned("größe 日本 👩‍🚀 \"q\"").as_str(), "größe 日本 👩‍🚀 \"q\"");
    }

    #[test]
    fn what_is_filled_in_is_cleaned_once() {
        let strong = Shown::cleaned("x\x1b").styled(Style::new().bold());
        assert_eq!(shown!("{}:\n  {} {}\n", "\n", strong, 7_u32).as_str(), "⏎:\n  \x1b[1mx�\x1b[0m 7\n");
        assert_eq!(shown!("none\n").as_str(), "none\n");
        assert!(wants("{} {}", 2) && !wants("{} {}", 1) && !wants("{name}", 0) && !wants("{", 0));
    }

    #[test]
    fn of_a_drawing_lines_and_colours_stay() {
        let drawn = "\x1b[1m\x1b[91merror\x1b[0m\n\x1b[2Jx\u{9d}\x1b[?25l\x1b";
        assert_eq!(Shown::drawing(drawn).as_str(), "\x1b[1m\x1b[91merror\x1b[0m\n�[2Jx��[?25l�");
    }

    #[test]
    fn json_says_the_same_without_steering() {
        let value = serde_json::json!({ "a\u{9b}": "\u{202e}\u{7f}\x1b\n\u{2028}é" });
        let text = escaped_json(&serde_json::to_string_pretty(&value).expect("JSON"));
        assert!(!text.chars().any(|char| char != '\n' && steers(char)), "{text:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).expect("JSON"), value);
    }
}
