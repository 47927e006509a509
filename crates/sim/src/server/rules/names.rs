//! Validation of names, in the wording of the API server.

pub type Messages = Vec<String>;

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const LABEL_WORDS: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and \
                           must start and end with an alphanumeric character";
const SUBDOMAIN_WORDS: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
                               '.', and must start and end with an alphanumeric character";
const KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const KEY_WORDS: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                         alphanumeric character";
const VALUE_WORDS: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
                           and must start and end with an alphanumeric character";
const DATA_KEY_WORDS: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";

const LABEL_LENGTH: usize = 63;
const SUBDOMAIN_LENGTH: usize = 253;
const PORT_NAME_LENGTH: usize = 15;

fn with_regex(words: &str, examples: &[&str], regex: &str) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{words} (e.g. {}regex used for validation is '{regex}')", examples.join(" or "))
}

/// Most messages say "characters", those about labels "bytes". The API server counts bytes in both cases.
fn too_long(limit: usize, unit: &str) -> String {
    format!("must be no more than {limit} {unit}")
}

fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

/// Letters and digits, with `-`, `_` and `.` between them.
fn is_key(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let ends = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    text.bytes().all(inner) && ends(text.bytes().next()) && ends(text.bytes().last())
}

pub fn dns_label(text: &str) -> Messages {
    let mut messages = Messages::new();
    if text.len() > LABEL_LENGTH {
        messages.push(too_long(LABEL_LENGTH, "characters"));
    }
    if !is_label(text) {
        messages.push(match is_subdomain(text) {
            true => "must not contain dots".to_owned(),
            false => with_regex(LABEL_WORDS, &["my-name", "123-abc"], LABEL),
        });
    }
    messages
}

pub fn dns_subdomain(text: &str) -> Messages {
    subdomain(text, "characters")
}

fn subdomain(text: &str, unit: &str) -> Messages {
    let mut messages = Messages::new();
    if text.len() > SUBDOMAIN_LENGTH {
        messages.push(too_long(SUBDOMAIN_LENGTH, unit));
    }
    if !is_subdomain(text) {
        let regex = format!("{LABEL}(\\.{LABEL})*");
        messages.push(with_regex(SUBDOMAIN_WORDS, &["example.com"], &regex));
    }
    messages
}

/// Validates a label or annotation key, or the name of a gate, taint or finalizer.
pub fn qualified(text: &str) -> Messages {
    let words = || with_regex(KEY_WORDS, &["MyName", "my.name", "123-abc"], KEY);
    let parts: Vec<&str> = text.split('/').collect();
    let (prefix, name) = match parts.as_slice() {
        [name] => (None, *name),
        [prefix, name] => (Some(*prefix), *name),
        _ => {
            let optional = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a valid label key {} {optional}", words())];
        }
    };
    let mut messages = Messages::new();
    match prefix {
        Some("") => messages.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => {
            messages
                .extend(subdomain(prefix, "bytes").into_iter().map(|words| format!("prefix part {words}")));
        }
        None => {}
    }
    if name.is_empty() {
        messages.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_LENGTH {
        messages.push(format!("name part {}", too_long(LABEL_LENGTH, "bytes")));
    }
    if !is_key(name) {
        messages.push(format!("name part {}", words()));
    }
    messages
}

pub fn label_value(text: &str) -> Messages {
    let mut messages = Messages::new();
    if text.len() > LABEL_LENGTH {
        messages.push(too_long(LABEL_LENGTH, "bytes"));
    }
    if !text.is_empty() && !is_key(text) {
        messages.push(with_regex(VALUE_WORDS, &["MyValue", "my_value", "12345"], &format!("({KEY})?")));
    }
    messages
}

/// Validates a key of a ConfigMap or Secret.
pub fn data_key(text: &str) -> Messages {
    let mut messages = Messages::new();
    if text.len() > SUBDOMAIN_LENGTH {
        messages.push(too_long(SUBDOMAIN_LENGTH, "characters"));
    }
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if text.is_empty() || !text.bytes().all(inner) {
        messages.push(with_regex(DATA_KEY_WORDS, &["key.name", "KEY_NAME", "key-name"], "[-._a-zA-Z0-9]+"));
    }
    // The key becomes a file name.
    if matches!(text, "." | "..") {
        messages.push(format!("must not be '{text}'"));
    } else if text.starts_with("..") {
        messages.push("must not start with '..'".to_owned());
    }
    messages
}

pub fn port_name(text: &str) -> Messages {
    let mut messages = Messages::new();
    if text.len() > PORT_NAME_LENGTH {
        messages.push(too_long(PORT_NAME_LENGTH, "characters"));
    }
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if text.is_empty() || !text.bytes().all(inner) {
        messages.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        messages.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        messages.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        messages.push("must not begin or end with a hyphen".to_owned());
    }
    messages
}

pub fn port_number(port: i64) -> Messages {
    let fits = (1..=65535).contains(&port);
    if fits { Messages::new() } else { vec!["must be between 1 and 65535, inclusive".to_owned()] }
}

/// Validates a percentage such as `25%`.
pub fn percentage(text: &str) -> Messages {
    let number = text.strip_suffix('%').unwrap_or_default();
    let fits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let words = "a valid percent string must be a numeric string followed by an ending '%'";
    if fits { Messages::new() } else { vec![with_regex(words, &["1%", "93%"], "[0-9]+%")] }
}

pub fn variable(text: &str) -> Messages {
    let fits = text.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=');
    let words =
        "a valid environment variable name must consist only of printable ASCII characters other than '='";
    if fits { Messages::new() } else { vec![words.to_owned()] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_names_have_no_messages() {
        assert!(dns_label("a-1").is_empty() && dns_subdomain("a.b-c").is_empty());
        assert!(qualified("example.com/My_Name.1").is_empty() && qualified("x").is_empty());
        assert!(label_value("").is_empty() && label_value("A.b").is_empty());
        assert!(data_key("..a").len() == 1 && data_key(".a").is_empty());
        assert!(port_name("http").is_empty() && port_name("80").len() == 1 && port_name("a--b").len() == 1);
        assert!(percentage("25%").is_empty() && percentage("%").len() == 1);
    }
}
