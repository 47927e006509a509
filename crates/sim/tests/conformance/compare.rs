//! Compares two answers field by field.

use rollcall_sim::server::rules::ELIDED;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;

/// The suffix of a path whose difference consists only of values that our server elides on purpose.
const LEFT_OUT: &str = " (what is left out)";

/// A field that differs between the two sides.
#[derive(Clone, Debug)]
pub struct Line {
    /// The request, or the object of a scenario.
    pub at: String,
    pub path: String,
    pub ours: String,
    pub theirs: String,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  {}\n    ours   {}\n    theirs {}", self.at, self.path, self.ours, self.theirs)
    }
}

/// The key of a list's items, if they have one. Such lists are compared by key, and then by order.
fn key_of(list: &[Value]) -> Option<&'static str> {
    let names =
        |key: &str| -> Option<BTreeSet<&str>> { list.iter().map(|item| item[key].as_str()).collect() };
    ["type", "name"].into_iter().find(|key| names(key).is_some_and(|names| names.len() == list.len()))
}

pub fn compare(at: &str, path: &str, ours: &Value, theirs: &Value, lines: &mut Vec<Line>) {
    match (ours, theirs) {
        (Value::Object(left), Value::Object(right)) => {
            let names: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            for name in names {
                let path = format!("{path}.{name}");
                match (left.get(name), right.get(name)) {
                    (Some(left), Some(right)) => compare(at, &path, left, right, lines),
                    (left, right) => lines.push(line(at, path, left, right)),
                }
            }
        }
        (Value::Array(left), Value::Array(right)) if left != right => lists(at, path, left, right, lines),
        (Value::String(left), Value::String(right)) if left != right => {
            let left_out = if fits(left, right) { LEFT_OUT } else { "" };
            lines.push(line(at, format!("{path}{left_out}"), Some(ours), Some(theirs)));
        }
        (left, right) if left == right => {}
        (left, right) => lines.push(line(at, path.to_owned(), Some(left), Some(right))),
    }
}

fn lists(at: &str, path: &str, left: &[Value], right: &[Value], lines: &mut Vec<Line>) {
    if let (Some(key), Some(other)) = (key_of(left), key_of(right))
        && key == other
    {
        let names = |list: &[Value]| -> Vec<Value> { list.iter().map(|item| item[key].clone()).collect() };
        let (ours, theirs) = (names(left), names(right));
        let find = |list: &[Value], name: &Value| list.iter().find(|item| item[key] == *name).cloned();
        for name in ours.iter().chain(theirs.iter().filter(|name| !ours.contains(name))) {
            let path = format!("{path}[{}]", name.as_str().unwrap_or_default());
            match (find(left, name), find(right, name)) {
                (Some(left), Some(right)) => compare(at, &path, &left, &right, lines),
                (left, right) => lines.push(line(at, path, left.as_ref(), right.as_ref())),
            }
        }
        let both = |list: &[Value], other: &[Value]| -> Vec<Value> {
            list.iter().filter(|name| other.contains(name)).cloned().collect()
        };
        let (ours, theirs) = (both(&ours, &theirs), both(&theirs, &ours));
        if ours != theirs {
            lines.push(line(at, format!("{path} (order)"), Some(&ours.into()), Some(&theirs.into())));
        }
        return;
    }
    if left.len() != right.len() {
        let whole = |list: &[Value]| Value::from(list.to_vec());
        return lines.push(line(at, path.to_owned(), Some(&whole(left)), Some(&whole(right))));
    }
    for (place, (left, right)) in left.iter().zip(right).enumerate() {
        compare(at, &format!("{path}[{place}]"), left, right, lines);
    }
}

fn line(at: &str, path: String, ours: Option<&Value>, theirs: Option<&Value>) -> Line {
    let shown = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), Value::to_string);
    Line { at: at.to_owned(), path, ours: shown(ours), theirs: shown(theirs) }
}

/// Whether our text equals theirs except for elided values.
fn fits(ours: &str, theirs: &str) -> bool {
    // The real server appends the difference of two Go values.
    let theirs = theirs.split("\n@@ ").next().unwrap_or_default();
    let mut parts = ours.trim_end_matches(']').split(ELIDED);
    let Some(mut rest) = theirs.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.is_empty() || rest == "]"
}
