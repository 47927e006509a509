//! What a decision is about. Each feature has keys of its own; the loop knows nothing else of a feature.

use crate::Uid;
use std::collections::BTreeSet;

/// A part of Rollcall that decides for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Feature {
    Sequence,
    Launch,
}

/// One thing to decide about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A `PodSequence`, by its uid.
    Sequence(Uid),
    /// A pod whose containers start in order, by its uid.
    Launch(Uid),
}

impl Feature {
    pub const ALL: &[Feature] = &[Feature::Sequence, Feature::Launch];

    /// Writes in flight that are kept for it, of the eight there are by default. Sequences take what is free: nobody loses
    /// anything while a release waits for a slot. A container that waits for its key is somebody's start-up time.
    pub fn kept_slots(self) -> usize {
        match self {
            Feature::Sequence => 0,
            Feature::Launch => 1,
        }
    }
}

impl Key {
    pub fn feature(self) -> Feature {
        match self {
            Key::Sequence(_) => Feature::Sequence,
            Key::Launch(_) => Feature::Launch,
        }
    }

    /// The uid of the object that the key stands for.
    pub fn uid(self) -> Uid {
        match self {
            Key::Sequence(uid) | Key::Launch(uid) => uid,
        }
    }
}

/// The keys that a change touches: what has to be decided about anew.
#[derive(Debug, Default)]
pub struct Touched(BTreeSet<Key>);

impl Touched {
    pub fn sequence(&mut self, uid: Uid) {
        self.0.insert(Key::Sequence(uid));
    }

    pub fn sequences(&mut self, uids: impl IntoIterator<Item = Uid>) {
        self.0.extend(uids.into_iter().map(Key::Sequence));
    }

    pub fn launch(&mut self, pod: Uid) {
        self.0.insert(Key::Launch(pod));
    }

    /// All of them; from here on none is.
    pub fn take(&mut self) -> BTreeSet<Key> {
        std::mem::take(&mut self.0)
    }
}
