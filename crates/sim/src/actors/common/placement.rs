//! Where a pod may be: selectors of nodes, affinity, taints.

use super::text;
use serde_json::Value;

/// Whether the selector and the required affinity of a pod's spec permit a node.
pub fn fits_node(spec: &Value, node: &Value) -> bool {
    let labels = &node["metadata"]["labels"];
    let selector = spec["nodeSelector"].as_object().into_iter().flatten();
    let required = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    selector.into_iter().all(|(key, value)| labels[key] == *value)
        && (required.is_null() || list(&required["nodeSelectorTerms"]).any(|term| fits_term(term, node)))
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// All requirements of a term hold; a term without any holds for no node.
fn fits_term(term: &Value, node: &Value) -> bool {
    let expressions = list(&term["matchExpressions"]);
    let fields = list(&term["matchFields"]);
    let count = expressions.count() + fields.count();
    let label = |key: &str| node["metadata"]["labels"][key].as_str();
    let field = |key: &str| (key == "metadata.name").then(|| text(&node["metadata"]["name"]));
    count > 0
        && list(&term["matchExpressions"]).all(|one| holds(one, label(text(&one["key"]))))
        && list(&term["matchFields"]).all(|one| holds(one, field(text(&one["key"]))))
}

fn holds(requirement: &Value, value: Option<&str>) -> bool {
    let listed = value.is_some_and(|value| list(&requirement["values"]).any(|one| one == value));
    let numbers = || {
        let bound: i64 = text(&requirement["values"][0]).parse().ok()?;
        Some((value?.parse::<i64>().ok()?, bound))
    };
    match text(&requirement["operator"]) {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers().is_some_and(|(value, bound)| value > bound),
        "Lt" => numbers().is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}

/// Whether a taint with one of these effects keeps a pod off a node.
pub fn is_repelled(spec: &Value, node: &Value, effects: &[&str]) -> bool {
    let repels = |taint: &Value| {
        effects.contains(&text(&taint["effect"]))
            && !list(&spec["tolerations"]).any(|toleration| tolerates(toleration, taint))
    };
    list(&node["spec"]["taints"]).any(repels)
}

fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let effect = text(&toleration["effect"]);
    let key = text(&toleration["key"]);
    (effect.is_empty() || effect == text(&taint["effect"]))
        && (key.is_empty() || key == text(&taint["key"]))
        && match text(&toleration["operator"]) {
            "Exists" => true,
            "" | "Equal" => !key.is_empty() && text(&toleration["value"]) == text(&taint["value"]),
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node() -> Value {
        json!({
            "metadata": { "name": "n1", "labels": { "zone": "a", "cores": "8" } },
            "spec": { "taints": [{ "key": "gpu", "value": "yes", "effect": "NoSchedule" }] },
        })
    }

    #[test]
    fn terms_are_alternatives_and_their_requirements_are_not() {
        let fits = |terms: Value| {
            let required =
                json!({ "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } });
            fits_node(&json!({ "affinity": { "nodeAffinity": required } }), &node())
        };
        let one = |key: &str, operator: &str, value: &str| json!({ "key": key, "operator": operator, "values": [value] });
        assert!(fits(
            json!([{ "matchExpressions": [one("zone", "In", "b")] }, { "matchFields": [one("metadata.name", "In", "n1")] }])
        ));
        assert!(!fits(json!([{ "matchExpressions": [one("zone", "In", "a"), one("cores", "Gt", "8")] }])));
        assert!(fits(json!([{ "matchExpressions": [one("cores", "Lt", "9"), one("x", "NotIn", "y")] }])));
        assert!(!fits(json!([{}])) && !fits(json!([])));
        assert!(fits_node(&json!({ "nodeSelector": { "zone": "a" } }), &node()));
        assert!(!fits_node(&json!({ "nodeSelector": { "zone": "b" } }), &node()));
    }

    #[test]
    fn tolerations_need_key_value_and_effect() {
        for (toleration, repelled) in [
            (json!({ "key": "gpu", "operator": "Exists" }), false),
            (json!({ "operator": "Exists" }), false),
            (json!({ "key": "gpu", "value": "yes", "effect": "NoSchedule" }), false),
            (json!({ "key": "gpu", "value": "no" }), true),
            (json!({ "key": "gpu", "operator": "Exists", "effect": "NoExecute" }), true),
            (json!({ "key": "other", "operator": "Exists" }), true),
        ] {
            let spec = json!({ "tolerations": [toleration] });
            assert_eq!(is_repelled(&spec, &node(), &["NoSchedule"]), repelled, "{spec}");
        }
        assert!(!is_repelled(&json!({}), &node(), &["NoExecute"]));
    }
}
