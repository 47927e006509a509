//! Which bounds and rules of the definition no case breaks.

use crate::corpus::Case;
use serde_json::Value;

/// One line for each keyword of the schema of `spec` that no case is about.
pub fn missing(cases: &[Case]) -> Vec<String> {
    let definition = serde_json::to_value(rollcall_api::sequence::crd()).unwrap();
    let spec = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let mut duties = Vec::new();
    collect(spec, "spec", &mut duties);
    assert!(duties.len() > 60, "only {} bounds and rules were found", duties.len());
    let unmet = duties.iter().filter(|duty| !cases.iter().any(|case| duty.is_met_by(case)));
    unmet.map(|duty| format!("{}: {}", duty.field, duty.words)).collect()
}

/// Something that the API server says of a field.
struct Duty {
    /// Without indices and keys: `spec.podGroups[].pods[]`.
    field: String,
    /// Words that are in every message of this kind, and in no other about the same field.
    words: String,
}

impl Duty {
    fn is_met_by(&self, case: &Case) -> bool {
        self.field == without_indices(&case.field, &self.field) && case.message.contains(&self.words)
    }
}

/// `field` in the form of a duty. The key of a map counts as an index where `like` has one.
fn without_indices(field: &str, like: &str) -> String {
    let mut plain = String::new();
    let mut inside = false;
    for c in field.chars() {
        match c {
            '[' => {
                inside = true;
                plain.push('[');
            }
            ']' => {
                inside = false;
                plain.push(']');
            }
            _ if inside => {}
            _ => plain.push(c),
        }
    }
    match like.strip_suffix(".*").filter(|map| plain.starts_with(*map) && plain.len() > map.len()) {
        Some(map) => format!("{map}.*"),
        None => plain,
    }
}

fn collect(schema: &Value, field: &str, duties: &mut Vec<Duty>) {
    let mut add = |words: &str| duties.push(Duty { field: field.to_owned(), words: words.to_owned() });
    for (keyword, words) in [
        ("enum", "Unsupported value"),
        ("pattern", "should match"),
        ("maxLength", "Too long"),
        ("minItems", "should have at least"),
        ("maxItems", "Too many"),
        ("maxProperties", "Too many"),
        ("minimum", "should be greater than or equal to"),
        ("maximum", "should be less than or equal to"),
    ] {
        if schema.get(keyword).is_some() {
            add(words);
        }
    }
    for known in
        schema.as_object().unwrap().keys().filter(|name| name.starts_with("min") || name.starts_with("max"))
    {
        let expected = ["minItems", "maxItems", "maxLength", "maxProperties", "minimum", "maximum"];
        assert!(expected.contains(&known.as_str()), "{field}: say here how {known} is reported");
    }
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        let field = format!("{field}{}", rule["fieldPath"].as_str().unwrap_or_default());
        duties.push(Duty { field, words: telling_words(rule) });
    }
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        duties.push(Duty { field: format!("{field}.{name}"), words: "Required value".into() });
    }
    if schema["x-kubernetes-list-type"] == "set" {
        duties.push(Duty { field: format!("{field}[]"), words: "Duplicate value".into() });
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        collect(property, &format!("{field}.{name}"), duties);
    }
    for (child, suffix) in [("items", "[]"), ("additionalProperties", ".*")] {
        if schema[child].is_object() {
            collect(&schema[child], &format!("{field}{suffix}"), duties);
        }
    }
}

/// What a rule says whatever the values are: its message, or the longest text within its expression for one.
fn telling_words(rule: &Value) -> String {
    let Some(expression) = rule["messageExpression"].as_str() else {
        return rule["message"].as_str().unwrap().into();
    };
    let literals =
        expression.split(['\'', '\\']).flat_map(|text| text.split("%s")).flat_map(|text| text.split("%d"));
    // What is between two literals is an expression, and a pattern is a literal too; neither is words.
    let words =
        literals.filter(|text| !text.contains(['^', '(', ')', '=', '+']) || text.contains("group of"));
    words.max_by_key(|text| text.len()).unwrap().to_owned()
}
