//! What is sent for a decision: pure, from the action to the body of the request.

pub mod json;
mod node;
mod pod;
mod status;

pub use node::node;
pub use pod::{pod, toleration};
pub use status::status;

use serde_json::Value;

/// The body of a PATCH.
#[derive(Clone, Debug, PartialEq)]
pub struct Body {
    pub style: Style,
    pub value: Value,
}

/// How the API server is to read it.
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
