//! Prints the CustomResourceDefinition, as `config/crd/podsequence-crd.yaml` has it.

use serde_json::Value;

const HEADER: &str = "\
# Generated from crates/api/src/sequence by `make manifests`. Do not edit.
";

/// The definition as YAML.
pub fn text() -> String {
    let crd = serde_json::to_value(rollcall_api::sequence::crd()).expect("a definition is plain data");
    let mut options = serde_saphyr::ser_options! { folded_wrap_chars: 110 };
    options.compact_list_indent = true;
    let mut text = HEADER.to_owned();
    serde_saphyr::to_fmt_writer_with_options(&mut text, &whole_numbers(crd), options).expect("YAML is text");
    text
}

/// `minimum: 1` and not `minimum: 1.0`: bounds are floating-point numbers in Kubernetes' own types.
fn whole_numbers(value: Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if float.fract() == 0.0 => Value::from(float as i64),
            _ => Value::Number(number),
        },
        Value::Array(items) => items.into_iter().map(whole_numbers).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (name, whole_numbers(value))).collect()
        }
        Value::Null | Value::Bool(_) | Value::String(_) => value,
    }
}

#[allow(dead_code)] // The drift test includes this file as a module.
fn main() {
    print!("{}", text());
}
