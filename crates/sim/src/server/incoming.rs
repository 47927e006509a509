//! Parses the object of a request and checks its kind.

use super::patch::{self, Style};
use super::refusal::{Refusal, Wrong, WrongKind};
use super::route::Query;
use super::rules::ELIDED;
use super::{create, defaults};
use crate::kinds::Kind;
use crate::store::Key;
use serde_json::Value;

/// Parses the object of a request.
pub fn object(kind: Kind, namespace: &str, query: &Query, body: &[u8]) -> Result<Value, Refusal> {
    let object = parse(body).map_err(|refusal| unrecognized(kind, &refusal.message, body))?;
    // Only custom resources need an explicit kind.
    if kind.custom().is_some() && object["kind"].as_str().is_none_or(str::is_empty) {
        let why = format!("Object 'Kind' is missing in '{}'", String::from_utf8_lossy(body));
        return Err(unrecognized(kind, &why, body));
    }
    create::check_envelope(kind, namespace, &object)?;
    if let Some(refusal) = defaults::undecodable(kind, &object) {
        return Err(refusal);
    }
    // Otherwise unknown fields are dropped. The API server sends a warning, which the simulation omits.
    if query.get("fieldValidation") == "Strict"
        && let Some(refusal) = defaults::unknown_fields(kind, &object)
    {
        return Err(refusal);
    }
    Ok(object)
}

/// Applies a patch. The result must be decodable.
pub fn patched(key: &Key, style: Style, object: &mut Value, body: &[u8]) -> Result<(), Refusal> {
    patch::apply(style, object, body)?;
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    if text("name") != &*key.name {
        return Err(Refusal::other_name(text("name"), &key.name));
    }
    if text("namespace") != &*key.namespace {
        let message = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Refusal::bad_request(message));
    }
    create::check_envelope(key.kind, &key.namespace, object)?;
    match defaults::undecodable(key.kind, object) {
        None => Ok(()),
        Some(refusal) => {
            // In this case the message omits the kind.
            let why = refusal.message.splitn(3, ": ").skip(1).collect::<Vec<_>>().join(": ");
            let detail = format!("{ELIDED}: {why}");
            let wrong = Wrong { field: "patch".into(), kind: WrongKind::Invalid, detail };
            Err(Refusal::invalid_as("", "", "", &[wrong]))
        }
    }
}

/// Parses a JSON object.
pub fn parse(body: &[u8]) -> Result<Value, Refusal> {
    match serde_json::from_slice(body) {
        Ok(object @ Value::Object(_)) => Ok(object),
        Ok(_) => {
            Err(Refusal::bad_request(format!("couldn't get version/kind; json parse error: {NO_OBJECT}")))
        }
        Err(error) => {
            let why = match error.is_eof() {
                true => "unexpected end of JSON input".to_owned(),
                false => error.to_string(),
            };
            Err(Refusal::bad_request(format!("couldn't get version/kind; json parse error: {why}")))
        }
    }
}

/// Go's message for JSON that is not an object.
const NO_OBJECT: &str = "json: cannot unmarshal array into Go value of type struct { APIVersion string \
                         \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }";

/// Limit of bytes of an undecodable body that the message shows.
const SHOWN: usize = 30;

fn unrecognized(kind: Kind, why: &str, body: &[u8]) -> Refusal {
    let (start, more) = match body.len() > SHOWN {
        true => (&body[..SHOWN], " ..."),
        false => (body, ""),
    };
    let shown = match start.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(start).into_owned(),
        Some(_) => start.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    let name = kind.info().name;
    Refusal::bad_request(format!(
        "the object provided is unrecognized (must be of type {name}): {why} ({shown}{more})"
    ))
}
