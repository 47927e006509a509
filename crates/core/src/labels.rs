//! Label sets: sorted, shared and compared by content.

use std::sync::Arc;

/// The labels of one object, sorted by key. Clones share the same allocation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Labels(Arc<[(Arc<str>, Arc<str>)]>);

impl Labels {
    pub fn get(&self, key: &str) -> Option<&Arc<str>> {
        let position = self.0.binary_search_by(|(k, _)| (**k).cmp(key)).ok()?;
        Some(&self.0[position].1)
    }

    pub fn iter(&self) -> impl Iterator<Item = &(Arc<str>, Arc<str>)> {
        self.0.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of clones of this allocation; the interner drops sets that only the interner holds.
    pub(crate) fn holders(&self) -> usize {
        Arc::strong_count(&self.0)
    }
}

impl Default for Labels {
    fn default() -> Self {
        Labels(Arc::from([]))
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut pairs: Vec<(Arc<str>, Arc<str>)> =
            pairs.into_iter().map(|(k, v)| (Arc::from(k.as_ref()), Arc::from(v.as_ref()))).collect();
        pairs.sort();
        Labels(pairs.into())
    }
}

#[cfg(test)]
mod tests {
    use super::Labels;

    #[test]
    fn found_by_key_whatever_the_order() {
        let labels: Labels = [("b", "2"), ("a", "1"), ("c", "3")].into_iter().collect();
        assert_eq!(labels.get("a").map(|v| &**v), Some("1"));
        assert_eq!(labels.get("c").map(|v| &**v), Some("3"));
        assert_eq!(labels.get("d"), None);
        assert_eq!(labels, [("c", "3"), ("a", "1"), ("b", "2")].into_iter().collect());
    }
}
