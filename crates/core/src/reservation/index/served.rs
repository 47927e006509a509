//! The tickets of a namespace that are served: the oldest ones, up to the budget.

use crate::{Timestamp, Uid};
use std::collections::BTreeSet;

/// Creation time and uid. The API server sets both, so a user cannot make a ticket seem older.
type Age = (Timestamp, Uid);

/// Tickets within and beyond the budget. Every ticket in `served` is older than every ticket in `beyond`.
#[derive(Debug, Default)]
pub struct Served {
    served: BTreeSet<Age>,
    beyond: BTreeSet<Age>,
}

impl Served {
    /// Adds a ticket, unless it is known already. Returns the other ticket that is no longer served, if any.
    pub fn add(&mut self, age: Age, most: usize) -> Option<Uid> {
        if self.beyond.contains(&age) || !self.served.insert(age) || self.served.len() <= most {
            return None;
        }
        let youngest = self.served.pop_last()?;
        self.beyond.insert(youngest);
        Some(youngest.1).filter(|_| youngest != age)
    }

    /// Removes a ticket. Returns the other ticket that is served instead, if any.
    pub fn remove(&mut self, age: Age) -> Option<Uid> {
        self.beyond.remove(&age);
        if !self.served.remove(&age) {
            return None;
        }
        let next = self.beyond.pop_first()?;
        self.served.insert(next);
        Some(next.1)
    }

    pub fn is_beyond(&self, age: Age) -> bool {
        self.beyond.contains(&age)
    }

    pub fn is_empty(&self) -> bool {
        self.served.is_empty() && self.beyond.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_served_in_whichever_order_they_come() {
        let age = |second: i64| {
            let at = Timestamp::from_second(second).expect("a time");
            (at, Uid::digest(&second.to_string()))
        };
        let mut tickets = Served::default();
        assert_eq!(tickets.add(age(3), 2), None);
        assert_eq!(tickets.add(age(4), 2), None);
        assert_eq!(tickets.add(age(5), 2), None, "the new ticket itself is the youngest");
        assert_eq!(tickets.add(age(1), 2), Some(age(4).1));
        assert_eq!(tickets.add(age(1), 2), None, "it is known already");
        let beyond = |tickets: &Served| (1..6).filter(|at| tickets.is_beyond(age(*at))).collect::<Vec<i64>>();
        assert_eq!(beyond(&tickets), [4, 5]);
        assert_eq!(tickets.remove(age(5)), None);
        assert_eq!(tickets.remove(age(3)), Some(age(4).1));
        assert_eq!(beyond(&tickets), Vec::<i64>::new());
        assert_eq!((tickets.remove(age(1)), tickets.remove(age(4))), (None, None));
        assert!(tickets.is_empty());
    }
}
