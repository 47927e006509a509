//! The common part of all stores of facts: objects by uid or by name, each with the version in which it was seen.

use crate::{Uid, kind::Kind};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How a list names an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Listed {
    Uid(Uid),
    Name(Arc<str>),
}

/// What objects are stored by.
pub trait Id: Ord {
    fn listed(&self) -> Listed;
    fn of(listed: &Listed) -> Option<&Self>;
}

impl Id for Uid {
    fn listed(&self) -> Listed {
        Listed::Uid(*self)
    }

    fn of(listed: &Listed) -> Option<&Uid> {
        if let Listed::Uid(uid) = listed { Some(uid) } else { None }
    }
}

impl Id for Arc<str> {
    fn listed(&self) -> Listed {
        Listed::Name(self.clone())
    }

    fn of(listed: &Listed) -> Option<&Arc<str>> {
        if let Listed::Name(name) = listed { Some(name) } else { None }
    }
}

/// One object, as it is stored.
pub trait Fact {
    fn version(&self) -> u64;
    fn version_mut(&mut self) -> &mut u64;

    /// Whether it stands for an existing object of a kind of its table.
    fn is_object_of(&self, _: Kind) -> bool {
        true
    }
}

/// The objects of one kind, or of several that are stored together.
pub trait Table {
    /// All objects of a kind, with their versions.
    fn known(&self, kind: Kind) -> Vec<(Listed, u64)>;
    fn version_of(&self, kind: Kind, object: &Listed) -> Option<u64>;
    /// The facts come from another time than the list that begins: every view counts as newer.
    fn forget_versions(&mut self);
}

impl<I: Id, T: Fact> Table for BTreeMap<I, T> {
    fn known(&self, kind: Kind) -> Vec<(Listed, u64)> {
        let known = self.iter().filter(|(_, fact)| fact.is_object_of(kind));
        known.map(|(id, fact)| (id.listed(), fact.version())).collect()
    }

    fn version_of(&self, kind: Kind, object: &Listed) -> Option<u64> {
        self.get(I::of(object)?).filter(|fact| fact.is_object_of(kind)).map(Fact::version)
    }

    fn forget_versions(&mut self) {
        self.values_mut().for_each(|fact| *fact.version_mut() = 0);
    }
}

/// Says where an entry has its version, and, where not every entry is one, which are objects of a kind.
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

/// Says which kinds a store has, and in which of its fields.
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
