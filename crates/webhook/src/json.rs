//! JSON of which only what matters is kept. Whatever else is there is passed over and not stored, so that a review takes no more
//! memory than its own text, whatever is in it.
//!
//! As Kubernetes understands it, null is absent. Of two fields with the same name the last one counts. Only what is no JSON is
//! an error here. A field that is not what it must be is [`Malformed`] for whoever asks for it.

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A field that is not what it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is not {expected}")]
pub struct Malformed {
    pub field: &'static str,
    pub expected: &'static str,
}

/// What was found where something was expected; `None` if it is absent.
pub type Found<T> = Option<Result<T, Malformed>>;

/// A piece of the review itself, or a copy if there are escapes in it.
pub type Text<'a> = Cow<'a, str>;

/// A review, as text or as a value. It is read as often as is needed.
pub trait Source {
    fn read<'a, S: DeserializeSeed<'a>>(&'a self, seed: S) -> serde_json::Result<S::Value>;
}

impl Source for [u8] {
    fn read<'a, S: DeserializeSeed<'a>>(&'a self, seed: S) -> serde_json::Result<S::Value> {
        let mut text = serde_json::Deserializer::from_slice(self);
        let read = seed.deserialize(&mut text)?;
        text.end()?;
        Ok(read)
    }
}

impl Source for serde_json::Value {
    fn read<'a, S: DeserializeSeed<'a>>(&'a self, seed: S) -> serde_json::Result<S::Value> {
        seed.deserialize(self)
    }
}

/// A kind of value that is expected somewhere, at `field`. What it does not take is passed over and malformed.
pub trait Expected<'a>: Sized {
    const IN_WORDS: &'static str;
    type Value;

    fn text(self, _text: &str) -> Option<Self::Value> {
        None
    }

    /// The same, with a text that is there for as long as the review is.
    fn own_text(self, text: &'a str) -> Option<Self::Value> {
        self.text(text)
    }

    fn boolean(self, _is: bool) -> Option<Self::Value> {
        None
    }

    fn list<A: SeqAccess<'a>>(
        self,
        field: &'static str,
        mut items: A,
    ) -> Result<Found<Self::Value>, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Some(Err(Malformed { field, expected: Self::IN_WORDS })))
    }

    fn object<A: MapAccess<'a>>(
        self,
        field: &'static str,
        mut fields: A,
    ) -> Result<Found<Self::Value>, A::Error> {
        while fields.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Some(Err(Malformed { field, expected: Self::IN_WORDS })))
    }
}

/// Reads what stands at a field.
pub struct At<E>(pub &'static str, pub E);

impl<'a, E: Expected<'a>> At<E> {
    /// What was made of a value that is no list and no object.
    fn found(field: &'static str, value: Option<E::Value>) -> Found<E::Value> {
        Some(value.ok_or(Malformed { field, expected: E::IN_WORDS }))
    }
}

impl<'a, E: Expected<'a>> DeserializeSeed<'a> for At<E> {
    type Value = Found<E::Value>;

    fn deserialize<D: Deserializer<'a>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'a, E: Expected<'a>> Visitor<'a> for At<E> {
    type Value = Found<E::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<X: Error>(self) -> Result<Self::Value, X> {
        Ok(None)
    }

    fn visit_bool<X: Error>(self, is: bool) -> Result<Self::Value, X> {
        Ok(Self::found(self.0, self.1.boolean(is)))
    }

    fn visit_i64<X: Error>(self, _: i64) -> Result<Self::Value, X> {
        Ok(Self::found(self.0, None))
    }

    fn visit_u64<X: Error>(self, _: u64) -> Result<Self::Value, X> {
        Ok(Self::found(self.0, None))
    }

    fn visit_f64<X: Error>(self, _: f64) -> Result<Self::Value, X> {
        Ok(Self::found(self.0, None))
    }

    fn visit_str<X: Error>(self, text: &str) -> Result<Self::Value, X> {
        Ok(Self::found(self.0, self.1.text(text)))
    }

    fn visit_borrowed_str<X: Error>(self, text: &'a str) -> Result<Self::Value, X> {
        Ok(Self::found(self.0, self.1.own_text(text)))
    }

    fn visit_seq<A: SeqAccess<'a>>(self, items: A) -> Result<Self::Value, A::Error> {
        self.1.list(self.0, items)
    }

    fn visit_map<A: MapAccess<'a>>(self, fields: A) -> Result<Self::Value, A::Error> {
        self.1.object(self.0, fields)
    }
}

/// What must be there.
pub fn required<T>(found: Found<T>, field: &'static str) -> Result<T, Malformed> {
    found.unwrap_or(Err(Malformed { field, expected: "an object" }))
}

/// A text that was looked for; empty if it is absent, which Kubernetes does not tell apart.
pub fn text<'t>(found: &'t Found<Text<'_>>) -> Result<&'t str, Malformed> {
    match found {
        None => Ok(""),
        Some(Ok(text)) => Ok(text),
        Some(Err(malformed)) => Err(*malformed),
    }
}

pub struct AText;

impl<'a> Expected<'a> for AText {
    const IN_WORDS: &'static str = "a text";
    type Value = Text<'a>;

    fn text(self, text: &str) -> Option<Text<'a>> {
        Some(Cow::Owned(text.to_owned()))
    }

    fn own_text(self, text: &'a str) -> Option<Text<'a>> {
        Some(Cow::Borrowed(text))
    }
}

/// A text that nobody wants.
struct AnyText;

impl<'a> Expected<'a> for AnyText {
    const IN_WORDS: &'static str = AText::IN_WORDS;
    type Value = ();

    fn text(self, _: &str) -> Option<()> {
        Some(())
    }
}

pub struct ABoolean;

impl<'a> Expected<'a> for ABoolean {
    const IN_WORDS: &'static str = "true or false";
    type Value = bool;

    fn boolean(self, is: bool) -> Option<bool> {
        Some(is)
    }
}

/// An object, of which some fields are kept.
pub trait Object<'a>: Sized {
    /// Reads the value of a field, or passes over it.
    fn field<A: MapAccess<'a>>(&mut self, name: &str, value: &mut A) -> Result<(), A::Error>;
}

/// Says which fields of an object are kept: the name in JSON, where it is kept, and what is expected there.
macro_rules! object {
    ($type:ty, $path:literal, |$this:ident| $($name:literal => $field:ident: $expected:expr,)*) => {
        impl<'a> crate::json::Object<'a> for $type {
            fn field<A: serde::de::MapAccess<'a>>(&mut self, name: &str, value: &mut A) -> Result<(), A::Error> {
                match name {
                    $($name => {
                        let $this = &*self;
                        // Most fields need nothing of the object.
                        let _ = $this;
                        let expected = crate::json::At(concat!($path, ".", $name), $expected);
                        self.$field = value.next_value_seed(expected)?;
                    })*
                    _ => crate::json::pass(value)?,
                }
                Ok(())
            }
        }
    };
}
pub(crate) use object;

/// Passes over the value of a field that does not matter.
pub fn pass<'a, A: MapAccess<'a>>(value: &mut A) -> Result<(), A::Error> {
    value.next_value::<IgnoredAny>().map(drop)
}

/// An object that begins like this.
pub struct AnObject<T>(pub T);

impl<'a, T: Object<'a>> Expected<'a> for AnObject<T> {
    const IN_WORDS: &'static str = "an object";
    type Value = T;

    fn object<A: MapAccess<'a>>(mut self, _: &'static str, mut fields: A) -> Result<Found<T>, A::Error> {
        while let Some(name) = fields.next_key_seed(At("", AText))? {
            match &name {
                Some(Ok(name)) => self.0.field(name, &mut fields)?,
                None | Some(Err(_)) => pass(&mut fields)?,
            }
        }
        Ok(Some(Ok(self.0)))
    }
}

/// A list of objects, each of which is put in, or what was there in its place.
pub trait List<'a>: Sized {
    /// Where an item stands.
    const ITEM: &'static str;
    type Item: Object<'a> + Default;

    fn put(&mut self, item: Result<Self::Item, Malformed>) -> Result<(), Malformed>;
}

/// A list that begins like this.
pub struct AList<L>(pub L);

impl<'a, L: List<'a>> Expected<'a> for AList<L> {
    const IN_WORDS: &'static str = "a list";
    type Value = L;

    fn list<A: SeqAccess<'a>>(mut self, _: &'static str, mut items: A) -> Result<Found<L>, A::Error> {
        let mut malformed = None;
        while let Some(item) = items.next_element_seed(At(L::ITEM, AnObject(L::Item::default())))? {
            if malformed.is_none() {
                malformed = self.0.put(required(item, L::ITEM)).err();
            }
        }
        Ok(Some(malformed.map_or(Ok(self.0), Err)))
    }
}

/// Labels or annotations: a map of texts. Those are kept whose keys somebody wants.
pub struct Texts<'w>(pub &'w BTreeSet<&'w str>);

impl<'a, 'w> Expected<'a> for Texts<'w> {
    const IN_WORDS: &'static str = "a map of texts";
    type Value = BTreeMap<&'w str, Text<'a>>;

    fn object<A: MapAccess<'a>>(
        self,
        field: &'static str,
        mut fields: A,
    ) -> Result<Found<Self::Value>, A::Error> {
        let (mut kept, mut malformed) = (BTreeMap::new(), false);
        while let Some(key) = fields.next_key_seed(At("", AText))? {
            let wanted = key.and_then(Result::ok).and_then(|key| self.0.get(&*key));
            match wanted {
                Some(key) => match fields.next_value_seed(At(field, AText))? {
                    Some(Ok(text)) => drop(kept.insert(*key, text)),
                    None | Some(Err(_)) => malformed = true,
                },
                None => malformed |= !matches!(fields.next_value_seed(At(field, AnyText))?, Some(Ok(()))),
            }
        }
        Ok(Some(match malformed {
            true => Err(Malformed { field, expected: Self::IN_WORDS }),
            false => Ok(kept),
        }))
    }
}
