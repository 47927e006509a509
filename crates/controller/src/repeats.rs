//! Detects repeated writes to nodes and tickets, and repeated creations for reservations. If a user removes a label by mistake,
//! or deletes a guardian, the controller restores it at once. But some parties undo every write as fast as the API server
//! allows. Examples are a program that removes our labels, a second leader with an older view, and a garbage collector ahead of
//! our watch. So repeated writes back off exponentially.

use rollcall_core::Uid;
use rollcall_core::sequence::marks::Marks;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Time that a write is remembered: at least this long, at most twice as long.
const REMEMBERED: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub struct Repeats {
    recent: RecordedWrites,
    older: RecordedWrites,
    since: Option<Instant>,
}

/// Hash of the last write, and whether it was a repetition. The key is the uid of the sequence, Order, ticket or pod that
/// caused the write, and the name of the written object.
type RecordedWrites = BTreeMap<(Uid, Arc<str>), (u64, bool)>;

impl Repeats {
    /// Records a write.
    pub fn write(&mut self, owner: Uid, name: &Arc<str>, content: u64, now: Instant) {
        if self.since.is_none_or(|since| now.duration_since(since) >= REMEMBERED) {
            self.older = std::mem::take(&mut self.recent);
            self.since = Some(now);
        }
        let key = (owner, name.clone());
        let before = self.recent.get(&key).or_else(|| self.older.get(&key));
        let again = before.is_some_and(|(before, _)| *before == content);
        self.recent.insert(key, (content, again));
    }

    /// Whether the last write was a repetition.
    pub fn was_repeated(&self, owner: Uid, name: &Arc<str>) -> bool {
        self.recent.get(&(owner, name.clone())).is_some_and(|(_, again)| *again)
    }
}

/// Hashes the content of a write. Equal hashes mean a repetition.
pub fn content_of(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// Hashes the content of a write to a node, without its times: they may change even if the write is a repetition.
pub fn content_of_marks(marks: &Marks) -> u64 {
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

    fn label(key: &str) -> u64 {
        let labels = [(key.into(), Some("uid".into()))].into();
        content_of_marks(&Marks { labels, ..Marks::default() })
    }

    #[test]
    fn the_same_again_is_a_repetition_and_anything_else_is_none() {
        let (mut repeats, now, node) = (Repeats::default(), Instant::now(), Arc::from("a"));
        let (one, other) = (Uid::digest("one"), Uid::digest("other"));
        repeats.write(one, &node, label("k"), now);
        assert!(!repeats.was_repeated(one, &node), "for the first time");
        repeats.write(other, &node, label("k"), now);
        assert!(!repeats.was_repeated(other, &node), "of another sequence");
        repeats.write(one, &node, label("k"), now);
        assert!(repeats.was_repeated(one, &node));
        repeats.write(one, &node, label("l"), now);
        assert!(!repeats.was_repeated(one, &node), "something else");
        repeats.write(one, &node, label("l"), now + REMEMBERED);
        assert!(repeats.was_repeated(one, &node), "not forgotten at once");
        repeats.write(one, &node, label("m"), now + REMEMBERED * 2);
        repeats.write(one, &node, label("m"), now + REMEMBERED * 5);
        repeats.write(other, &node, label("k"), now + REMEMBERED * 5);
        assert!(!repeats.was_repeated(other, &node), "forgotten in the end");
    }
}
