//! What a request carries: an object that can be read, of the kind that its address says.

use super::patch::{self, Style};
use super::refusal::{Refusal, Wrong, WrongKind};
use super::route::Query;
use super::rules::ELIDED;
use super::{create, defaults};
use crate::kinds::Kind;
use serde_json::Value;

/// The object in a request.
pub fn object(kind: Kind, namespace: &str, query: &Query, body: &[u8]) -> Result<Value, Refusal> {
    let object = parse(body)?;
    create::check_envelope(kind, namespace, &object)?;
    if let Some(refusal) = defaults::undecodable(kind, &object) {
        return Err(refusal);
    }
    // Else they are dropped, and a warning says so, which nobody reads here.
    if query.get("fieldValidation") == "Strict"
        && let Some(refusal) = defaults::unknown_fields(kind, &object)
    {
        return Err(refusal);
    }
    Ok(object)
}

/// Applies a patch; what comes of it has to be readable.
pub fn patched(kind: Kind, style: Style, object: &mut Value, body: &[u8]) -> Result<(), Refusal> {
    patch::apply(style, object, body)?;
    match defaults::undecodable(kind, object) {
        None => Ok(()),
        Some(refusal) => {
            let detail = format!("{ELIDED}: {}", refusal.message);
            let wrong = Wrong { field: "patch".into(), kind: WrongKind::Invalid, detail };
            Err(Refusal::invalid_as("", "", "", &[wrong]))
        }
    }
}

pub fn parse(body: &[u8]) -> Result<Value, Refusal> {
    match serde_json::from_slice(body) {
        Ok(object @ Value::Object(_)) => Ok(object),
        Ok(_) => Err(Refusal::bad_request("couldn't get version/kind; json parse error: not an object")),
        Err(error) => {
            Err(Refusal::bad_request(format!("couldn't get version/kind; json parse error: {error}")))
        }
    }
}
