//! Keys: the objects of decisions. Each feature has its own keys; the controller loop knows nothing else about a feature.

use crate::Uid;
use std::collections::BTreeSet;

/// A part of Rollcall that makes its own decisions.
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

/// A queue. Lanes are independent: thousands of keys in one lane do not delay a key in another lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    Sequence,
    Launch,
    Order,
    Ticket,
    /// Pods that claim a ticket.
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

    /// Write slots that are reserved for this lane, out of the eight by default. Sequences and tickets use the free slots:
    /// waiting for one costs them nothing. Launches have one, because a container that waits for its key starts later. Claims
    /// have two, because the capacity of a ticket is unprotected between the steps of a hand-over.
    pub fn kept_slots(self) -> usize {
        match self {
            Lane::Sequence | Lane::Order | Lane::Ticket => 0,
            Lane::Launch => 1,
            Lane::Claim => 2,
        }
    }
}

impl Lane {
    /// The lane that has priority over this one. An Order creates all its tickets before their guardians are created, so that
    /// the number of tickets is known as early as possible.
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

/// Keys that a change touches: those to decide about again.
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

    /// Returns all touched keys and clears the set.
    pub fn take(&mut self) -> BTreeSet<Key> {
        std::mem::take(&mut self.0)
    }
}
