//! The keys by which a node is known not to have reached a group: as a label, or as a taint.
//!
//! Everybody can write one down beforehand: it is made of the names of the sequence and of the group, not of its place in the
//! list, so that edits to the list never re-point a key.

use super::spec::{Group, GroupId};
use crate::hash::fnv1a64;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Put on a node when it registers, before any controller has seen it.
pub const UNSEEN: &str = "podsequence.example.com/unseen";
/// What all of them begin and end with.
pub const PREFIX: &str = "podsequence.example.com/";
const SUFFIX: &str = "-blocked";
/// What follows the prefix of a label key has at most this many characters.
const LONGEST: usize = 63;

/// The key of each group of a sequence, in their order; no two are the same.
pub fn keys(namespace: &str, name: &str, groups: &[Group]) -> Vec<Arc<str>> {
    let mut taken = BTreeSet::new();
    let each = groups.iter().map(|group| {
        let whole = format!("{namespace}.{name}.{}{SUFFIX}", word(&group.id));
        let mut key = shortened(&whole);
        let mut occurrence = 1;
        while !taken.insert(key.clone()) {
            occurrence += 1;
            key = hashed(&whole, occurrence);
        }
        Arc::from(format!("{PREFIX}{key}"))
    });
    each.collect()
}

/// Whether a label or taint of this key is one of ours.
pub fn is_key(key: &str) -> bool {
    key.starts_with(PREFIX) && key.ends_with(SUFFIX)
}

/// The name of a group where it may stand in a label key, else a hash of what it is recognised by.
fn word(id: &GroupId) -> String {
    let name = id.as_str().strip_prefix('=');
    match name.filter(|name| fits(name)) {
        Some(name) => name.to_owned(),
        None => format!("{:016x}", fnv1a64(id.as_str().as_bytes())),
    }
}

/// Letters, digits, `-` and `_`; the key around it begins and ends with others. A `.` would fit, too, but then two sequences
/// could have the same key: `b.c` with a group `d`, and `b` with a group `c.d`.
fn fits(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

fn shortened(whole: &str) -> String {
    if whole.len() <= LONGEST { whole.to_owned() } else { hashed(whole, 1) }
}

/// As much of the beginning as there is room for, and a hash of all of it.
fn hashed(whole: &str, occurrence: u32) -> String {
    let hash = fnv1a64(format!("{whole}\u{0}{occurrence}").as_bytes());
    let room = LONGEST - SUFFIX.len() - 17;
    let start: String = whole.chars().take(room).collect();
    format!("{}-{hash:016x}{SUFFIX}", start.trim_end_matches(['-', '.', '_']))
}

#[cfg(test)]
mod tests {
    use super::super::spec::{Members, MinReady, OnTimeout, Until};
    use super::*;
    use std::time::Duration;

    fn group(name: &str) -> Group {
        let members = Members::Names(["a".into()].into());
        let id = if name.is_empty() { GroupId::unnamed(&members) } else { GroupId::named(name) };
        Group {
            id,
            title: name.into(),
            members,
            expected: None,
            min_ready: MinReady::Percent(100),
            until: Until::Auto,
            wait: Duration::ZERO,
            timeout: None,
            on_timeout: OnTimeout::Fail,
            after: Vec::new(),
            max_concurrent_starts: None,
            node_selector: Default::default(),
            node_ready: None,
        }
    }

    fn of(namespace: &str, name: &str, groups: &[&str]) -> Vec<String> {
        let groups: Vec<Group> = groups.iter().map(|name| group(name)).collect();
        keys(namespace, name, &groups).iter().map(|key| key.to_string()).collect()
    }

    #[test]
    fn a_name_that_fits_stands_in_the_key() {
        assert_eq!(
            of("default", "csi", &["driver", "apps"]),
            [
                "podsequence.example.com/default.csi.driver-blocked",
                "podsequence.example.com/default.csi.apps-blocked",
            ]
        );
    }

    #[test]
    fn edits_to_the_list_never_re_point_a_key() {
        let before = of("default", "csi", &["driver", "Application Pods", ""]);
        let after = of("default", "csi", &["new", "driver", "", "Application Pods"]);
        assert_eq!([&before[0], &before[1], &before[2]], [&after[1], &after[3], &after[2]]);
    }

    #[test]
    fn every_key_is_a_label_key_and_no_two_are_the_same() {
        let long = "x".repeat(100);
        let names = ["a", "A b", "ä", "-", "a.b", &long, &format!("{long}y"), ""];
        for (namespace, name) in [("default", "s"), (&*"n".repeat(63), &*"s.t".repeat(80))] {
            let keys = of(namespace, name, &names);
            let distinct: BTreeSet<&String> = keys.iter().collect();
            assert_eq!(distinct.len(), names.len());
            for key in &keys {
                let rest = key.strip_prefix(PREFIX).expect("all begin alike");
                let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
                assert!(rest.len() <= 63 && fits(&rest.replace('.', "")), "{key}");
                assert!(edge(rest.bytes().next()) && edge(rest.bytes().last()), "{key}");
                assert!(rest.ends_with("-blocked"), "{key}");
            }
        }
        assert_ne!(of("a", "b.c", &["d"]), of("a", "b", &["c.d"]));
    }
}
