//! Writes to nodes that somebody undoes. A label that a person takes off by mistake is put back at once. But another program that
//! clears our labels away, or a second leader that has not heard of a change yet, would answer each write with its opposite, as
//! fast as the API server can; so who repeats himself waits, longer each time.

use rollcall_core::Uid;
use rollcall_core::sequence::marks::Marks;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long a write is remembered at least, and at most twice as long.
const REMEMBERED: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub struct Repeats {
    recent: Written,
    older: Written,
    since: Option<Instant>,
}

/// What was last written to a node for a sequence, and whether that was the same as before.
type Written = BTreeMap<(Uid, Arc<str>), (u64, bool)>;

impl Repeats {
    /// This is written now.
    pub fn write(&mut self, sequence: Uid, node: &Arc<str>, marks: &Marks, now: Instant) {
        if self.since.is_none_or(|since| now.duration_since(since) >= REMEMBERED) {
            self.older = std::mem::take(&mut self.recent);
            self.since = Some(now);
        }
        let (key, content) = ((sequence, node.clone()), content(marks));
        let before = self.recent.get(&key).or_else(|| self.older.get(&key));
        let again = before.is_some_and(|(before, _)| *before == content);
        self.recent.insert(key, (content, again));
    }

    /// Whether the last write to a node was a repetition.
    pub fn was_repeated(&self, sequence: Uid, node: &Arc<str>) -> bool {
        self.recent.get(&(sequence, node.clone())).is_some_and(|(_, again)| *again)
    }
}

/// What makes two writes the same: not the times in them, which may be new whenever something is written anew.
fn content(marks: &Marks) -> u64 {
    let mut hasher = DefaultHasher::new();
    marks.labels.hash(&mut hasher);
    for (group, times) in marks.journal.iter().flatten().flat_map(|journal| &journal.groups) {
        (group, times.opened_at.is_some(), times.completed_at.is_some()).hash(&mut hasher);
    }
    matches!(marks.journal, Some(None)).hash(&mut hasher);
    marks.taints.add.hash(&mut hasher);
    marks.taints.remove.iter().for_each(|(_, key)| key.hash(&mut hasher));
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(key: &str) -> Marks {
        Marks { labels: [(key.into(), Some("uid".into()))].into(), ..Marks::default() }
    }

    #[test]
    fn the_same_again_is_a_repetition_and_anything_else_is_none() {
        let (mut repeats, now, node) = (Repeats::default(), Instant::now(), Arc::from("a"));
        let (one, other) = (Uid::digest("one"), Uid::digest("other"));
        repeats.write(one, &node, &label("k"), now);
        assert!(!repeats.was_repeated(one, &node), "for the first time");
        repeats.write(other, &node, &label("k"), now);
        assert!(!repeats.was_repeated(other, &node), "of another sequence");
        repeats.write(one, &node, &label("k"), now);
        assert!(repeats.was_repeated(one, &node));
        repeats.write(one, &node, &label("l"), now);
        assert!(!repeats.was_repeated(one, &node), "something else");
        repeats.write(one, &node, &label("l"), now + REMEMBERED);
        assert!(repeats.was_repeated(one, &node), "not forgotten at once");
        repeats.write(one, &node, &label("m"), now + REMEMBERED * 2);
        repeats.write(one, &node, &label("m"), now + REMEMBERED * 5);
        repeats.write(other, &node, &label("k"), now + REMEMBERED * 5);
        assert!(!repeats.was_repeated(other, &node), "forgotten in the end");
    }
}
