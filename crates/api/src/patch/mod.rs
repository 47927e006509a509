//! The request bodies for the actions of a decision. Pure functions.

pub mod json;
mod node;
mod pod;
mod status;

pub use node::node;
pub use pod::{pod, toleration};
pub use status::status;

use rollcall_core::Uid;
use rollcall_core::planted::{Bug, planted};
use serde_json::{Value, json};

/// The body of a PATCH.
#[derive(Clone, Debug, PartialEq)]
pub struct Body {
    pub style: Style,
    pub value: Value,
}

/// The body of a DELETE of the object with this uid; `at_once` sets the grace period to 0.
pub fn delete_options(uid: Option<Uid>, at_once: bool) -> Value {
    let mut options = json!({ "apiVersion": "v1", "kind": "DeleteOptions" });
    if let Some(uid) = uid.filter(|_| !planted(Bug::NoUidInDeletion)) {
        options["preconditions"] = json!({ "uid": uid.to_string() });
    }
    if at_once {
        options["gracePeriodSeconds"] = 0.into();
    }
    options
}

/// The patch format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    StrategicMerge,
    Merge,
    Json,
}

impl Style {
    pub fn content_type(self) -> &'static str {
        match self {
            Style::StrategicMerge => "application/strategic-merge-patch+json",
            Style::Merge => "application/merge-patch+json",
            Style::Json => "application/json-patch+json",
        }
    }
}
