//! A field of an object with its path, so that a finding can point at it.

use super::manifests::Object;
use crate::commands::simulate::source_spans::PathSegment;
use serde_json::Value;
use std::fmt::Write;

/// A field, which may be missing: then its value and all values below it are null.
#[derive(Clone, Debug)]
pub struct Field<'a> {
    pub object: &'a Object,
    pub value: &'a Value,
    path: Vec<PathSegment>,
}

impl<'a> Field<'a> {
    pub fn root(object: &'a Object) -> Field<'a> {
        Field { object, value: &object.value, path: Vec::new() }
    }

    pub fn get(&self, key: &str) -> Field<'a> {
        self.below(PathSegment::Key(key.to_owned()), &self.value[key])
    }

    /// Returns the field at a path of keys, such as `spec.template.spec`.
    pub fn down(&self, keys: &str) -> Field<'a> {
        keys.split('.').fold(self.clone(), |field, key| field.get(key))
    }

    pub fn items(&self) -> Vec<Field<'a>> {
        let items = self.value.as_array().into_iter().flatten().enumerate();
        items.map(|(number, item)| self.below(PathSegment::Item(number), item)).collect()
    }

    pub fn entries(&self) -> Vec<(&'a str, Field<'a>)> {
        let entries = self.value.as_object().into_iter().flatten();
        entries.map(|(key, value)| (key.as_str(), self.below(PathSegment::Key(key.clone()), value))).collect()
    }

    /// Returns the field at a path in the notation of the API server, such as `spec.containers[0].image`. Keys that contain a dot
    /// are not supported.
    pub fn along(&self, path: &str) -> Field<'a> {
        let words = path.split(['.', '[']).map(|word| word.trim_end_matches(']'));
        words.filter(|word| !word.is_empty()).fold(self.clone(), |field, word| match word.parse() {
            Ok(number) if field.value.is_array() => {
                field.below(PathSegment::Item(number), &field.value[number])
            }
            Ok(_) | Err(_) => field.get(word),
        })
    }

    fn below(&self, segment: PathSegment, value: &'a Value) -> Field<'a> {
        let mut path = self.path.clone();
        path.push(segment);
        Field { object: self.object, value, path }
    }

    pub fn is_missing(&self) -> bool {
        self.value.is_null()
    }

    /// The value as text; empty if it is not a string.
    pub fn text(&self) -> &'a str {
        self.value.as_str().unwrap_or_default()
    }

    /// The value as a number, clamped to `int32`, so that sums cannot overflow. Kubernetes rejects larger numbers anyway.
    pub fn number(&self) -> Option<i64> {
        self.value.as_i64().map(|number| number.clamp(i32::MIN.into(), i32::MAX.into()))
    }

    pub fn is_true(&self) -> bool {
        self.value == &Value::Bool(true)
    }

    pub fn path(&self) -> &[PathSegment] {
        &self.path
    }

    /// The path in the notation of the API server.
    pub fn shown(&self) -> String {
        let mut text = String::new();
        for segment in &self.path {
            let written = match segment {
                PathSegment::Document(_) => Ok(()),
                PathSegment::Key(key) if text.is_empty() => write!(text, "{key}"),
                PathSegment::Key(key) => write!(text, ".{key}"),
                PathSegment::Item(number) => write!(text, "[{number}]"),
            };
            written.expect("a String takes everything");
        }
        text
    }
}
