//! Blocked keys: the keys of labels or taints that keep members of a group off a node until the group is open there.
//!
//! A key consists of the names of the sequence and of the group, so users can write it into manifests in advance. It does not
//! contain the position of the group, so edits to the list of groups do not change the meaning of a key.

use super::spec::{Group, GroupId, NodeGuard};
use crate::{hash::fnv1a64, node::STARTUP_TAINTS};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The label of a new node that no controller has processed yet. Admission sets it when the node registers.
pub const UNSEEN: &str = "podsequence.example.com/unseen";
/// Prefix of blocked keys, unless another prefix for taints is configured.
pub const PREFIX: &str = "podsequence.example.com/";
/// Permitted prefixes of taint keys. The list is fixed, so that a controller with another setting still recognises its taints.
pub const TAINT_PREFIXES: [&str; 3] = [PREFIX, STARTUP_TAINTS[0], STARTUP_TAINTS[1]];
/// Suffix of all blocked keys.
const SUFFIX: &str = "-blocked";
/// Maximum number of characters after the prefix of a label key.
const LONGEST: usize = 63;
/// Bytes of the hash in a shortened key. 96 bits, so that a user cannot find a sequence name that collides with the key of
/// another sequence.
const HASHED: usize = 12;

/// The prefix of the keys of a sequence.
pub fn prefix(guard: NodeGuard, of_taints: &'static str) -> &'static str {
    match guard {
        NodeGuard::Labels => PREFIX,
        NodeGuard::Taints => of_taints,
    }
}

/// The keys of the groups of a sequence, in their order. All are different.
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

/// Whether `key` is a blocked key of some sequence.
pub fn is_key(key: &str) -> bool {
    key.ends_with(SUFFIX) && TAINT_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
}

/// The name of a group if a label key can contain it, else a hash of its id.
fn word(id: &GroupId) -> String {
    let name = id.as_str().strip_prefix('=');
    match name.filter(|name| fits(name)) {
        Some(name) => name.to_owned(),
        None => format!("{:016x}", fnv1a64(id.as_str().as_bytes())),
    }
}

/// Whether a name consists of letters, digits, `-` and `_`. A `.` is valid in a label key too, but with it two sequences could
/// have the same key: `b.c` with a group `d`, and `b` with a group `c.d`.
fn fits(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

fn shortened(whole: &str) -> String {
    if whole.len() <= LONGEST { whole.to_owned() } else { hashed(whole, 1) }
}

/// The longest prefix that fits, followed by a hash of the whole text.
fn hashed(whole: &str, occurrence: u32) -> String {
    let hash = Sha256::digest(format!("{whole}\u{0}{occurrence}"));
    let hash: String = hash.iter().take(HASHED).map(|byte| format!("{byte:02x}")).collect();
    let room = LONGEST - SUFFIX.len() - hash.len() - 1;
    let start: String = whole.chars().take(room).collect();
    format!("{}-{hash}{SUFFIX}", start.trim_end_matches(['-', '.', '_']))
}
