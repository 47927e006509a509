//! Whether a node matches a pod's node selector and affinity, and whether the pod tolerates the node's taints.

use super::text;
use serde_json::Value;

fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Whether a node matches the node selector and the required node affinity.
pub fn selects_node(spec: &Value, node: &Value) -> bool {
    let labels = &node["metadata"]["labels"];
    let wanted = spec["nodeSelector"].as_object().into_iter().flatten();
    let chosen = wanted.into_iter().all(|(key, value)| labels[key] == *value);
    let required = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    chosen
        && (required.is_null()
            || items(&required["nodeSelectorTerms"]).iter().any(|term| fits_term(term, node)))
}

/// The sum of the weights of matching preferred terms.
pub fn preference(spec: &Value, node: &Value) -> i64 {
    let preferred = &spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"];
    let fitting = items(preferred).iter().filter(|term| fits_term(&term["preference"], node));
    fitting.map(|term| term["weight"].as_i64().unwrap_or_default()).sum()
}

/// A term without requirements matches no node.
fn fits_term(term: &Value, node: &Value) -> bool {
    let (expressions, fields) = (items(&term["matchExpressions"]), items(&term["matchFields"]));
    let label = |key: &str| node["metadata"]["labels"][key].as_str();
    let field = |key: &str| (key == "metadata.name").then(|| text(&node["metadata"]["name"]));
    (!expressions.is_empty() || !fields.is_empty())
        && expressions.iter().all(|one| holds(one, label(text(&one["key"]))))
        && fields.iter().all(|one| holds(one, field(text(&one["key"]))))
}

fn holds(requirement: &Value, value: Option<&str>) -> bool {
    let listed = || value.is_some_and(|value| items(&requirement["values"]).iter().any(|one| one == value));
    let numbers = || {
        let bound: i64 = text(&requirement["values"][0]).parse().ok()?;
        Some((value?.parse::<i64>().ok()?, bound))
    };
    match text(&requirement["operator"]) {
        "In" => listed(),
        "NotIn" => !listed(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers().is_some_and(|(value, bound)| value > bound),
        "Lt" => numbers().is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}

/// The only nodes that the pod can run on, if it names them. Pods of DaemonSets do.
pub fn named_nodes(spec: &Value) -> Option<Vec<&str>> {
    let required = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let terms = items(&required["nodeSelectorTerms"]);
    let mut names = Vec::new();
    for term in terms {
        let named = items(&term["matchFields"])
            .iter()
            .find(|field| field["key"] == "metadata.name" && field["operator"] == "In")?;
        names.extend(items(&named["values"]).iter().filter_map(Value::as_str));
    }
    (!terms.is_empty()).then_some(names)
}

/// Whether a taint with one of these effects repels a pod.
pub fn is_repelled(spec: &Value, node: &Value, effects: &[&str]) -> bool {
    let repels =
        |taint: &Value| effects.contains(&text(&taint["effect"])) && !tolerates(&spec["tolerations"], taint);
    items(&node["spec"]["taints"]).iter().any(repels)
}

/// Whether a list of tolerations covers a taint.
pub fn tolerates(tolerations: &Value, taint: &Value) -> bool {
    items(tolerations).iter().any(|toleration| bears(toleration, taint))
}

pub fn bears(toleration: &Value, taint: &Value) -> bool {
    let (key, effect) = (text(&toleration["key"]), text(&toleration["effect"]));
    (effect.is_empty() || effect == text(&taint["effect"]))
        && (key.is_empty() || key == text(&taint["key"]))
        && match text(&toleration["operator"]) {
            "Exists" => true,
            "" | "Equal" => !key.is_empty() && text(&toleration["value"]) == text(&taint["value"]),
            _ => false,
        }
}

/// Whether a taint repels pods, rather than only discouraging them.
pub fn keeps_away(taint: &Value) -> bool {
    matches!(taint["effect"].as_str(), Some("NoSchedule" | "NoExecute"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node() -> Value {
        json!({
            "metadata": { "name": "n1", "labels": { "disk": "ssd", "rank": "7" } },
            "spec": { "taints": [{ "key": "k", "value": "v", "effect": "NoSchedule" }] },
        })
    }

    fn fits(requirement: Value) -> bool {
        let term = json!({ "nodeSelectorTerms": [{ "matchExpressions": [requirement] }] });
        let affinity = json!({ "requiredDuringSchedulingIgnoredDuringExecution": term });
        selects_node(&json!({ "affinity": { "nodeAffinity": affinity } }), &node())
    }

    #[test]
    fn every_operator() {
        for yes in [
            json!({ "key": "disk", "operator": "In", "values": ["hdd", "ssd"] }),
            json!({ "key": "disk", "operator": "NotIn", "values": ["hdd"] }),
            json!({ "key": "zone", "operator": "NotIn", "values": ["a"] }),
            json!({ "key": "disk", "operator": "Exists" }),
            json!({ "key": "zone", "operator": "DoesNotExist" }),
            json!({ "key": "rank", "operator": "Gt", "values": ["6"] }),
            json!({ "key": "rank", "operator": "Lt", "values": ["8"] }),
        ] {
            assert!(fits(yes.clone()), "{yes}");
        }
        for no in [
            json!({ "key": "disk", "operator": "In", "values": ["hdd"] }),
            json!({ "key": "zone", "operator": "Exists" }),
            json!({ "key": "rank", "operator": "Gt", "values": ["7"] }),
            json!({ "key": "disk", "operator": "Lt", "values": ["7"] }),
        ] {
            assert!(!fits(no.clone()), "{no}");
        }
    }

    #[test]
    fn nodes_by_name() {
        let term = json!({ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["n1"] }] });
        let spec = |terms: Value| {
            json!({ "affinity": { "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } } } })
        };
        assert_eq!(named_nodes(&spec(json!([term]))), Some(vec!["n1"]));
        assert_eq!(named_nodes(&spec(json!([term, { "matchExpressions": [] }]))), None);
        assert!(selects_node(&spec(json!([term])), &node()));
    }

    #[test]
    fn terms_are_alternatives_and_their_requirements_are_not() {
        let fits = |terms: Value| {
            let required =
                json!({ "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } });
            selects_node(&json!({ "affinity": { "nodeAffinity": required } }), &node())
        };
        let one = |key: &str, value: &str| json!({ "key": key, "operator": "In", "values": [value] });
        assert!(fits(json!([
            { "matchExpressions": [one("disk", "hdd")] },
            { "matchFields": [one("metadata.name", "n1")] },
        ])));
        assert!(!fits(json!([{ "matchExpressions": [one("disk", "ssd"), one("rank", "8")] }])));
        assert!(!fits(json!([{ "matchFields": [one("metadata.uid", "n1")] }])));
        assert!(!fits(json!([{}])) && !fits(json!([])));
        assert!(selects_node(&json!({ "nodeSelector": { "disk": "ssd" } }), &node()));
        assert!(!selects_node(&json!({ "nodeSelector": { "disk": "hdd" } }), &node()));
    }

    #[test]
    fn tolerations() {
        let node = node();
        let taint = &node["spec"]["taints"][0];
        let repelled = |toleration: &Value, effect: &str| {
            is_repelled(&json!({ "tolerations": [toleration] }), &node, &[effect])
        };
        for yes in [
            json!({ "key": "k", "value": "v" }),
            json!({ "key": "k", "operator": "Exists", "effect": "NoSchedule" }),
            json!({ "operator": "Exists" }),
        ] {
            assert!(!repelled(&yes, "NoSchedule") && tolerates(&json!([yes]), taint), "{yes}");
        }
        for no in [
            json!({ "key": "k", "value": "w" }),
            json!({ "key": "k", "operator": "Exists", "effect": "NoExecute" }),
            json!({ "key": "j", "operator": "Exists" }),
            json!({ "value": "v" }),
        ] {
            assert!(repelled(&no, "NoSchedule") && !repelled(&no, "NoExecute"), "{no}");
        }
    }
}
