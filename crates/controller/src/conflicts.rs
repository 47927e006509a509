//! Nodes that had changed before our write reached them. Another write based on the same view would fail again, so nothing is
//! written to such a node until a newer version is seen. Without one, the write is retried with back-off.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// First wait for a newer version of the node, which normally arrives earlier. Doubled for each failure at the same version.
const RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub struct Conflicts {
    /// Conflicts by node name. Nearly always empty.
    nodes: BTreeMap<Arc<str>, Conflict>,
}

#[derive(Debug)]
struct Conflict {
    /// The version that the write was based on; `None` if the node is meanwhile deleted.
    seen: Option<u64>,
    /// Time of the next attempt; `None` while that attempt is in flight.
    retry_at: Option<Instant>,
    failed: u32,
}

impl Conflicts {
    /// Records that a write to the node, based on version `seen`, came too late.
    pub fn add(&mut self, node: &Arc<str>, seen: Option<u64>, now: Instant) {
        let failed =
            self.nodes.get(node).filter(|earlier| earlier.seen == seen).map_or(0, |earlier| earlier.failed);
        let wait = RETRY.saturating_mul(1 << failed.min(8)).min(LONGEST_RETRY);
        let conflict = Conflict { seen, retry_at: Some(now + wait), failed: failed + 1 };
        self.nodes.insert(node.clone(), conflict);
    }

    /// Records that a write to the node had any other outcome.
    pub fn forget(&mut self, node: &Arc<str>) {
        self.nodes.remove(node);
    }

    pub fn next_moment(&self) -> Option<Instant> {
        self.nodes.values().filter_map(|conflict| conflict.retry_at).min()
    }

    /// Returns the nodes that may be written to again: a newer version was seen, or the back-off has ended.
    pub fn take_ended(&mut self, now: Instant, version: impl Fn(&Arc<str>) -> Option<u64>) -> Vec<Arc<str>> {
        let mut ended = Vec::new();
        self.nodes.retain(|node, conflict| {
            let news = version(node) != conflict.seen;
            if conflict.retry_at.is_some_and(|at| news || at <= now) {
                conflict.retry_at = None;
                ended.push(node.clone());
            }
            !news
        });
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_left_alone_until_there_is_news_of_it_or_for_a_while() {
        let (mut conflicts, node, begin) = (Conflicts::default(), Arc::<str>::from("a"), Instant::now());
        let only = std::slice::from_ref(&node);
        conflicts.add(&node, Some(7), begin);
        assert!(conflicts.take_ended(begin, |_| Some(7)).is_empty());
        assert_eq!(conflicts.take_ended(begin, |_| Some(8)), only, "news");
        assert!(conflicts.next_moment().is_none() && conflicts.nodes.is_empty());
        let (mut tries, mut now) = (0, begin);
        while now < begin + Duration::from_secs(600) {
            conflicts.add(&node, Some(8), now);
            now = conflicts.next_moment().expect("it is tried again");
            assert_eq!(conflicts.take_ended(now, |_| Some(8)), only);
            tries += 1;
        }
        assert!((20..30).contains(&tries), "{tries} tries in ten minutes without news");
        conflicts.add(&node, Some(8), now);
        assert_eq!(conflicts.take_ended(now, |_| None), only, "it is gone");
        conflicts.add(&node, None, now);
        conflicts.forget(&node);
        assert!(conflicts.take_ended(now, |_| Some(9)).is_empty());
    }
}
