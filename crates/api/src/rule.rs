//! A validation rule of a custom resource, in CEL for the API server and in Rust for our own checks.

use crate::{reservation, sequence, shared_rules};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::LazyLock;

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    pub rule: String,
    /// The error message if `message_expression` is absent or fails.
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_expression: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_path: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// The same condition in Rust; the error is the message that the API server would return.
    #[serde(skip)]
    check: Check,
}

#[derive(Clone, Copy, Debug)]
enum Check {
    Value(fn(&Value) -> Result<(), String>),
    /// Checks a change from the first value to the second. Accepts every new value.
    Change(fn(&Value, &Value) -> Result<(), String>),
}

impl Rule {
    pub fn new(
        rule: impl Into<String>,
        message: impl Into<String>,
        check: fn(&Value) -> Result<(), String>,
    ) -> Self {
        Self {
            rule: rule.into(),
            message: message.into(),
            message_expression: None,
            field_path: None,
            reason: None,
            check: Check::Value(check),
        }
    }

    /// A rule that uses `oldSelf`.
    pub fn on_change(
        rule: impl Into<String>,
        message: impl Into<String>,
        check: fn(&Value, &Value) -> Result<(), String>,
    ) -> Self {
        Self { check: Check::Change(check), ..Self::new(rule, message, |_| Ok(())) }
    }

    pub fn expression(self, expression: impl Into<String>) -> Self {
        Self { message_expression: Some(expression.into()), ..self }
    }

    /// The field that the rule is about, relative to the schema that it belongs to: `.start`.
    pub fn at(self, field_path: &'static str) -> Self {
        Self { field_path: Some(field_path), ..self }
    }

    pub fn reason(self, reason: &'static str) -> Self {
        Self { reason: Some(reason), ..self }
    }

    /// Checks `value`. `old` is the value that it replaces, if any.
    pub fn check(&self, value: &Value, old: Option<&Value>) -> Result<(), String> {
        match (self.check, old) {
            (Check::Value(check), _) => check(value),
            (Check::Change(check), Some(old)) => check(old, value),
            (Check::Change(_), None) => Ok(()),
        }
    }
}

/// Returns the rule that has this form in a definition.
pub fn rule(written: &Value) -> Option<&'static Rule> {
    // The key is the whole rule, because two rules may have the same condition with different messages.
    static ALL: LazyLock<BTreeMap<String, Rule>> = LazyLock::new(|| {
        let all = [shared_rules::all(), sequence::rules::all(), reservation::rules::all()];
        all.into_iter().flatten().map(|rule| (json!(rule).to_string(), rule)).collect()
    });
    ALL.get(&written.to_string())
}

pub fn has(object: &Value, field: &str) -> bool {
    object.get(field).is_some()
}

pub fn list<'a>(object: &'a Value, field: &str) -> &'a [Value] {
    object[field].as_array().map_or(&[], Vec::as_slice)
}

pub fn ensure(holds: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(message()) }
}
