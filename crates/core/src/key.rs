//! What a decision is about. Each feature has keys of its own; the loop knows nothing else of a feature.

use crate::Uid;
use std::collections::BTreeSet;

/// A part of Rollcall that decides for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Feature {
    Sequence,
    Launch,
    Reservation,
}

/// One thing to decide about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A `PodSequence`, by its uid.
    Sequence(Uid),
    /// A pod whose containers start in order, by its uid.
    Launch(Uid),
    Order(Uid),
    Ticket(Uid),
    /// A pod that waits for a ticket, by its uid.
    Claim(Uid),
}

/// A queue of its own: thousands of keys in one lane do not keep a key of another lane waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    Sequence,
    Launch,
    Order,
    Ticket,
    /// Pods that are given the room of a ticket.
    Claim,
}

impl Lane {
    pub const ALL: &[Lane] = &[Lane::Sequence, Lane::Launch, Lane::Order, Lane::Ticket, Lane::Claim];

    pub fn feature(self) -> Feature {
        match self {
            Lane::Sequence => Feature::Sequence,
            Lane::Launch => Feature::Launch,
            Lane::Order | Lane::Ticket | Lane::Claim => Feature::Reservation,
        }
    }

    /// Writes in flight that are kept for it, of the eight there are by default. Sequences and tickets take what is free: nobody
    /// loses anything while they wait for a slot. A container that waits for its key is somebody's start-up time. Between the
    /// steps of a hand-over, a room has nobody in it.
    pub fn kept_slots(self) -> usize {
        match self {
            Lane::Sequence | Lane::Order | Lane::Ticket => 0,
            Lane::Launch => 1,
            Lane::Claim => 2,
        }
    }
}

impl Lane {
    /// The lane that goes first while it has something to do. An Order makes all its tickets before their guardians are made: how many
    /// rooms there will be is known as soon as it can be.
    pub fn yields_to(self) -> Option<Lane> {
        match self {
            Lane::Ticket => Some(Lane::Order),
            Lane::Sequence | Lane::Launch | Lane::Order | Lane::Claim => None,
        }
    }
}

impl Feature {
    pub const ALL: &[Feature] = &[Feature::Sequence, Feature::Launch, Feature::Reservation];
}

impl Key {
    pub fn feature(self) -> Feature {
        match self {
            Key::Sequence(_) => Feature::Sequence,
            Key::Launch(_) => Feature::Launch,
            Key::Order(_) | Key::Ticket(_) | Key::Claim(_) => Feature::Reservation,
        }
    }

    pub fn lane(self) -> Lane {
        match self {
            Key::Sequence(_) => Lane::Sequence,
            Key::Launch(_) => Lane::Launch,
            Key::Order(_) => Lane::Order,
            Key::Ticket(_) => Lane::Ticket,
            Key::Claim(_) => Lane::Claim,
        }
    }

    /// The uid of the object that the key stands for.
    pub fn uid(self) -> Uid {
        match self {
            Key::Sequence(uid) | Key::Launch(uid) => uid,
            Key::Order(uid) | Key::Ticket(uid) | Key::Claim(uid) => uid,
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

    pub fn order(&mut self, uid: Uid) {
        self.0.insert(Key::Order(uid));
    }

    pub fn ticket(&mut self, uid: Uid) {
        self.0.insert(Key::Ticket(uid));
    }

    pub fn claim(&mut self, pod: Uid) {
        self.0.insert(Key::Claim(pod));
    }

    /// All of them; from here on none is.
    pub fn take(&mut self) -> BTreeSet<Key> {
        std::mem::take(&mut self.0)
    }
}
