//! The effect of decoding an object into the API server's types and encoding it again.
//!
//! Unknown fields, nulls and invalid values (see [`super::undecodable`]) are dropped. Empty values are omitted, unless the
//! type always writes them. Quantities are converted to canonical form. `shapes.txt` contains the types; it is generated
//! from the Go types, see `crates/sim/shapes`.

use super::quantity;
use crate::kinds::Kind;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::{LazyLock, OnceLock};

/// The type of a value.
#[derive(Debug)]
pub(super) enum Type {
    String,
    Bool,
    /// With its Go type: `int32` or `int64`.
    Number(&'static str),
    Quantity,
    /// With its layout. Written as null if it is empty and must be written.
    Time(&'static str),
    IntOrString,
    /// Any value, unchanged.
    Raw,
    Pointer(Box<Type>),
    List(Box<Type>),
    Map(Box<Type>),
    Struct(Struct),
}

/// A struct type, referred to by its name.
#[derive(Debug)]
pub(super) struct Struct {
    pub name: &'static str,
    fields: OnceLock<&'static [Field]>,
}

impl Struct {
    pub fn fields(&self) -> &'static [Field] {
        self.fields.get_or_init(|| fields_of(self.name))
    }
}

#[derive(Debug)]
pub(super) struct Field {
    pub name: &'static str,
    /// Whether the field is written even when it is empty.
    always: bool,
    pub of: Type,
}

/// The fields of a type; empty if the type is unknown.
pub(super) fn fields_of(name: &str) -> &'static [Field] {
    SHAPES.get(name).map_or(&[], Vec::as_slice)
}

impl Type {
    /// Whether a value has this type. Does not check nested values.
    pub(super) fn fits(&self, value: &Value) -> bool {
        match self {
            Type::String | Type::Time(_) => value.is_string(),
            Type::Bool => value.is_boolean(),
            Type::Number("int32") => value.as_i64().is_some_and(|number| i32::try_from(number).is_ok()),
            Type::Number(_) => value.is_i64(),
            Type::Quantity => value.is_string() || value.is_number(),
            Type::IntOrString => value.is_string() || Type::Number("int32").fits(value),
            Type::Raw => true,
            Type::Pointer(inner) => inner.fits(value),
            Type::List(_) => value.is_array(),
            Type::Map(_) | Type::Struct(_) => value.is_object(),
        }
    }
}

static SHAPES: LazyLock<BTreeMap<&'static str, Vec<Field>>> = LazyLock::new(|| {
    let line = |line: &'static str| {
        let mut words = line.split(' ');
        words.next().map(|name| (name, words.filter_map(field).collect()))
    };
    include_str!("shapes.txt").lines().filter_map(line).collect()
});

fn field(word: &'static str) -> Option<Field> {
    let (name, of) = word.split_once(':')?;
    let (name, always) = name.strip_suffix('!').map_or((name, false), |name| (name, true));
    Some(Field { name, always, of: type_named(of) })
}

fn type_named(text: &'static str) -> Type {
    if let Some(rest) = text.strip_prefix('*') {
        return Type::Pointer(Box::new(type_named(rest)));
    }
    if let Some(rest) = text.strip_prefix("[]") {
        return Type::List(Box::new(type_named(rest)));
    }
    if let Some(rest) = text.strip_prefix("{}") {
        return Type::Map(Box::new(type_named(rest)));
    }
    match text {
        "string" | "bytes" => Type::String,
        "bool" => Type::Bool,
        "int32" | "int64" => Type::Number(text),
        "quantity" => Type::Quantity,
        "time" => Type::Time("2006-01-02T15:04:05Z07:00"),
        "microtime" => Type::Time("2006-01-02T15:04:05.000000Z07:00"),
        "intstr" => Type::IntOrString,
        "raw" => Type::Raw,
        name => Type::Struct(Struct { name, fields: OnceLock::new() }),
    }
}

/// Converts an object of a built-in kind to canonical form. Custom resources have a schema for this purpose.
pub fn canonical(kind: Kind, object: &mut Value) {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    if kind.custom().is_none() {
        shape(kind.info().name, object);
    }
}

/// Like [`canonical`], for one field of an object.
pub(super) fn part(kind: Kind, name: &str, object: &mut Value) {
    let field = fields_of(kind.info().name).iter().find(|field| field.name == name);
    if let (Some(field), Some(value)) = (field, object.get_mut(name)) {
        tidy(&field.of, value);
    }
}

/// Like [`canonical`], for a part of an object with the given type.
pub(super) fn shape(name: &str, value: &mut Value) {
    structure(fields_of(name), value);
}

fn structure(fields: &[Field], value: &mut Value) {
    let Some(object) = value.as_object_mut() else { return };
    object.retain(|name, value| {
        let field = fields.iter().find(|field| field.name == name);
        let Some(field) = field.filter(|field| field.of.fits(value)) else { return false };
        tidy(&field.of, value);
        field.always || !is_empty(&field.of, value)
    });
    for field in fields.iter().filter(|field| field.always) {
        if !object.contains_key(field.name) {
            object.insert(field.name.to_owned(), empty(&field.of));
        }
    }
}

fn tidy(of: &Type, value: &mut Value) {
    match of {
        Type::Pointer(inner) => tidy(inner, value),
        Type::List(inner) => {
            for item in value.as_array_mut().into_iter().flatten() {
                // A null element is decoded as an empty one.
                if !inner.fits(item) {
                    *item = empty(inner);
                }
                tidy(inner, item);
            }
        }
        Type::Map(inner) => {
            for (_, value) in value.as_object_mut().into_iter().flatten() {
                if !inner.fits(value) {
                    *value = empty(inner);
                }
                tidy(inner, value);
                // Resource amounts are rounded up to thousandths.
                if matches!(**inner, Type::Quantity) {
                    quantity::round_up_to_milli(value);
                }
            }
        }
        Type::Struct(of) => structure(of.fields(), value),
        Type::Quantity => quantity::canonicalize(value),
        Type::String | Type::Bool | Type::Number(_) | Type::Time(_) | Type::IntOrString | Type::Raw => {}
    }
}

/// Whether `omitempty` omits the value.
fn is_empty(of: &Type, value: &Value) -> bool {
    match of {
        // These are omitted only if absent.
        Type::Pointer(_) | Type::Raw | Type::IntOrString | Type::Quantity => false,
        Type::String => value.as_str() == Some(""),
        Type::Bool => *value == Value::Bool(false),
        Type::Number(_) => value.as_i64() == Some(0),
        Type::List(_) => value.as_array().is_some_and(Vec::is_empty),
        Type::Map(_) => value.as_object().is_some_and(Map::is_empty),
        Type::Struct(_) => value.as_object().is_some_and(Map::is_empty),
        Type::Time(_) => value.is_null(),
    }
}

fn empty(of: &Type) -> Value {
    match of {
        Type::String => "".into(),
        Type::Bool => false.into(),
        Type::Number(_) | Type::IntOrString => 0.into(),
        Type::Quantity => "0".into(),
        Type::Time(_) | Type::Raw | Type::Pointer(_) | Type::List(_) | Type::Map(_) => Value::Null,
        Type::Struct(of) => {
            let mut value = Value::Object(Map::new());
            structure(of.fields(), &mut value);
            value
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_type_is_in_the_table() {
        fn check(of: &Type) {
            match of {
                Type::Pointer(inner) | Type::List(inner) | Type::Map(inner) => check(inner),
                Type::Struct(of) => assert!(SHAPES.contains_key(of.name), "{}", of.name),
                _ => {}
            }
        }
        SHAPES.values().flatten().for_each(|field| check(&field.of));
        for kind in Kind::all().filter(|kind| kind.custom().is_none()) {
            assert!(SHAPES.contains_key(kind.info().name), "{kind:?}");
        }
    }

    #[test]
    fn empty_values_are_left_out_or_written() {
        let mut pod = json!({ "metadata": { "labels": {}, "uid": null }, "nonsense": 1, "spec": {
            "hostNetwork": false, "nodeSelector": {}, "volumes": [{ "name": "v", "emptyDir": {} }],
            "enableServiceLinks": false,
            "containers": [{ "name": "c", "resources": { "limits": { "cpu": 0.5, "memory": "1024Mi" } } }],
        } });
        canonical(Kind::Pod, &mut pod);
        let expected = json!({ "metadata": {}, "status": {}, "spec": {
            "volumes": [{ "name": "v", "emptyDir": {} }], "enableServiceLinks": false,
            "containers": [{ "name": "c", "resources": { "limits": { "cpu": "500m", "memory": "1Gi" } } }],
        } });
        assert_eq!(pod, expected);
    }
}
