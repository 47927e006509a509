use rollcall_api::names;
use serde_json::Value;

/// Every field of the PodSequence, with its type, default and description.
pub fn page() -> String {
    let crd = serde_json::to_value(rollcall_api::sequence::crd()).expect("a definition is plain data");
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let about = schema["description"].as_str().unwrap_or_default();
    let mut text = format!("# {}\n\n`{}`. {about}\n", names::SEQUENCE_KIND, names::SEQUENCE_API_VERSION);
    for part in ["spec", "status"] {
        text += &format!("\n## {part}\n\n| field | type | default | meaning |\n|---|---|---|---|\n");
        rows(part, &schema["properties"][part], &mut text);
    }
    text
}

fn rows(path: &str, schema: &Value, text: &mut String) {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        let default = match (&field["default"], required.contains(&name.as_str())) {
            (Value::Null, true) => "required".into(),
            (Value::Null, false) => String::new(),
            (Value::String(word), _) => format!("`{word}`"),
            (other, _) => format!("`{other}`"),
        };
        let meaning = cell(field["description"].as_str().unwrap_or_default());
        *text += &format!("| `{path}` | {} | {default} | {meaning} |\n", kind(field));
        let inner = if field["type"] == "array" { &field["items"] } else { field };
        let path = if field["type"] == "array" { format!("{path}[]") } else { path };
        // The conditions of Kubernetes are described by Kubernetes.
        if name != "conditions" {
            rows(&path, inner, text);
        }
    }
}

fn kind(field: &Value) -> String {
    if field["x-kubernetes-int-or-string"] == true {
        return "integer or string".into();
    }
    if let Some(words) = field["enum"].as_array() {
        let words = words.iter().filter_map(Value::as_str).map(|word| format!("`{word}`"));
        return words.collect::<Vec<_>>().join(", ");
    }
    match field["type"].as_str().unwrap_or("any") {
        "array" => format!("list of {}", kind(&field["items"])),
        "object" if field["additionalProperties"].is_object() => "map".into(),
        other => other.into(),
    }
}

/// Text that does not end a cell of a table.
fn cell(text: &str) -> String {
    text.replace("\n\n", "<br>").replace('\n', " ").replace('|', "\\|")
}
