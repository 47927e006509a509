//! The three types of patches, as pure functions on an object.

use super::refusal::Refusal;
use serde_json::{Map, Value};

/// The type of a patch, from its content type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Json,
    Merge,
    Strategic,
}

impl Style {
    pub fn from_content_type(content_type: &str) -> Option<Style> {
        match content_type.split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => Some(Style::Json),
            "application/merge-patch+json" => Some(Style::Merge),
            "application/strategic-merge-patch+json" => Some(Style::Strategic),
            _ => None,
        }
    }
}

pub fn apply(style: Style, object: &mut Value, patch: &[u8]) -> Result<(), Refusal> {
    let unreadable =
        |error: serde_json::Error| Refusal::bad_request(format!("error decoding patch: {error}"));
    match style {
        Style::Json => {
            // Only the list itself is parsed here. Invalid operations are rejected when the patch is applied.
            let operations: Vec<Value> = serde_json::from_slice(patch).map_err(unreadable)?;
            let patch: json_patch::Patch =
                serde_json::from_value(operations.into()).map_err(|_| rejected())?;
            json_patch::patch(object, &patch).map_err(|_| rejected())
        }
        Style::Merge => {
            let patch: Value = serde_json::from_slice(patch).map_err(unreadable)?;
            json_patch::merge(object, &patch);
            Ok(())
        }
        Style::Strategic => {
            let patch: Value = serde_json::from_slice(patch).map_err(unreadable)?;
            strategic(object, &patch, "");
            Ok(())
        }
    }
}

/// The answer to a JSON patch that cannot be applied, for example because of a failed `test`.
fn rejected() -> Refusal {
    Refusal {
        code: 422,
        reason: "Invalid",
        message: "the server rejected our request due to an error in our request".into(),
        details: Value::Object(Map::new()),
    }
}

/// The merge key of a list; `None` for lists that are replaced as a whole.
fn merge_key(list: &str) -> Option<&'static str> {
    Some(match list {
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "env"
        | "volumes"
        | "schedulingGates"
        | "drivers"
        | "imagePullSecrets"
        | "resourceClaims" => "name",
        "volumeMounts" => "mountPath",
        "volumeDevices" => "devicePath",
        "ports" => "containerPort",
        "conditions" => "type",
        "ownerReferences" => "uid",
        "hostAliases" => "ip",
        "topologySpreadConstraints" => "topologyKey",
        "addresses" => "type",
        _ => return None,
    })
}

const DIRECTIVE: &str = "$patch";

/// Merges `patch` into `object`, the value of the field `field`.
fn strategic(object: &mut Value, patch: &Value, field: &str) {
    match patch {
        Value::Object(changes) => {
            if changes.get(DIRECTIVE).is_some_and(|directive| directive == "replace") {
                *object = without_directives(patch);
                return;
            }
            if !object.is_object() {
                *object = Value::Object(Map::new());
            }
            let Some(target) = object.as_object_mut() else { return };
            for (name, change) in changes {
                if let Some(list) = name.strip_prefix("$deleteFromPrimitiveList/") {
                    remove_primitives(target.get_mut(list), change);
                } else if name.starts_with('$') {
                    continue;
                } else if change.is_null() {
                    target.remove(name);
                } else {
                    strategic(target.entry(name.clone()).or_insert(Value::Null), change, name);
                }
            }
        }
        Value::Array(changes) => match merge_key(field) {
            Some(key) => merge_list(object, changes, key, field),
            // Finalizers are a set.
            None if field == "finalizers" => add_primitives(object, changes),
            None => *object = patch.clone(),
        },
        plain => *object = plain.clone(),
    }
}

fn merge_list(object: &mut Value, changes: &[Value], key: &str, field: &str) {
    if !object.is_array() {
        *object = Value::Array(Vec::new());
    }
    let Some(items) = object.as_array_mut() else { return };
    if changes.iter().any(|change| change[DIRECTIVE] == "replace") {
        items.clear();
    }
    let before: Vec<Value> = items.iter().map(|item| item[key].clone()).collect();
    for change in changes {
        let place = items.iter().position(|item| item[key] == change[key]);
        match (change[DIRECTIVE].as_str(), place) {
            (Some("replace"), _) => {}
            (Some("delete"), Some(at)) => drop(items.remove(at)),
            (Some("delete"), None) => {}
            (_, Some(at)) => strategic(&mut items[at], change, ""),
            (_, None) => {
                let mut item = Value::Null;
                strategic(&mut item, change, "");
                items.push(item);
            }
        }
    }
    let named: Vec<Value> = changes.iter().map(|change| change[key].clone()).collect();
    *items = in_order(std::mem::take(items), |item| item[key].clone(), &named, &before);
    // An empty list of gates is omitted.
    if items.is_empty() && field == "schedulingGates" {
        *object = Value::Null;
    }
}

/// Orders a merged list. Patched items have the order of the patch, the others their old order. Between the two sorts, the
/// old order decides if both items are in it; otherwise patched items come first.
fn in_order(
    items: Vec<Value>,
    name: impl Fn(&Value) -> Value,
    named: &[Value],
    before: &[Value],
) -> Vec<Value> {
    let (mut patched, rest): (Vec<Value>, Vec<Value>) =
        items.into_iter().partition(|item| named.contains(&name(item)));
    patched.sort_by_key(|item| named.iter().position(|one| *one == name(item)));
    let place = |item: &Value| before.iter().position(|one| *one == name(item));
    let (mut left, mut right) = (rest.into_iter().peekable(), patched.into_iter().peekable());
    let mut all = Vec::new();
    loop {
        let from_left = match (left.peek(), right.peek()) {
            (None, None) => return all,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(left), Some(right)) => {
                place(left).zip(place(right)).is_some_and(|(left, right)| left < right)
            }
        };
        all.extend(if from_left { left.next() } else { right.next() });
    }
}

fn add_primitives(object: &mut Value, changes: &[Value]) {
    if !object.is_array() {
        *object = Value::Array(Vec::new());
    }
    if let Some(items) = object.as_array_mut() {
        let before = items.clone();
        for change in changes {
            if !items.contains(change) {
                items.push(change.clone());
            }
        }
        *items = in_order(std::mem::take(items), Value::clone, changes, &before);
    }
}

fn remove_primitives(object: Option<&mut Value>, gone: &Value) {
    let gone = gone.as_array().map(Vec::as_slice).unwrap_or_default();
    if let Some(items) = object.and_then(Value::as_array_mut) {
        items.retain(|item| !gone.contains(item));
    }
}

fn without_directives(patch: &Value) -> Value {
    match patch {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, _)| !name.starts_with('$'));
            Value::Object(kept.map(|(name, value)| (name.clone(), without_directives(value))).collect())
        }
        Value::Array(items) => items.iter().map(without_directives).collect(),
        plain => plain.clone(),
    }
}

/// Removes fields with null values, which the API server never stores.
pub fn drop_nulls(object: &mut Value) {
    match object {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn patched(style: Style, mut object: Value, patch: Value) -> Value {
        apply(style, &mut object, patch.to_string().as_bytes()).expect("it applies");
        drop_nulls(&mut object);
        object
    }

    #[test]
    fn a_gate_goes_and_the_others_stay() {
        let pod = json!({ "spec": { "schedulingGates": [{ "name": "a" }, { "name": "b" }] } });
        let patch = json!({ "spec": { "schedulingGates": [{ "$patch": "delete", "name": "a" }] } });
        let one_left = patched(Style::Strategic, pod, patch);
        assert_eq!(one_left, json!({ "spec": { "schedulingGates": [{ "name": "b" }] } }));
        let patch = json!({ "spec": { "schedulingGates": [{ "$patch": "delete", "name": "b" }] } });
        assert_eq!(patched(Style::Strategic, one_left, patch), json!({ "spec": {} }));
    }

    #[test]
    fn strategic_merges_lists_by_their_key_and_replaces_the_others() {
        let pod = json!({ "spec": {
            "containers": [{ "name": "a", "image": "x" }, { "name": "b" }],
            "tolerations": [{ "key": "k" }],
        }, "metadata": { "finalizers": ["f"] } });
        let patch = json!({ "spec": {
            "containers": [{ "name": "a", "image": "y" }, { "name": "c" }],
            "tolerations": [],
        }, "metadata": { "finalizers": ["g"], "$deleteFromPrimitiveList/finalizers": ["f"] } });
        assert_eq!(
            patched(Style::Strategic, pod, patch),
            json!({ "spec": {
                "containers": [{ "name": "a", "image": "y" }, { "name": "c" }, { "name": "b" }],
                "tolerations": [],
            }, "metadata": { "finalizers": ["g"] } })
        );
    }

    #[test]
    fn merge_and_json() {
        let object = json!({ "a": 1, "b": { "c": 2 } });
        assert_eq!(
            patched(Style::Merge, object.clone(), json!({ "a": null, "b": { "d": 3 } })),
            json!({ "b": { "c": 2, "d": 3 } })
        );
        let patch =
            json!([{ "op": "test", "path": "/a", "value": 1 }, { "op": "add", "path": "/b/e", "value": 4 }]);
        assert_eq!(patched(Style::Json, object.clone(), patch), json!({ "a": 1, "b": { "c": 2, "e": 4 } }));
        let failing = json!([{ "op": "test", "path": "/a", "value": 2 }]).to_string();
        let refusal =
            apply(Style::Json, &mut object.clone(), failing.as_bytes()).expect_err("the test fails");
        assert_eq!(refusal.code, 422);
    }
}
