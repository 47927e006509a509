//! How new our knowledge is: what each watch has told, which lists are whole, and which objects are gone.

use crate::{Uid, kind::Kind};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Deleted uids that are remembered, so that a late view of one does not bring it back. Late views come from
/// answers in flight and from watches that reconnect, so a few hundred would do; 16 bytes each.
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
    /// Below what was seen before it: of a cluster restored from a backup.
    pub restored: bool,
}

impl Freshness {
    /// Whether a view of an object is newer than the one known, and the object not gone. `known` is the version known.
    pub fn admits(&mut self, kind: Kind, uid: Option<Uid>, known: Option<u64>, version: u64) -> bool {
        self.advance_newest(kind, version);
        !uid.is_some_and(|uid| self.is_deleted(uid)) && known.is_none_or(|known| known < version)
    }

    /// The watch of a kind has come this far.
    pub fn advance_newest(&mut self, kind: Kind, version: u64) {
        let newest = self.newest.entry(kind).or_default();
        *newest = version.max(*newest);
    }

    pub fn newest(&self, kind: Kind) -> Option<u64> {
        self.newest.get(&kind).copied()
    }

    /// How far all watches have come, to be set back with [`Freshness::set_newest`].
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

    /// Whether an object was seen deleted.
    pub fn is_deleted(&self, uid: Uid) -> bool {
        self.tombstones.contains(&uid)
    }

    /// A list begins. Says whether it is of a cluster that was restored from a backup: then what is known is not newer, and
    /// what was deleted may come again.
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

    /// All objects of a kind are known.
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
