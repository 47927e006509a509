//! The keys by which a node is known not to have reached a group: as a label, or as a taint.
//!
//! Everybody can write one down beforehand: it is made of the names of the sequence and of the group, not of its place in the
//! list, so that edits to the list never re-point a key.

use super::spec::{Group, GroupId, NodeGuard};
use crate::{hash::fnv1a64, node::STARTUP_TAINTS};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Put on a node when it registers, before any controller has seen it.
pub const UNSEEN: &str = "podsequence.example.com/unseen";
/// What they begin with, unless a taint is to begin with something else.
pub const PREFIX: &str = "podsequence.example.com/";
/// What a taint can begin with. No others, so that whatever was put on nodes is recognised afterwards.
pub const TAINT_PREFIXES: [&str; 3] = [PREFIX, STARTUP_TAINTS[0], STARTUP_TAINTS[1]];
/// What all of them end with.
const SUFFIX: &str = "-blocked";
/// What follows the prefix of a label key has at most this many characters.
const LONGEST: usize = 63;
/// Bytes of the hash in a key that is shortened. 96 bits: whoever chooses the names of his sequences must not find one that has
/// the key of somebody else's.
const HASHED: usize = 12;

/// What the keys of a sequence begin with.
pub fn prefix(guard: NodeGuard, of_taints: &'static str) -> &'static str {
    match guard {
        NodeGuard::Labels => PREFIX,
        NodeGuard::Taints => of_taints,
    }
}

/// The key of each group of a sequence, in their order; no two are the same.
pub fn keys(prefix: &str, namespace: &str, name: &str, groups: &[Group]) -> Vec<Arc<str>> {
    let mut taken = BTreeSet::new();
    let each = groups.iter().map(|group| {
        let whole = format!("{namespace}.{name}.{}{SUFFIX}", word(&group.id));
        let mut key = shortened(&whole);
        let mut occurrence = 1;
        while !taken.insert(key.clone()) {
            occurrence += 1;
            key = hashed(&whole, occurrence);
        }
        Arc::from(format!("{prefix}{key}"))
    });
    each.collect()
}

/// Whether a label or taint of this key is one of ours.
pub fn is_key(key: &str) -> bool {
    key.ends_with(SUFFIX) && TAINT_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
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
    let hash = Sha256::digest(format!("{whole}\u{0}{occurrence}"));
    let hash: String = hash.iter().take(HASHED).map(|byte| format!("{byte:02x}")).collect();
    let room = LONGEST - SUFFIX.len() - hash.len() - 1;
    let start: String = whole.chars().take(room).collect();
    format!("{}-{hash}{SUFFIX}", start.trim_end_matches(['-', '.', '_']))
}
