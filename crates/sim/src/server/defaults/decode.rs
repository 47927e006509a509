//! Objects that cannot be decoded into the types of the API server.

use super::quantity;
use super::shape::{Field, Type, fields_of};
use crate::kinds::Kind;
use crate::server::refusal::Refusal;
use rollcall_api::check;
use serde_json::Value;
use std::fmt::{self, Display, Formatter};

/// The rejection of an object that cannot be decoded. Must be called before [`super::fill`], which drops invalid values.
///
/// Go types are named by their shape: `string` where the API server says `v1.RestartPolicy`.
pub fn undecodable(kind: Kind, object: &Value) -> Option<Refusal> {
    let why = match kind.custom() {
        // The schema of a custom resource checks its other fields.
        Some(_) => object.get("metadata").and_then(|metadata| whole("ObjectMeta", metadata)),
        None => whole(kind.info().name, object).or_else(|| no_base64(kind, object)),
    };
    Some(unhandled(kind, &why?))
}

/// Checks binary data, which must be base64.
fn no_base64(kind: Kind, object: &Value) -> Option<String> {
    let field = match kind {
        Kind::Secret => "data",
        Kind::ConfigMap => "binaryData",
        _ => return None,
    };
    let wrong = |text: &str| {
        let letter =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'\n' | b'\r');
        text.bytes().position(|byte| !letter(byte)).or((!text.len().is_multiple_of(4)).then_some(text.len()))
    };
    let at = object[field].as_object()?.values().filter_map(Value::as_str).find_map(wrong)?;
    Some(format!("illegal base64 data at input byte {at}"))
}

/// The rejection of an object with unknown fields, for requests with `fieldValidation=Strict`.
pub fn unknown_fields(kind: Kind, object: &Value) -> Option<Refusal> {
    let mut unknown = Vec::new();
    match kind.custom() {
        Some(custom) => {
            for part in ["spec", "status"] {
                let schema = custom.schema().property(part).into_iter();
                schema.for_each(|schema| check::unknown_fields(schema, &object[part], part, &mut unknown));
            }
        }
        None => unknown_in(fields_of(kind.info().name), object, "", &mut unknown),
    }
    let list: Vec<String> = unknown.iter().map(|field| format!("unknown field {field:?}")).collect();
    (!list.is_empty()).then(|| unhandled(kind, &format!("strict decoding error: {}", list.join(", "))))
}

fn unhandled(kind: Kind, why: &str) -> Refusal {
    let info = kind.info();
    let (name, version) = (info.name, info.version);
    Refusal::bad_request(format!("{name} in version {version:?} cannot be handled as a {name}: {why}"))
}

/// A path in an object. It is formatted only when a message needs it.
#[derive(Clone, Copy)]
struct Path<'a> {
    above: Option<&'a Path<'a>>,
    field: &'a str,
}

impl Display for Path<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.above {
            Some(above) => write!(f, "{above}.{}", self.field),
            None => f.write_str(self.field),
        }
    }
}

fn whole(name: &str, value: &Value) -> Option<String> {
    structure(name, fields_of(name), value, None)
}

/// The first invalid field, in the order of the type.
fn structure(name: &str, fields: &[Field], value: &Value, above: Option<&Path<'_>>) -> Option<String> {
    let wrong = value.as_object()?.iter().filter_map(|(field, value)| {
        let at = fields.iter().position(|known| known.name == field)?;
        Some((at, misfit(&fields[at].of, value, name, &Path { above, field })?))
    });
    wrong.min_by_key(|(at, _)| *at).map(|(_, why)| why)
}

fn misfit(of: &Type, value: &Value, within: &str, path: &Path<'_>) -> Option<String> {
    if value.is_null() {
        return None;
    }
    if !of.fits(value) {
        let given = match value {
            // The message shows a number only if another number would be valid.
            Value::Number(number) if of.fits(&0.into()) => format!("number {number}"),
            value => json_kind(value).to_owned(),
        };
        let of = go_type(of);
        return Some(format!(
            "json: cannot unmarshal {given} into Go struct field {within}.{path} of type {of}"
        ));
    }
    match of {
        Type::Pointer(inner) => misfit(inner, value, within, path),
        Type::List(inner) => {
            value.as_array().into_iter().flatten().find_map(|item| misfit(inner, item, within, path))
        }
        Type::Map(inner) => {
            let mut values = value.as_object().into_iter().flatten();
            values.find_map(|(_, value)| misfit(inner, value, within, path))
        }
        Type::Struct(of) => structure(of.name, of.fields(), value, Some(path)),
        Type::Quantity if quantity::parse(value).is_none() => {
            let regex = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$";
            Some(format!("quantities must match the regular expression '{regex}'"))
        }
        Type::Time(layout) => {
            let text = value.as_str().unwrap_or_default();
            let wrong = text.parse::<jiff::Timestamp>().is_err();
            wrong.then(|| format!("parsing time {text:?} as {layout:?}: cannot parse {text:?} as \"2006\""))
        }
        _ => None,
    }
}

fn unknown_in(fields: &[Field], value: &Value, path: &str, unknown: &mut Vec<String>) {
    for (key, value) in value.as_object().into_iter().flatten() {
        let path = join(path, key);
        match fields.iter().find(|field| field.name == key) {
            None => unknown.push(path),
            Some(field) => unknown_below(&field.of, value, &path, unknown),
        }
    }
}

fn unknown_below(of: &Type, value: &Value, path: &str, unknown: &mut Vec<String>) {
    match of {
        Type::Pointer(inner) => unknown_below(inner, value, path, unknown),
        Type::List(inner) => {
            for (at, item) in value.as_array().into_iter().flatten().enumerate() {
                unknown_below(inner, item, &format!("{path}[{at}]"), unknown);
            }
        }
        Type::Map(inner) => {
            for (key, value) in value.as_object().into_iter().flatten() {
                unknown_below(inner, value, &join(path, key), unknown);
            }
        }
        Type::Struct(of) => unknown_in(of.fields(), value, path, unknown),
        _ => {}
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn go_type(of: &Type) -> String {
    match of {
        Type::String => "string".into(),
        Type::Bool => "bool".into(),
        Type::Number(name) => (*name).into(),
        Type::IntOrString => "int32".into(),
        Type::Quantity => "resource.Quantity".into(),
        Type::Time(_) => "v1.Time".into(),
        Type::Raw => "runtime.RawExtension".into(),
        Type::Pointer(inner) => go_type(inner),
        Type::List(inner) => format!("[]{}", go_type(inner)),
        Type::Map(inner) => format!("map[string]{}", go_type(inner)),
        Type::Struct(of) => format!("v1.{}", of.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The message of API server 1.36. The recorded cases are sent without `fieldValidation=Strict`.
    #[test]
    fn unknown_fields_are_named_with_their_places() {
        let pod = json!({
            "metadata": { "x": 1 }, "spec": { "containers": [{ "name": "c", "y": 2 }], "nodeSelector": { "z": "a" } },
            "z": 1,
        });
        let words = "Pod in version \"v1\" cannot be handled as a Pod: strict decoding error: unknown field \
                     \"metadata.x\", unknown field \"spec.containers[0].y\", unknown field \"z\"";
        assert_eq!(unknown_fields(Kind::Pod, &pod).map(|refusal| refusal.message).as_deref(), Some(words));
        let sequence = json!({ "spec": { "nope": 1 } });
        let words = "PodSequence in version \"v1alpha1\" cannot be handled as a PodSequence: strict decoding error: \
                     unknown field \"spec.nope\"";
        let refusal = unknown_fields(Kind::PodSequence, &sequence);
        assert_eq!(refusal.map(|refusal| refusal.message).as_deref(), Some(words));
        assert!(unknown_fields(Kind::Pod, &json!({ "kind": "Pod", "spec": {} })).is_none());
    }
}
