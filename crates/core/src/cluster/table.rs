//! The common part of all stores of facts: objects by uid or name, each with the version that was last seen.

use crate::{Uid, kind::Kind};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The identity of an object in a list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Listed {
    Uid(Uid),
    Name(Arc<str>),
}

/// The key of a table of objects.
pub trait Id: Ord {
    fn listed(&self) -> Listed;
    fn from_listed(listed: &Listed) -> Option<&Self>;
}

impl Id for Uid {
    fn listed(&self) -> Listed {
        Listed::Uid(*self)
    }

    fn from_listed(listed: &Listed) -> Option<&Uid> {
        if let Listed::Uid(uid) = listed { Some(uid) } else { None }
    }
}

impl Id for Arc<str> {
    fn listed(&self) -> Listed {
        Listed::Name(self.clone())
    }

    fn from_listed(listed: &Listed) -> Option<&Arc<str>> {
        if let Listed::Name(name) = listed { Some(name) } else { None }
    }
}

/// A stored object.
pub trait Fact {
    fn version(&self) -> u64;
    fn version_mut(&mut self) -> &mut u64;

    /// Whether this entry is an existing object of the kind. A table may store several kinds.
    fn is_object_of(&self, _: Kind) -> bool {
        true
    }
}

/// The objects of one kind, or of several kinds that are stored together.
pub trait Table {
    /// All objects of a kind, with their versions.
    fn listed_of_kind(&self, kind: Kind) -> Vec<(Listed, u64)>;
    fn version_of(&self, kind: Kind, object: &Listed) -> Option<u64>;
    /// Resets all versions, so that every view counts as newer. Used when a list is older than the facts (restored backup).
    fn forget_versions(&mut self);
}

impl<I: Id, T: Fact> Table for BTreeMap<I, T> {
    fn listed_of_kind(&self, kind: Kind) -> Vec<(Listed, u64)> {
        let known = self.iter().filter(|(_, fact)| fact.is_object_of(kind));
        known.map(|(id, fact)| (id.listed(), fact.version())).collect()
    }

    fn version_of(&self, kind: Kind, object: &Listed) -> Option<u64> {
        self.get(I::from_listed(object)?).filter(|fact| fact.is_object_of(kind)).map(Fact::version)
    }

    fn forget_versions(&mut self) {
        self.values_mut().for_each(|fact| *fact.version_mut() = 0);
    }
}

/// Implements `Fact`: names the version field of an entry and, optionally, the check that an entry is an object of a kind.
macro_rules! fact {
    ($entry:ty, $($version:ident).+ $(, $is_object_of:expr)?) => {
        impl crate::cluster::table::Fact for $entry {
            fn version(&self) -> u64 {
                self.$($version).+
            }

            fn version_mut(&mut self) -> &mut u64 {
                &mut self.$($version).+
            }

            $(fn is_object_of(&self, kind: crate::kind::Kind) -> bool {
                let is_object_of: fn(&Self, crate::kind::Kind) -> bool = $is_object_of;
                is_object_of(self, kind)
            })?
        }
    };
}

/// Implements access to the tables of a store: the field for each kind.
macro_rules! tables {
    ($store:ty: $($($kind:ident)|+ => $($field:ident).+;)+) => {
        impl $store {
            pub fn table(&self, kind: crate::kind::Kind) -> Option<&dyn crate::cluster::table::Table> {
                match kind {
                    $($(crate::kind::Kind::$kind)|+ => Some(&self.$($field).+),)+
                    _ => None,
                }
            }

            pub fn table_mut(
                &mut self,
                kind: crate::kind::Kind,
            ) -> Option<&mut dyn crate::cluster::table::Table> {
                match kind {
                    $($(crate::kind::Kind::$kind)|+ => Some(&mut self.$($field).+),)+
                    _ => None,
                }
            }
        }
    };
}

pub(crate) use {fact, tables};
