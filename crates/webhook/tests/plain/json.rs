//! Fields of JSON objects as Kubernetes interprets them: null means absent.

use serde_json::{Map, Value};

/// A field of the wrong type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is not {expected}")]
pub struct Malformed {
    pub field: String,
    pub expected: &'static str,
}

/// A JSON object and its path in the request.
#[derive(Clone, Copy)]
pub struct Fields<'a> {
    fields: &'a Map<String, Value>,
    path: &'a str,
}

impl<'a> Fields<'a> {
    pub fn new(value: &'a Value, path: &'a str) -> Result<Fields<'a>, Malformed> {
        match value {
            Value::Object(fields) => Ok(Fields { fields, path }),
            _ => Err(Malformed { field: path.to_owned(), expected: "an object" }),
        }
    }

    /// The field of that name, if it is set and not null.
    pub fn get(self, name: &str) -> Option<&'a Value> {
        self.fields.get(name).filter(|value| !value.is_null())
    }

    fn wrong(self, name: &str, expected: &'static str) -> Malformed {
        Malformed { field: format!("{}.{name}", self.path), expected }
    }

    /// A required object.
    pub fn object(self, name: &str, path: &'a str) -> Result<Fields<'a>, Malformed> {
        match self.get(name) {
            Some(Value::Object(fields)) => Ok(Fields { fields, path }),
            _ => Err(self.wrong(name, "an object")),
        }
    }

    /// A string; empty if it is absent, because Kubernetes does not distinguish the two.
    pub fn text(self, name: &str) -> Result<&'a str, Malformed> {
        match self.get(name) {
            None => Ok(""),
            Some(Value::String(text)) => Ok(text),
            Some(_) => Err(self.wrong(name, "a string")),
        }
    }

    /// A list, if it is set.
    pub fn list(self, name: &str) -> Result<Option<&'a [Value]>, Malformed> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items)),
            Some(_) => Err(self.wrong(name, "a list")),
        }
    }

    /// Labels or annotations, if they are set.
    pub fn texts(self, name: &str) -> Result<Option<Vec<(&'a str, &'a str)>>, Malformed> {
        let expected = "a map of strings";
        match self.get(name) {
            None => Ok(None),
            Some(Value::Object(map)) => {
                let pair = |(key, value): (&'a String, &'a Value)| Some((key.as_str(), value.as_str()?));
                let pairs: Option<Vec<_>> = map.iter().map(pair).collect();
                pairs.map(Some).ok_or_else(|| self.wrong(name, expected))
            }
            Some(_) => Err(self.wrong(name, expected)),
        }
    }
}
