//! Validation of a `PodSequence`, equivalent to that of the API server.

use super::spec::PodSequenceSpec;
use crate::definition::Custom;
use crate::validate::{self, InvalidSpec};
use serde_json::Value;

/// Parses and validates the `spec` of a `PodSequence`, which may be any JSON value.
pub fn parse_spec(spec: &Value) -> Result<PodSequenceSpec, InvalidSpec> {
    validate::parse(Custom::PodSequence, spec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

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
        assert_eq!(
            validate::unknown_fields(Custom::PodSequence, &spec),
            ["spec.podGroup", "spec.podGroups[0].podSelector.labels"]
        );
    }

    #[test]
    fn a_long_value_is_quoted_in_part() {
        let spec = json!({ "podGroups": [{ "pods": ["é".repeat(1_000)] }] });
        assert!(parse_spec(&spec).unwrap_err().to_string().chars().count() < 200);
    }

    proptest! {
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
