//! The API server's rejections of requests.

use crate::kinds::Kind;
use serde_json::{Value, json};
use std::fmt;

/// A `Status` with a failure.
#[derive(Clone, Debug)]
pub struct Refusal {
    pub code: u16,
    /// Empty for unexpected failures.
    pub reason: &'static str,
    pub message: String,
    pub details: Value,
}

/// An invalid field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    pub field: String,
    pub kind: WrongKind,
    /// The part of the message after the kind of error: the value, quoted if it is a string, and the expectation.
    pub detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrongKind {
    Required,
    Invalid,
    /// The type differs from the schema of the custom resource.
    TypeInvalid,
    Forbidden,
    Duplicate,
    NotSupported,
    NotFound,
    TooLong,
    TooMany,
}

impl WrongKind {
    /// The name in the `causes` of a status.
    fn reason(self) -> &'static str {
        match self {
            WrongKind::Required => "FieldValueRequired",
            WrongKind::Invalid => "FieldValueInvalid",
            WrongKind::TypeInvalid => "FieldValueTypeInvalid",
            WrongKind::Forbidden => "FieldValueForbidden",
            WrongKind::Duplicate => "FieldValueDuplicate",
            WrongKind::NotSupported => "FieldValueNotSupported",
            WrongKind::NotFound => "FieldValueNotFound",
            WrongKind::TooLong => "FieldValueTooLong",
            WrongKind::TooMany => "FieldValueTooMany",
        }
    }

    fn words(self) -> &'static str {
        match self {
            WrongKind::Required => "Required value",
            WrongKind::Invalid | WrongKind::TypeInvalid => "Invalid value",
            WrongKind::Forbidden => "Forbidden",
            WrongKind::Duplicate => "Duplicate value",
            WrongKind::NotSupported => "Unsupported value",
            WrongKind::NotFound => "Not found",
            WrongKind::TooLong => "Too long",
            WrongKind::TooMany => "Too many",
        }
    }
}

impl Wrong {
    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Wrong {
        Wrong { field: field.into(), kind: WrongKind::Required, detail: detail.into() }
    }

    /// An invalid value, given as JSON, with an explanation.
    pub fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Wrong {
        let detail = if detail.is_empty() { value.to_string() } else { format!("{value}: {detail}") };
        Wrong { field: field.into(), kind: WrongKind::Invalid, detail }
    }

    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Wrong {
        Wrong { field: field.into(), kind: WrongKind::Forbidden, detail: detail.into() }
    }

    pub fn duplicate(field: impl Into<String>, value: &Value) -> Wrong {
        Wrong { field: field.into(), kind: WrongKind::Duplicate, detail: value.to_string() }
    }

    pub fn not_supported(field: impl Into<String>, value: &Value, supported: &[&str]) -> Wrong {
        let list: Vec<String> = supported.iter().map(|one| format!("{one:?}")).collect();
        let detail = format!("{value}: supported values: {}", list.join(", "));
        Wrong { field: field.into(), kind: WrongKind::NotSupported, detail }
    }

    /// The message without the field, as in the `causes` of a status.
    fn body(&self) -> String {
        match self.detail.as_str() {
            "" => self.kind.words().to_owned(),
            detail => format!("{}: {detail}", self.kind.words()),
        }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

fn details(kind: Kind, name: &str) -> Value {
    let info = kind.info();
    let mut details = json!({ "kind": info.plural });
    if !name.is_empty() {
        details["name"] = name.into();
    }
    if !info.group.is_empty() {
        details["group"] = info.group.into();
    }
    details
}

impl Refusal {
    pub fn not_found(kind: Kind, name: &str) -> Refusal {
        Refusal {
            code: 404,
            reason: "NotFound",
            message: format!("{} {name:?} not found", kind.info().qualified()),
            details: details(kind, name),
        }
    }

    /// The names in the URL and in the object differ.
    pub fn other_name(said: &str, url: &str) -> Refusal {
        Refusal::bad_request(format!(
            "the name of the object ({said}) does not match the name on the URL ({url})"
        ))
    }

    pub fn already_exists(kind: Kind, name: &str) -> Refusal {
        Refusal {
            code: 409,
            reason: "AlreadyExists",
            message: format!("{} {name:?} already exists", kind.info().qualified()),
            details: details(kind, name),
        }
    }

    pub fn conflict(kind: Kind, name: &str, why: &str) -> Refusal {
        Refusal {
            code: 409,
            reason: "Conflict",
            message: format!("Operation cannot be fulfilled on {} {name:?}: {why}", kind.info().qualified()),
            details: details(kind, name),
        }
    }

    /// The write is based on an old version.
    pub fn modified(kind: Kind, name: &str) -> Refusal {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Refusal::conflict(kind, name, why)
    }

    pub fn forbidden(kind: Kind, name: &str, why: &str) -> Refusal {
        Refusal {
            code: 403,
            reason: "Forbidden",
            message: format!("{} {name:?} is forbidden: {why}", kind.info().qualified()),
            details: details(kind, name),
        }
    }

    /// A rejection by a webhook.
    pub fn denied(webhook: &str, why: &str) -> Refusal {
        let message = format!("admission webhook \"{webhook}\" denied the request: {why}");
        Refusal { code: 422, reason: "Invalid", message, details: Value::Null }
    }

    pub fn bad_request(message: impl Into<String>) -> Refusal {
        Refusal { code: 400, reason: "BadRequest", message: message.into(), details: Value::Null }
    }

    /// A failure without a specific answer of the API server.
    pub fn internal(message: impl Into<String>) -> Refusal {
        Refusal { code: 500, reason: "", message: message.into(), details: Value::Null }
    }

    pub fn invalid(kind: Kind, name: &str, wrong: &[Wrong]) -> Refusal {
        let info = kind.info();
        // Events are stored as the older kind of the core group, and rejected under its name.
        let group = if kind == Kind::Event { "" } else { info.group };
        Refusal::invalid_as(info.name, group, name, wrong)
    }

    /// Like [`Refusal::invalid`], for something that is not one of our kinds.
    pub fn invalid_as(kind: &str, group: &str, name: &str, wrong: &[Wrong]) -> Refusal {
        let list: Vec<String> = wrong.iter().map(Wrong::to_string).collect();
        let text = match list.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        // In these details, the API server names the kind instead of the resource.
        let mut details = json!({});
        for (field, value) in [("kind", kind), ("name", name), ("group", group)] {
            if !value.is_empty() {
                details[field] = value.into();
            }
        }
        let cause = |wrong: &Wrong| json!({ "reason": wrong.kind.reason(), "message": wrong.body(), "field": wrong.field });
        details["causes"] = wrong.iter().map(cause).collect();
        let what = match group {
            "" => kind.to_owned(),
            group => format!("{kind}.{group}"),
        };
        Refusal {
            code: 422,
            reason: "Invalid",
            message: format!("{what} {name:?} is invalid: {text}"),
            details,
        }
    }

    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}
