//! Replaces values that differ in every run with descriptions that stay the same: the object of a uid, and the position of
//! a resourceVersion among the versions of an object.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Length of random suffixes of names.
const SUFFIX: usize = 5;
/// Maximum length of the prefix of a generated name.
const LONGEST_START: usize = 58;
const UID: usize = 36;
const TOKEN_VOLUME: &str = "kube-api-access-";

/// Names and versions found in all answers of a script.
#[derive(Default)]
pub struct Names {
    /// uid → its object.
    uids: BTreeMap<String, String>,
    /// The number of objects with each name.
    counts: BTreeMap<String, usize>,
    /// uid → its versions.
    versions: BTreeMap<String, BTreeSet<u64>>,
    /// Generated names with their replacements.
    generated: BTreeMap<String, String>,
}

impl Names {
    /// Records the objects in an answer.
    pub fn learn(&mut self, value: &Value) {
        if let Value::Array(items) = value {
            items.iter().for_each(|item| self.learn(item));
        }
        let Value::Object(fields) = value else { return };
        let metadata = &value["metadata"];
        if let (Some(uid), Some(name)) = (metadata["uid"].as_str(), metadata["name"].as_str()) {
            if !self.uids.contains_key(uid) {
                let name = match metadata["generateName"].as_str() {
                    Some(start) if name.starts_with(start.get(..LONGEST_START).unwrap_or(start)) => {
                        let called = format!("{}*", &name[..name.len() - SUFFIX]);
                        self.generated.insert(name.to_owned(), called.clone());
                        called
                    }
                    _ => name.to_owned(),
                };
                let count = self.counts.entry(name.clone()).or_default();
                *count += 1;
                self.uids.insert(uid.to_owned(), format!("uid of {name} {count}"));
            }
            if let Some(version) = metadata["resourceVersion"].as_str().and_then(|text| text.parse().ok()) {
                self.versions.entry(uid.to_owned()).or_default().insert(version);
            }
        }
        fields.iter().filter(|(name, _)| *name != "metadata").for_each(|(_, value)| self.learn(value));
    }

    /// Replaces everything that was recorded.
    pub fn mask(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                if let Some(metadata) = fields.get_mut("metadata").filter(|metadata| metadata.is_object()) {
                    self.mask_metadata(metadata);
                }
                for (name, value) in fields.iter_mut() {
                    if matches!(name.as_str(), "clusterIP" | "clusterIPs") && *value != "None" {
                        hide_addresses(value);
                    }
                    self.mask(value);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.mask(item)),
            Value::String(text) => *text = self.words(text),
            _ => {}
        }
    }

    fn mask_metadata(&self, metadata: &mut Value) {
        let version = metadata["resourceVersion"].as_str().and_then(|text| text.parse::<u64>().ok());
        let uid = metadata["uid"].as_str().unwrap_or_default();
        let seen = self.versions.get(uid).zip(version);
        let number = seen.map(|(all, version)| all.iter().filter(|one| **one <= version).count());
        let Some(fields) = metadata.as_object_mut() else { return };
        fields.remove("managedFields");
        if let Some(version) = fields.get_mut("resourceVersion") {
            *version = number.map_or("VERSION".into(), |number| format!("version {number}").into());
        }
        if let Some(token) = fields.get_mut("continue") {
            *token = "TOKEN".into();
        }
    }

    fn words(&self, text: &str) -> String {
        if is_time(text) {
            return "TIME".into();
        }
        if let Some(called) = self.generated.get(text) {
            return called.clone();
        }
        let mut text = hide_uids(text, &self.uids);
        if let Some(at) = text.find(TOKEN_VOLUME) {
            let end = (at + TOKEN_VOLUME.len() + SUFFIX).min(text.len());
            text.replace_range(at + TOKEN_VOLUME.len()..end, "*");
        }
        if text.to_lowercase().replace(' ', "").contains("resourceversion") {
            text = hide_numbers(&text);
        }
        text
    }
}

fn hide_addresses(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(hide_addresses),
        value => *value = "ADDRESS".into(),
    }
}

/// Whether a text is a time such as `2026-01-01T00:00:00Z`, with or without fractions.
pub fn is_time(text: &str) -> bool {
    text.len() >= 20 && text.ends_with('Z') && text.parse::<jiff::Timestamp>().is_ok()
}

fn is_uid(text: &[u8]) -> bool {
    text.len() == UID
        && text.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

pub fn hide_uids(text: &str, known: &BTreeMap<String, String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        if rest.as_bytes().get(..UID).is_some_and(is_uid) {
            let uid = &rest[..UID];
            out.push_str(known.get(uid).map_or("UID", String::as_str));
            rest = &rest[UID..];
            continue;
        }
        let next = rest.chars().next().map_or(1, char::len_utf8);
        out.push_str(&rest[..next]);
        rest = &rest[next..];
    }
    out
}

/// Hides stand-alone numbers.
fn hide_numbers(text: &str) -> String {
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let words = text.split_inclusive(|letter: char| !letter.is_alphanumeric());
    let hide = |word: &str| {
        let bare = word.trim_end_matches(|letter: char| !letter.is_alphanumeric());
        if is_number(bare) { word.replacen(bare, "N", 1) } else { word.to_owned() }
    };
    words.map(hide).collect()
}
