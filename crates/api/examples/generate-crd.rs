//! Writes the CustomResourceDefinitions to a folder, as `config/crd` has them.

use rollcall_api::definition::{Custom, FILES};
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_saphyr::FoldStr;

const HEADER: &str = "\
# Generated from crates/api/src by `make manifests`. Do not edit.
";

/// The longest text that stays on the line of its key.
const WIDTH: usize = 80;

/// Definitions as YAML, one document each.
pub fn text(customs: &[Custom]) -> String {
    let documents: Vec<String> = customs.iter().map(|custom| document(*custom)).collect();
    HEADER.to_owned() + &documents.join("---\n")
}

fn document(custom: Custom) -> String {
    let crd = serde_json::to_value(custom.crd()).expect("a definition is plain data");
    let options = serde_saphyr::ser_options! { folded_wrap_chars: 110, compact_list_indent: true };
    let mut text = String::new();
    serde_saphyr::to_fmt_writer_with_options(&mut text, &Readable(&crd), options).expect("YAML is text");
    // A folded text ends with a line break unless it says otherwise, and the writer has no way to say it.
    text.replace(": >\n", ": >-\n")
}

/// JSON, to be written as YAML that a person can read: long texts are folded, and whole numbers are whole (bounds
/// are floating-point numbers in Kubernetes' own types).
struct Readable<'a>(&'a Value);

impl Serialize for Readable<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::String(text) if text.len() > WIDTH && text.contains(' ') => {
                FoldStr(text).serialize(serializer)
            }
            Value::Number(number) => match number.as_f64() {
                Some(float) if float.fract() == 0.0 => serializer.serialize_i64(float as i64),
                _ => number.serialize(serializer),
            },
            Value::Array(items) => serializer.collect_seq(items.iter().map(Readable)),
            Value::Object(fields) => {
                serializer.collect_map(fields.iter().map(|(name, value)| (name, Readable(value))))
            }
            Value::Null | Value::Bool(_) | Value::String(_) => self.0.serialize(serializer),
        }
    }
}

#[allow(dead_code)] // The drift test includes this file as a module.
fn main() -> std::io::Result<()> {
    let folder = std::env::args().nth(1).expect("the folder to write to");
    FILES.iter().try_for_each(|(file, customs)| std::fs::write(format!("{folder}/{file}"), text(customs)))
}
