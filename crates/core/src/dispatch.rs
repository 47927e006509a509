//! From a key to the feature that decides about it. These are the only places that know all features.

use crate::{
    Timestamp,
    decision::{Decision, Keep, Violation},
    index::Index,
    key::Key,
    sequence::{self, Settings},
};

/// Decides about one key, with at most `budget` writes. A function of the facts and of `now`: same input, same decision.
pub fn decide(index: &Index, key: Key, settings: Settings, now: Timestamp, budget: usize) -> Decision {
    match key {
        Key::Sequence(uid) => sequence::decide(index.facts(), uid, settings, now, budget),
    }
}

/// Audits a decision, without using what made it.
pub fn check(index: &Index, key: Key, decision: &Decision, now: Timestamp) -> Vec<Violation> {
    match key {
        Key::Sequence(uid) => sequence::check(index.facts(), uid, decision, now),
    }
}

/// Keeps what the next decision about a key is to know.
pub fn keep(index: &mut Index, key: Key, keep: Keep) {
    match (key, keep) {
        (_, Keep::Nothing) => {}
        (Key::Sequence(uid), Keep::Sequence { recorded, nodes }) => {
            index.sequences.remember(uid, *recorded);
            index.sequences.remember_nodes(&index.cluster, uid, nodes);
        }
    }
}
