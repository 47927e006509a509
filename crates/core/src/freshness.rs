//! Freshness of the facts: how far each watch has progressed, which lists are complete, and which objects are deleted.

use crate::{Uid, kind::Kind};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Number of deleted uids that are remembered, so that a late view does not bring a deleted object back. Late views come from
/// answers in flight and from watches that reconnect, so a few hundred would suffice. Each takes 16 bytes.
const TOMBSTONES: usize = 4096;

#[derive(Debug, Default)]
pub struct Freshness {
    synced: BTreeSet<Kind>,
    lists: BTreeMap<Kind, List>,
    newest: BTreeMap<Kind, u64>,
    tombstones: BTreeSet<Uid>,
    tombstone_order: VecDeque<Uid>,
}

/// The last list of a kind.
#[derive(Clone, Copy, Debug)]
pub struct List {
    pub version: u64,
    /// Its version is lower than one seen before: the cluster was restored from a backup.
    pub restored: bool,
}

impl Freshness {
    /// Whether a view is newer than `known`, the stored version, and the object is not known to be deleted.
    pub fn admits(&mut self, kind: Kind, uid: Option<Uid>, known: Option<u64>, version: u64) -> bool {
        self.advance_newest(kind, version);
        !uid.is_some_and(|uid| self.is_deleted(uid)) && known.is_none_or(|known| known < version)
    }

    /// Records that the watch of a kind has reached this version.
    pub fn advance_newest(&mut self, kind: Kind, version: u64) {
        let newest = self.newest.entry(kind).or_default();
        *newest = version.max(*newest);
    }

    pub fn newest(&self, kind: Kind) -> Option<u64> {
        self.newest.get(&kind).copied()
    }

    /// The version that each watch has reached, to be reset with [`Freshness::set_newest`].
    pub fn all_newest(&self) -> BTreeMap<Kind, u64> {
        self.newest.clone()
    }

    pub fn set_newest(&mut self, newest: BTreeMap<Kind, u64>) {
        self.newest = newest;
    }

    pub fn add_tombstone(&mut self, uid: Uid) {
        if self.tombstones.insert(uid) {
            self.tombstone_order.push_back(uid);
        }
        if self.tombstone_order.len() > TOMBSTONES {
            let oldest = self.tombstone_order.pop_front();
            oldest.map(|uid| self.tombstones.remove(&uid));
        }
    }

    /// Whether the object is known to be deleted.
    pub fn is_deleted(&self, uid: Uid) -> bool {
        self.tombstones.contains(&uid)
    }

    /// Records that a list begins. Returns whether the cluster was restored from a backup: then the known facts are not newer,
    /// and deleted objects may reappear.
    pub fn list_begins(&mut self, kind: Kind, version: u64) -> bool {
        self.synced.remove(&kind);
        let restored = self.newest(kind).is_some_and(|seen| version < seen);
        if restored {
            self.tombstones.clear();
            self.tombstone_order.clear();
        }
        self.newest.insert(kind, version);
        self.lists.insert(kind, List { version, restored });
        restored
    }

    pub fn last_list(&self, kind: Kind) -> Option<List> {
        self.lists.get(&kind).copied()
    }

    pub fn forget_list(&mut self, kind: Kind) {
        self.lists.remove(&kind);
    }

    /// Records that all objects of a kind are known.
    pub fn set_synced(&mut self, kind: Kind) {
        self.synced.insert(kind);
    }

    pub fn set_unsynced(&mut self, kind: Kind) {
        self.synced.remove(&kind);
    }

    pub fn is_synced(&self, kind: Kind) -> bool {
        self.synced.contains(&kind)
    }
}
