//! A JSON reader that keeps only the fields that matter. It skips everything else without storing it, so a review takes
//! no more memory than its own text.
//!
//! As in Kubernetes, null means absent, and the last of several fields with the same name counts. Only invalid JSON is
//! an error here. A field of the wrong type is [`Malformed`] for the code that uses the field.

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A field of the wrong type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is not {expected}")]
pub struct Malformed {
    pub field: &'static str,
    pub expected: &'static str,
}

/// The value of a field; `None` if it is absent.
pub type Found<T> = Option<Result<T, Malformed>>;

/// A slice of the review, or a copy if the JSON string contains escapes.
pub type Text<'a> = Cow<'a, str>;

/// A review, as bytes or as a value. It can be read several times.
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

/// The type that a field must have. A value of another type is skipped, and the field is [`Malformed`].
pub trait Expected<'a>: Sized {
    const IN_WORDS: &'static str;
    type Value;

    fn text(self, _text: &str) -> Option<Self::Value> {
        None
    }

    /// Like [`Expected::text`], for a string that lives as long as the review.
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

/// A seed that reads the value of the field with this name.
pub struct At<E>(pub &'static str, pub E);

impl<'a, E: Expected<'a>> At<E> {
    /// The result for a value that is neither a list nor an object.
    fn checked(field: &'static str, value: Option<E::Value>) -> Found<E::Value> {
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
        Ok(Self::checked(self.0, self.1.boolean(is)))
    }

    fn visit_i64<X: Error>(self, _: i64) -> Result<Self::Value, X> {
        Ok(Self::checked(self.0, None))
    }

    fn visit_u64<X: Error>(self, _: u64) -> Result<Self::Value, X> {
        Ok(Self::checked(self.0, None))
    }

    fn visit_f64<X: Error>(self, _: f64) -> Result<Self::Value, X> {
        Ok(Self::checked(self.0, None))
    }

    fn visit_str<X: Error>(self, text: &str) -> Result<Self::Value, X> {
        Ok(Self::checked(self.0, self.1.text(text)))
    }

    fn visit_borrowed_str<X: Error>(self, text: &'a str) -> Result<Self::Value, X> {
        Ok(Self::checked(self.0, self.1.own_text(text)))
    }

    fn visit_seq<A: SeqAccess<'a>>(self, items: A) -> Result<Self::Value, A::Error> {
        self.1.list(self.0, items)
    }

    fn visit_map<A: MapAccess<'a>>(self, fields: A) -> Result<Self::Value, A::Error> {
        self.1.object(self.0, fields)
    }
}

/// The value of a required field.
pub fn required<T>(found: Found<T>, field: &'static str) -> Result<T, Malformed> {
    found.unwrap_or(Err(Malformed { field, expected: "an object" }))
}

/// The value of a string field; empty if it is absent, because Kubernetes does not distinguish the two.
pub fn text<'t>(found: &'t Found<Text<'_>>) -> Result<&'t str, Malformed> {
    match found {
        None => Ok(""),
        Some(Ok(text)) => Ok(text),
        Some(Err(malformed)) => Err(*malformed),
    }
}

pub struct AText;

impl<'a> Expected<'a> for AText {
    const IN_WORDS: &'static str = "a string";
    type Value = Text<'a>;

    fn text(self, text: &str) -> Option<Text<'a>> {
        Some(Cow::Owned(text.to_owned()))
    }

    fn own_text(self, text: &'a str) -> Option<Text<'a>> {
        Some(Cow::Borrowed(text))
    }
}

/// A string that is not needed.
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

/// An object; only some of its fields are kept.
pub trait Object<'a>: Sized {
    /// Reads or skips the value of a field.
    fn field<A: MapAccess<'a>>(&mut self, name: &str, value: &mut A) -> Result<(), A::Error>;
}

/// Implements [`Object`]: for each field its name in JSON, the struct field that keeps it, and the expected type.
macro_rules! object {
    ($type:ty, $path:literal, |$this:ident| $($name:literal => $field:ident: $expected:expr,)*) => {
        impl<'a> crate::json::Object<'a> for $type {
            fn field<A: serde::de::MapAccess<'a>>(&mut self, name: &str, value: &mut A) -> Result<(), A::Error> {
                match name {
                    $($name => {
                        let $this = &*self;
                        // Not every `$expected` uses the object.
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

/// Skips the value of a field.
pub fn pass<'a, A: MapAccess<'a>>(value: &mut A) -> Result<(), A::Error> {
    value.next_value::<IgnoredAny>().map(drop)
}

/// An object, read into this initial value.
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

/// A list of objects. [`ObjectList::put`] receives each item, or an error if the item is not an object.
pub trait ObjectList<'a>: Sized {
    /// The path of an item, for error messages.
    const ITEM: &'static str;
    type Item: Object<'a> + Default;

    fn put(&mut self, item: Result<Self::Item, Malformed>) -> Result<(), Malformed>;
}

/// A list, read into this initial value.
pub struct AList<L>(pub L);

impl<'a, L: ObjectList<'a>> Expected<'a> for AList<L> {
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

/// Labels or annotations: a map of strings. Only the wanted keys are kept.
pub struct Texts<'w>(pub &'w BTreeSet<&'w str>);

impl<'a, 'w> Expected<'a> for Texts<'w> {
    const IN_WORDS: &'static str = "a map of strings";
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
