//! The syntax of texts in our custom resources: a pattern for the API server, and an equivalent Rust function for our
//! own checks.

/// Maximum length of most object names (RFC 1123 subdomain), in characters.
pub const SUBDOMAIN: usize = 253;
/// Maximum length of a namespace name, of a label value, and of the part of a label key after the slash, in characters.
pub const LABEL: usize = 63;
/// Maximum length of a qualified name: subdomain, slash, label.
pub const QUALIFIED_NAME: usize = SUBDOMAIN + 1 + LABEL;

/// The name of most objects.
pub const SUBDOMAIN_PATTERN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
/// The name of a namespace.
pub const DNS_LABEL_PATTERN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// The value of a label; may be empty.
pub const LABEL_VALUE_PATTERN: &str = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
/// A title for people: no control characters (C0, DEL, C1), no characters that end a line or change the writing
/// direction (see [`turns`]), no leading or trailing space. A title printed on a terminal must not hide or reorder
/// text. The syntax is RE2, as in the API server.
pub const TITLE_PATTERN: &str = concat!(
    r"^[^\x00-\x20\x7f-\x{9f}\x{61c}\x{200e}\x{200f}\x{2028}-\x{202e}\x{2066}-\x{2069}]",
    r"([^\x00-\x1f\x7f-\x{9f}\x{61c}\x{200e}\x{200f}\x{2028}-\x{202e}\x{2066}-\x{2069}]*",
    r"[^\x00-\x20\x7f-\x{9f}\x{61c}\x{200e}\x{200f}\x{2028}-\x{202e}\x{2066}-\x{2069}])?$"
);
/// A gate, the key of a label, a resource or a node condition: an optional prefix, a slash, a name.
pub const QUALIFIED_NAME_PATTERN: &str = concat!(
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?",
    r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
);
/// The name of a time zone. The pattern checks only the syntax, because it does not contain the list of time zones.
pub const TIME_ZONE_PATTERN: &str = r"^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$";

/// The syntax of a text field.
#[derive(Debug)]
pub struct Form {
    pub pattern: &'static str,
    /// The Rust equivalent of `pattern`; a test compares the two.
    pub fits: fn(&str) -> bool,
    /// What an error message asks for: `must be …`.
    pub expected: &'static str,
}

/// Returns the form with this pattern.
pub fn form(pattern: &str) -> Option<&'static Form> {
    ALL.iter().find(|form| form.pattern == pattern)
}

static ALL: [Form; 6] = [
    Form {
        pattern: SUBDOMAIN_PATTERN,
        fits: is_subdomain,
        expected: "must be a name of lower-case letters, digits, '-' and '.'",
    },
    Form {
        pattern: DNS_LABEL_PATTERN,
        fits: is_dns_label,
        expected: "must be a name of lower-case letters, digits and '-'",
    },
    Form {
        pattern: LABEL_VALUE_PATTERN,
        fits: is_label_value,
        expected: "must be a label value: letters, digits, '-', '_' and '.'",
    },
    Form {
        pattern: QUALIFIED_NAME_PATTERN,
        fits: is_qualified_name,
        expected: "must be a name such as example.com/name",
    },
    Form {
        pattern: TITLE_PATTERN,
        fits: is_title,
        expected: "must be a name without control characters, bidirectional formatting characters, or leading or trailing spaces",
    },
    Form {
        pattern: TIME_ZONE_PATTERN,
        fits: is_time_zone,
        expected: "must be a time zone such as UTC or Europe/Berlin",
    },
];

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_dns_label)
}

fn is_dns_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_name(text)
}

/// Letters and digits, with `-`, `_` and `.` between them.
fn is_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let ends = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    text.bytes().all(inner) && ends(text.bytes().next()) && ends(text.bytes().last())
}

pub fn is_qualified_name(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && name.len() <= LABEL && is_name(name),
        None => text.len() <= LABEL && is_name(text),
    }
}

fn is_title(text: &str) -> bool {
    let hidden = |char: char| char.is_control() || turns(char);
    !text.is_empty() && !text.contains(hidden) && !text.starts_with(' ') && !text.ends_with(' ')
}

fn is_time_zone(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'+' | b'-');
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.split('/').all(|part| !part.is_empty() && part.bytes().all(inner))
}

/// Whether a character is invisible but changes the position or direction of the following letters: marks, embeddings,
/// overrides and isolates of bidirectional text, and the two line separators that are not control characters.
pub fn turns(char: char) -> bool {
    matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_patterns_mean_what_the_functions_check(text in "[-a-zA-Z0-9_+./ \t\n\r\u{7f}\u{80}\u{9f}\u{a0}é\u{61c}\u{200d}-\u{2010}\u{2027}-\u{202f}\u{2065}-\u{206a}]{0,6}") {
            for Form { pattern, fits, .. } in &ALL {
                let by_pattern = regex::Regex::new(pattern).unwrap().is_match(&text);
                prop_assert_eq!(by_pattern, fits(&text), "{} {:?}", pattern, text);
            }
        }
    }
}
