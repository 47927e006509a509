use rollcall_api::definition::Custom;
use serde_json::Value;

/// Every field of a custom resource, with its type, default and description.
pub fn page(custom: Custom) -> String {
    let crd = serde_json::to_value(custom.crd()).expect("a definition is plain data");
    let version = &crd["spec"]["versions"][0];
    let schema = &version["schema"]["openAPIV3Schema"];
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, version, about) =
        (word(&crd["spec"]["group"]), word(&version["name"]), word(&schema["description"]));
    let mut text = format!("# {}\n\n`{group}/{version}`. {about}\n", custom.kind());
    for part in ["spec", "status"] {
        text += &format!("\n## {part}\n\n| field | type | default | meaning |\n|---|---|---|---|\n");
        rows(custom, part, &schema["properties"][part], &mut text);
    }
    text
}

fn rows(custom: Custom, path: &str, schema: &Value, text: &mut String) {
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
        let mut meaning = cell(field["description"].as_str().unwrap_or_default());
        let template_of = template(custom, &path);
        if let Some(other) = template_of {
            meaning += &format!(" See [{}]({}).", other.kind(), file(other));
        }
        *text += &format!("| `{path}` | {} | {default} | {meaning} |\n", kind(field));
        let inner = if field["type"] == "array" { &field["items"] } else { field };
        let path = if field["type"] == "array" { format!("{path}[]") } else { path };
        // The fields of standard Kubernetes conditions are documented by Kubernetes.
        if name != "conditions" && template_of.is_none() {
            rows(custom, &path, inner, text);
        }
    }
}

/// Returns the kind whose spec is embedded at this path; its fields have a page of their own.
fn template(custom: Custom, path: &str) -> Option<Custom> {
    (custom == Custom::Order && path == "spec.template.spec").then_some(Custom::Ticket)
}

/// Returns the file name of the page.
pub fn file(custom: Custom) -> &'static str {
    match custom {
        Custom::PodSequence => "podsequence.md",
        Custom::Order => "order.md",
        Custom::Ticket => "ticket.md",
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

/// Escapes text for a cell of a Markdown table.
fn cell(text: &str) -> String {
    text.replace("\n\n", "<br>").replace('\n', " ").replace('|', "\\|")
}
