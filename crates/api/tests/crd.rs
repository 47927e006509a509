//! The definition that is checked in, held against the types.

use serde_json::Value;

#[path = "../examples/generate-crd.rs"]
mod generate;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/crd/podsequence-crd.yaml");

#[test]
fn the_file_is_what_the_types_say() {
    let file = std::fs::read_to_string(FILE).unwrap();
    assert!(file == generate::text(), "config/crd/podsequence-crd.yaml is out of date: run `make manifests`");
}

/// Folding long texts must not change them.
#[test]
fn the_file_reads_back_as_the_definition() {
    let file: Value = serde_saphyr::from_str(&std::fs::read_to_string(FILE).unwrap()).unwrap();
    let definition = serde_json::to_value(rollcall_api::sequence::crd()).unwrap();
    let whole =
        |value: &Value| serde_json::from_str::<Value>(&value.to_string().replace(".0,", ",")).unwrap();
    assert!(whole(&file) == whole(&definition), "what is in the file is not what was written to it");
}

#[test]
fn every_field_has_a_description_and_none_is_nullable() {
    let definition = serde_json::to_value(rollcall_api::sequence::crd()).unwrap();
    let root = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let mut fields = 0;
    visit(root, "", &mut |path, schema| {
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
