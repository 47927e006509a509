//! Finds bounds and rules of the CRDs that no case covers.

use super::corpus::Case;
use rollcall_api::definition::Custom;
use serde_json::Value;

/// Returns one line for each keyword in the schema of `spec` that no case covers.
pub fn missing(custom: Custom, cases: &[Case]) -> Vec<String> {
    let mut duties = Vec::new();
    collect(&custom.open_api_schema()["properties"]["spec"], "spec", &mut duties);
    assert!(duties.len() > 60, "only {} bounds and rules were found", duties.len());
    let unmet = duties.iter().filter(|duty| !cases.iter().any(|case| duty.is_met_by(case, depth(custom))));
    unmet.map(|duty| format!("{}: {}", duty.field, duty.words)).collect()
}

/// A validation of a field by the API server, which a case must cover.
struct Duty {
    /// Path without indices, and with `*` for the keys of a map: `spec.podGroups[].pods[]`.
    field: String,
    /// Words that all messages of this kind contain, and no other message about the same field.
    words: String,
}

impl Duty {
    fn is_met_by(&self, case: &Case, depth: usize) -> bool {
        // A rule on a value of a map reports the value like an element of a list.
        let fields = [self.field.clone(), self.field.replace(".*", "[]")];
        let theirs = without_indices(&case.field);
        let same = |(ours, theirs): (&str, &str)| ours == "*" || ours == theirs;
        let met = |ours: &String| {
            let depth = depth + usize::from(ours.ends_with('*'));
            ours.rsplit('.').zip(theirs.rsplit('.')).take(depth).all(same)
        };
        fields.iter().any(met) && case.message.contains(&self.words)
    }
}

/// Number of path segments, from the end, that must match a case. An Order contains the spec of a ticket, which has
/// selectors of the same type in many places; a case for one place is sufficient.
fn depth(custom: Custom) -> usize {
    match custom {
        Custom::PodSequence => usize::MAX - 1,
        Custom::Order | Custom::Ticket => 1,
    }
}

/// Converts `spec.podGroups[0].pods[1]` to `spec.podGroups[].pods[]`.
fn without_indices(field: &str) -> String {
    let mut inside = false;
    let outside = |c: &char| {
        let keep = !inside || *c == ']';
        inside = *c == '[' || inside && *c != ']';
        keep
    };
    field.chars().filter(outside).collect()
}

fn collect(schema: &Value, field: &str, duties: &mut Vec<Duty>) {
    let mut add = |words: &str| duties.push(Duty { field: field.to_owned(), words: words.to_owned() });
    for (keyword, words) in [
        ("enum", "Unsupported value"),
        ("pattern", "should match"),
        ("maxLength", "Too long"),
        ("minItems", "should have at least"),
        ("maxItems", "Too many"),
        ("minProperties", "should have at least"),
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
        let expected =
            ["minItems", "maxItems", "maxLength", "minProperties", "maxProperties", "minimum", "maximum"];
        assert!(
            expected.contains(&known.as_str()),
            "{field}: this test does not know how {known} is reported"
        );
    }
    // Cases create new objects; rules about changes have tests of their own.
    let on_change = |rule: &&Value| rule["rule"].as_str().is_some_and(|text| text.contains("oldSelf"));
    let rules = schema["x-kubernetes-validations"].as_array().into_iter().flatten();
    for rule in rules.filter(|rule| !on_change(rule)) {
        let field = format!("{field}{}", rule["fieldPath"].as_str().unwrap_or_default());
        duties.push(Duty { field, words: telling_words(rule) });
    }
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        duties.push(Duty { field: format!("{field}.{name}"), words: "Required value".into() });
    }
    if schema["x-kubernetes-list-type"] == "set" || schema["x-kubernetes-list-type"] == "map" {
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

/// Returns the constant part of a rule's message: the message itself, or the longest string literal in its message expression.
fn telling_words(rule: &Value) -> String {
    let Some(expression) = rule["messageExpression"].as_str() else {
        return rule["message"].as_str().unwrap().into();
    };
    let literals =
        expression.split(['\'', '\\']).flat_map(|text| text.split("%s")).flat_map(|text| text.split("%d"));
    // Text between two literals is an expression, and patterns are literals too; neither counts as words.
    let words =
        literals.filter(|text| !text.contains(['^', '(', ')', '=', '+']) || text.contains("group of"));
    words.max_by_key(|text| text.len()).unwrap().to_owned()
}
