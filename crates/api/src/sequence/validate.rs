//! The judgement of the API server, in Rust: for `rollcall` before it applies something, and for objects that got
//! past an API server which knew fewer rules.

use super::definition::spec_schema;
use super::limits;
use super::rules;
use super::spec::PodSequenceSpec;
use crate::check::{self, Judge, Problem, Rule};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

/// Why a spec cannot be acted on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidSpec {
    /// `spec.podGroups[1].timeout`.
    pub field: String,
    /// What is there, as JSON; `None` for lists and objects, and for what is missing.
    pub value: Option<String>,
    /// What was expected, in the words of the API server where it has any of its own.
    pub expected: String,
}

impl std::error::Error for InvalidSpec {}

/// `spec.podGroups[1].timeout: "soon" must be a duration such as …`
impl fmt::Display for InvalidSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}: {} {}", self.field, value, self.expected),
            None => write!(f, "{}: {}", self.field, self.expected),
        }
    }
}

impl From<Problem> for InvalidSpec {
    fn from(Problem { field, value, expected }: Problem) -> Self {
        // A rule over the whole list names the place in its message, because a field path has no index in it.
        match expected.split_once(": ") {
            Some((place, rest)) if place.strip_prefix(&field).is_some_and(|tail| tail.starts_with('[')) => {
                Self { field: place.to_owned(), value, expected: rest.to_owned() }
            }
            _ => Self { field, value, expected },
        }
    }
}

/// Reads the `spec` of a `PodSequence`, whatever is in it: nulls are dropped and defaults filled in, then every rule
/// of the definition is checked.
pub fn parse_spec(spec: &Value) -> Result<PodSequenceSpec, InvalidSpec> {
    let mut spec = spec.clone();
    check::normalize(spec_schema(), &mut spec);
    check::check(spec_schema(), &spec, "spec", &Rules)?;
    serde_json::from_value(spec).map_err(|error| InvalidSpec {
        field: "spec".into(),
        value: None,
        expected: format!("cannot be read: {error}"),
    })
}

/// Checks every rule of the definition.
pub fn validate(spec: &PodSequenceSpec) -> Result<(), InvalidSpec> {
    let value = serde_json::to_value(spec).map_err(|error| InvalidSpec {
        field: "spec".into(),
        value: None,
        expected: format!("cannot be written: {error}"),
    })?;
    Ok(check::check(spec_schema(), &value, "spec", &Rules)?)
}

/// The fields of a `spec` that there are not, with their paths. The API server drops them with a warning.
pub fn unknown_fields(spec: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check::unknown_fields(spec_schema(), spec, "spec", &mut found);
    found
}

struct Rules;

impl Judge for Rules {
    fn pattern(&self, pattern: &str, text: &str) -> Option<Result<(), String>> {
        let (fits, expected) = match pattern {
            limits::SUBDOMAIN_PATTERN => {
                (is_subdomain(text), "must be a name of lower-case letters, digits, '-' and '.'")
            }
            limits::DNS_LABEL_PATTERN => {
                (is_dns_label(text), "must be a name of lower-case letters, digits and '-'")
            }
            limits::LABEL_VALUE_PATTERN => {
                (text.is_empty() || is_name(text), "must be a label value: letters, digits, '-', '_' and '.'")
            }
            limits::QUALIFIED_NAME_PATTERN => {
                (is_qualified_name(text), "must be a name such as example.com/name")
            }
            limits::GROUP_NAME_PATTERN => (
                is_group_name(text),
                "must be a name without control characters, marks of writing direction and blanks at its ends",
            ),
            _ => return None,
        };
        Some(if fits { Ok(()) } else { Err(expected.to_owned()) })
    }

    fn rule(&self, rule: &str) -> Option<&Rule> {
        static ALL: LazyLock<BTreeMap<String, Rule>> =
            LazyLock::new(|| rules::all().into_iter().map(|rule| (rule.rule.clone(), rule)).collect());
        ALL.get(rule)
    }
}

/// [`limits::SUBDOMAIN_PATTERN`]
fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_dns_label)
}

/// [`limits::DNS_LABEL_PATTERN`]
fn is_dns_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// Letters and digits, with `-`, `_` and `.` between them.
fn is_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let ends = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    text.bytes().all(inner) && ends(text.bytes().next()) && ends(text.bytes().last())
}

/// [`limits::QUALIFIED_NAME_PATTERN`]
pub(super) fn is_qualified_name(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && name.len() <= limits::LABEL && is_name(name),
        None => text.len() <= limits::LABEL && is_name(text),
    }
}

/// [`limits::GROUP_NAME_PATTERN`]
fn is_group_name(text: &str) -> bool {
    let hidden = |char: char| char.is_control() || turns(char);
    !text.is_empty() && !text.contains(hidden) && !text.starts_with(' ') && !text.ends_with(' ')
}

/// Whether a character is no letter and yet changes where and in which direction the letters after it are written: marks,
/// embeddings, overrides and isolates of bidirectional text, and the two ends of lines that are no control characters.
pub fn turns(char: char) -> bool {
    matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::super::definition::open_api_schema;
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn visit(schema: &Value, see: &mut impl FnMut(&Value)) {
        see(schema);
        let properties =
            schema["properties"].as_object().into_iter().flat_map(|properties| properties.values());
        let children =
            [&schema["items"], &schema["additionalProperties"]].into_iter().filter(|child| child.is_object());
        properties.chain(children).for_each(|child| visit(child, see));
    }

    /// A pattern or a rule that only the API server knew would let bad objects through here.
    #[test]
    fn every_pattern_and_every_rule_of_the_definition_is_known() {
        let (mut patterns, mut rules) = (0, 0);
        visit(&open_api_schema()["properties"]["spec"], &mut |schema| {
            if let Some(pattern) = schema["pattern"].as_str() {
                assert!(Rules.pattern(pattern, "").is_some(), "{pattern}");
                patterns += 1;
            }
            for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
                let text = rule["rule"].as_str().unwrap();
                let known = Rules.rule(text).unwrap_or_else(|| panic!("{text}"));
                assert_eq!(serde_json::to_value(known).unwrap(), *rule);
                rules += 1;
            }
        });
        assert!(patterns >= 10 && rules >= 20, "{patterns} patterns, {rules} rules");
    }

    /// Two rules with one text would be one rule here, with the words of the later.
    #[test]
    fn rules_with_the_same_text_say_the_same() {
        for rule in rules::all() {
            let known = Rules.rule(&rule.rule).unwrap();
            assert_eq!((&known.message, known.field_path), (&rule.message, rule.field_path), "{}", rule.rule);
        }
    }

    #[test]
    fn anything_at_all_gets_an_answer() {
        for spec in [json!(null), json!([]), json!("x"), json!(1), json!({}), json!({ "podGroups": [[]] })] {
            let invalid = parse_spec(&spec).unwrap_err();
            assert!(invalid.field.starts_with("spec"), "{spec}: {invalid}");
        }
    }

    #[test]
    fn fields_that_there_are_not_are_named() {
        let spec =
            json!({ "podGroup": [], "podGroups": [{ "pods": ["a"], "podSelector": { "labels": {} } }] });
        assert_eq!(unknown_fields(&spec), ["spec.podGroup", "spec.podGroups[0].podSelector.labels"]);
    }

    #[test]
    fn a_long_value_is_quoted_in_part() {
        let spec = json!({ "podGroups": [{ "pods": ["é".repeat(1_000)] }] });
        assert!(parse_spec(&spec).unwrap_err().to_string().chars().count() < 200);
    }

    proptest! {
        #[test]
        fn the_patterns_mean_what_the_functions_check(text in "[-a-zA-Z0-9_./ \t\u{7f}\u{80}\u{9f}\u{a0}é\u{61c}\u{200d}-\u{2010}\u{2027}-\u{202f}\u{2065}-\u{206a}]{0,6}") {
            for pattern in [
                limits::SUBDOMAIN_PATTERN,
                limits::DNS_LABEL_PATTERN,
                limits::LABEL_VALUE_PATTERN,
                limits::GROUP_NAME_PATTERN,
                limits::QUALIFIED_NAME_PATTERN,
            ] {
                let by_pattern = regex::Regex::new(pattern).unwrap().is_match(&text);
                let by_function = Rules.pattern(pattern, &text).unwrap().is_ok();
                prop_assert_eq!(by_pattern, by_function, "{} {:?}", pattern, text);
            }
        }

        #[test]
        fn no_spec_makes_it_panic(spec in arbitrary_spec()) {
            let _ = parse_spec(&spec);
        }
    }

    fn arbitrary_spec() -> impl Strategy<Value = Value> {
        let scalar = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[a-zA-Z0-9%./ -]{0,5}".prop_map(Value::from),
            Just(json!("Immediately")),
            Just(json!("Node")),
        ];
        let names = prop::sample::select(vec![
            "podGroups",
            "pods",
            "podSelector",
            "matchLabels",
            "matchExpressions",
            "operator",
            "values",
            "name",
            "key",
            "dependsOn",
            "start",
            "scope",
            "nodeReady",
            "nodeSelector",
            "workloadRef",
            "kind",
            "minReady",
            "timeout",
        ]);
        scalar.prop_recursive(6, 64, 6, move |inner| {
            let names = names.clone();
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((names, inner), 0..6).prop_map(|fields| fields
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value))
                    .collect()),
            ]
        })
    }
}
