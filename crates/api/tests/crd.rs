//! Tests of the definitions in the repository: they must agree with the types.

use rollcall_api::definition::{Custom, FILES};
use serde_json::Value;

#[path = "../examples/generate-crd.rs"]
mod generate;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/crd");

fn files() -> impl Iterator<Item = (&'static str, String, &'static [Custom])> {
    FILES.into_iter().map(|(name, customs)| {
        (name, std::fs::read_to_string(format!("{FOLDER}/{name}")).unwrap_or_default(), customs)
    })
}

#[test]
fn the_files_are_what_the_types_say() {
    for (name, text, customs) in files() {
        assert!(text == generate::text(customs), "config/crd/{name} is out of date: run `make manifests`");
    }
}

/// Tests that folding long texts does not change them.
#[test]
fn the_files_read_back_as_the_definitions() {
    let whole =
        |value: &Value| serde_json::from_str::<Value>(&value.to_string().replace(".0,", ",")).unwrap();
    for (name, text, customs) in files() {
        let read: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        assert_eq!(read.len(), customs.len(), "{name}");
        for (read, custom) in read.iter().zip(customs) {
            let definition = serde_json::to_value(custom.crd()).unwrap();
            assert!(
                whole(read) == whole(&definition),
                "{name}: the file does not read back as the definition"
            );
        }
    }
}

/// A definition is held in memory by every API server, and sent to every kubectl. `kubectl apply` also stores a copy in
/// an annotation, and all annotations of an object together may have 256 KiB.
#[test]
fn the_definitions_are_not_large() {
    for custom in Custom::ALL {
        let bytes = serde_json::to_string(&custom.crd()).unwrap().len();
        assert!(bytes < 128 * 1024, "{custom:?} has {bytes} bytes");
    }
}

#[test]
fn every_field_has_a_description_and_none_is_nullable() {
    for custom in Custom::ALL {
        let mut fields = 0;
        visit(&custom.open_api_schema(), "", &mut |path, schema| {
            fields += 1;
            assert!(schema["nullable"].is_null(), "{path} is nullable");
            let format = schema["format"].as_str().unwrap_or("int32");
            assert!(
                ["int32", "int64", "date-time"].contains(&format),
                "{path}: Kubernetes does not know {format}"
            );
            let described = schema["description"].as_str().is_some_and(|text| text.len() > 10);
            assert!(described, "{path} has no description");
        });
        assert!(fields > 60, "only {fields} fields were found");
    }
}

/// Tests that objects are bounded: every list, map and text that a user writes has a maximum size.
#[test]
fn everything_in_a_spec_has_a_bound() {
    for custom in Custom::ALL {
        let root = custom.open_api_schema();
        visit(&root["properties"]["spec"], "spec", &mut |path, schema| bounded(path, schema));
    }
}

fn bounded(path: &str, schema: &Value) {
    let bounded = match schema["type"].as_str() {
        Some("array") => {
            bounded(&format!("{path}[]"), &schema["items"]);
            schema["maxItems"].is_number()
        }
        Some("string") => schema["maxLength"].is_number() || schema["enum"].is_array(),
        Some("object") if schema["additionalProperties"].is_object() => {
            bounded(&format!("{path}.*"), &schema["additionalProperties"]);
            schema["maxProperties"].is_number()
        }
        None => schema["maxLength"].is_number(),
        Some(_) => true,
    };
    assert!(bounded, "{path} has no bound");
}

fn visit(schema: &Value, path: &str, see: &mut impl FnMut(&str, &Value)) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        see(&path, property);
        visit(property, &path, see);
    }
    if schema["items"].is_object() {
        visit(&schema["items"], &format!("{path}[]"), see);
    }
}
