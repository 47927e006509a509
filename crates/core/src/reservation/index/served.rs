//! Which tickets of a namespace are served: the oldest ones, as many as its budget allows.

use crate::{Timestamp, Uid};
use std::collections::BTreeSet;

/// By age, and then by uid: an intruder cannot make himself older.
type Age = (Timestamp, Uid);

/// All that are served are older than all that are not.
#[derive(Debug, Default)]
pub struct Served {
    served: BTreeSet<Age>,
    beyond: BTreeSet<Age>,
}

impl Served {
    /// One more, which may be there already. Says which other one is not served any more.
    pub fn add(&mut self, age: Age, most: usize) -> Option<Uid> {
        if self.beyond.contains(&age) || !self.served.insert(age) || self.served.len() <= most {
            return None;
        }
        let youngest = self.served.pop_last()?;
        self.beyond.insert(youngest);
        Some(youngest.1).filter(|_| youngest != age)
    }

    /// One less. Says which other one is served now.
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
        assert_eq!(tickets.add(age(5), 2), None, "the youngest itself");
        assert_eq!(tickets.add(age(1), 2), Some(age(4).1));
        assert_eq!(tickets.add(age(1), 2), None, "it is there already");
        let beyond = |tickets: &Served| (1..6).filter(|at| tickets.is_beyond(age(*at))).collect::<Vec<i64>>();
        assert_eq!(beyond(&tickets), [4, 5]);
        assert_eq!(tickets.remove(age(5)), None);
        assert_eq!(tickets.remove(age(3)), Some(age(4).1));
        assert_eq!(beyond(&tickets), Vec::<i64>::new());
        assert_eq!((tickets.remove(age(1)), tickets.remove(age(4))), (None, None));
        assert!(tickets.is_empty());
    }
}
