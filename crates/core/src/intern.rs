//! Shares equal strings and label sets between the thousands of pods that have them.

use crate::labels::Labels;
use std::collections::BTreeSet;
use std::sync::Arc;

/// One pool for the whole index. [`Interner::sweep`] drops the entries that only the pool holds.
#[derive(Debug, Default)]
pub struct Interner {
    texts: BTreeSet<Arc<str>>,
    labels: BTreeSet<Labels>,
    since_sweep: usize,
}

/// Number of additions between sweeps, because a sweep visits the whole pool.
const SWEEP_AFTER: usize = 4096;

impl Interner {
    pub fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        let new: Arc<str> = Arc::from(text);
        self.texts.insert(new.clone());
        self.grew();
        new
    }

    pub fn shared(&mut self, text: &Arc<str>) -> Arc<str> {
        if let Some(known) = self.texts.get(&**text) {
            return known.clone();
        }
        self.texts.insert(text.clone());
        self.grew();
        text.clone()
    }

    pub fn labels(&mut self, labels: &Labels) -> Labels {
        if let Some(known) = self.labels.get(labels) {
            return known.clone();
        }
        let new: Labels = labels.iter().map(|(k, v)| (self.shared(k), self.shared(v))).collect();
        self.labels.insert(new.clone());
        self.grew();
        new
    }

    fn grew(&mut self) {
        self.since_sweep += 1;
        if self.since_sweep >= SWEEP_AFTER {
            self.sweep();
        }
    }

    /// Drops all entries that only the pool holds.
    pub fn sweep(&mut self) {
        self.since_sweep = 0;
        self.labels.retain(|labels| labels.holders() > 1);
        self.texts.retain(|text| Arc::strong_count(text) > 1);
    }

    #[cfg(test)]
    fn len(&self) -> (usize, usize) {
        (self.texts.len(), self.labels.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_label_sets_share_and_are_let_go() {
        let mut pool = Interner::default();
        let one = pool.labels(&[("app", "web")].into_iter().collect());
        let two = pool.labels(&[("app", "web")].into_iter().collect());
        assert_eq!(one.holders(), 3, "the pool, one and two share one allocation");
        drop((one, two));
        pool.sweep();
        assert_eq!(pool.len(), (0, 0));
    }
    #[test]
    fn texts_that_nobody_holds_do_not_pile_up() {
        let mut pool = Interner::default();
        (0..3 * SWEEP_AFTER).for_each(|number| drop(pool.text(&number.to_string())));
        assert!(pool.len().0 <= SWEEP_AFTER, "{} texts", pool.len().0);
    }
}
