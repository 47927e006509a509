//! Labels that the controller keeps. Any user with permission to create pods may give each of them tens of thousands of
//! labels; keeping all of them would let that user exhaust the controller's memory. So for pods and workloads, only
//! labels are kept whose key some selector names in that namespace.

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

/// Maximum number of labels kept for one object. A selector rarely names more than two keys.
pub const MOST_LABELS: usize = 64;

/// The label keys that are kept, by namespace. Clones share the same set.
#[derive(Clone, Debug, Default)]
pub struct KeptLabels(Option<Arc<RwLock<ByNamespace>>>);

type ByNamespace = BTreeMap<Arc<str>, BTreeSet<Arc<str>>>;

impl KeptLabels {
    /// Keeps every label: for programs that read a cluster once.
    pub fn all() -> KeptLabels {
        KeptLabels(None)
    }

    /// Keeps no labels until [`KeptLabels::set`] names keys.
    pub fn by_need() -> KeptLabels {
        KeptLabels(Some(Arc::default()))
    }

    /// Replaces the set of keys that are kept for a namespace.
    pub fn set(&self, namespace: &Arc<str>, keys: BTreeSet<Arc<str>>) {
        let Some(shared) = &self.0 else { return };
        let mut namespaces = shared.write().unwrap_or_else(PoisonError::into_inner);
        match keys.is_empty() {
            true => drop(namespaces.remove(namespace)),
            false => drop(namespaces.insert(namespace.clone(), keys)),
        }
    }

    /// Passes the labels of an object that are kept to `take`.
    pub(super) fn pick<'a, T>(
        &self,
        namespace: &str,
        labels: Option<&'a LabelText>,
        take: impl FnOnce(&mut dyn Iterator<Item = (&'a str, &'a str)>) -> T,
    ) -> T {
        let mut all = labels.into_iter().flat_map(LabelText::pairs);
        let Some(shared) = &self.0 else { return take(&mut all) };
        let namespaces = shared.read().unwrap_or_else(PoisonError::into_inner);
        match namespaces.get(namespace) {
            Some(keys) => take(&mut all.filter(|(key, _)| keys.contains(*key)).take(MOST_LABELS)),
            None => take(&mut std::iter::empty()),
        }
    }
}

/// The labels of an object, all in one string, which takes no more memory than the API server's answer did.
#[derive(Clone, Debug, Default)]
pub struct LabelText {
    text: String,
    /// The end of each key and each value in `text`.
    ends: Vec<u32>,
}

impl LabelText {
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        let mut parts = begins.zip(&self.ends).map(|(begin, end)| &self.text[begin as usize..*end as usize]);
        std::iter::from_fn(move || Some((parts.next()?, parts.next()?)))
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.pairs().find(|(known, _)| *known == key).map(|(_, value)| value)
    }

    fn push(&mut self, part: &str) {
        self.text.push_str(part);
        self.ends.push(self.text.len() as u32);
    }
}

impl<'de> Deserialize<'de> for LabelText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = LabelText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("labels")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<LabelText, A::Error> {
                let mut labels = LabelText::default();
                while map.next_key_seed(Part(&mut labels))?.is_some() {
                    map.next_value_seed(Part(&mut labels))?;
                }
                Ok(labels)
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

/// Appends a key or a value to the text.
struct Part<'a>(&'a mut LabelText);

impl<'de> serde::de::DeserializeSeed<'de> for Part<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Part<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E>(self, part: &str) -> Result<(), E> {
        self.0.push(part);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(labels: &KeptLabels, namespace: &str, text: &LabelText) -> Vec<(String, String)> {
        labels.pick(namespace, Some(text), |pairs| {
            pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
        })
    }

    #[test]
    fn labels_are_read_as_they_are_written() {
        for given in [vec![], vec![("a", "")], vec![("a", "1"), ("b/c", "ä"), ("", "2")]] {
            let json =
                serde_json::to_string(&given.iter().copied().collect::<BTreeMap<_, _>>()).expect("JSON");
            let text: LabelText = serde_json::from_str(&json).expect("labels");
            let mut sorted = given.clone();
            sorted.sort_unstable();
            assert_eq!(text.pairs().collect::<Vec<_>>(), sorted);
        }
        assert!(serde_json::from_str::<LabelText>(r#"{"a":1}"#).is_err());
    }

    #[test]
    fn only_what_is_wanted_in_that_namespace_is_kept_and_not_without_end() {
        let text: LabelText = serde_json::from_str(r#"{"app":"web","tier":"db"}"#).expect("labels");
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(kept(&KeptLabels::all(), "shop", &text).len(), 2);
        let by_need = KeptLabels::by_need();
        assert_eq!(kept(&by_need, "shop", &text), []);
        by_need.clone().set(&"shop".into(), ["tier".into(), "zone".into()].into());
        assert_eq!(kept(&by_need, "shop", &text), [pair("tier", "db")]);
        assert_eq!(kept(&by_need, "other", &text), []);
        by_need.set(&"shop".into(), BTreeSet::new());
        assert_eq!(kept(&by_need, "shop", &text), []);
        let keys: BTreeSet<Arc<str>> = (0..100).map(|number| format!("k{number}").into()).collect();
        let all: BTreeMap<&str, &str> = keys.iter().map(|key| (&**key, "")).collect();
        let many: LabelText = serde_json::from_value(serde_json::json!(all)).expect("labels");
        by_need.set(&"shop".into(), keys);
        assert_eq!(kept(&by_need, "shop", &many).len(), MOST_LABELS);
    }
}
