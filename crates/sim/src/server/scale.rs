//! The subresource `scale`: the replica count of several kinds.

use super::change::{self, Part};
use super::refusal::{Refusal, Wrong};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::store::Key;
use serde_json::{Map, Value, json};

pub fn has(kind: Kind) -> bool {
    matches!(kind, Kind::Deployment | Kind::ReplicaSet | Kind::StatefulSet)
}

pub fn get(cluster: &Cluster, key: &Key) -> Result<Value, Refusal> {
    let found = cluster.store.get(key).ok_or_else(|| Refusal::not_found(key.kind, &key.name))?;
    Ok(scale_of(found))
}

/// Changes the scale, and thereby the replica count of the object.
pub fn update(
    cluster: &mut Cluster,
    key: &Key,
    dry_run: bool,
    change: impl FnOnce(&mut Value) -> Result<(), Refusal>,
) -> Result<Value, Refusal> {
    let changed = change::update(cluster, key, Part::Main, dry_run, |object| {
        let mut scale = scale_of(object);
        change(&mut scale)?;
        let replicas = scale["spec"]["replicas"].as_i64().unwrap_or_default();
        if replicas < 0 {
            let words = "must be greater than or equal to 0";
            let wrong = Wrong::invalid("spec.replicas", &replicas.into(), words);
            return Err(Refusal::invalid_as("Scale", "autoscaling", &key.name, &[wrong]));
        }
        // A given version or uid also applies to the object.
        for field in ["resourceVersion", "uid"] {
            if let Some(sent) = scale["metadata"].get(field) {
                object["metadata"][field] = sent.clone();
            }
        }
        object["spec"]["replicas"] = replicas.into();
        Ok(())
    })?;
    Ok(scale_of(&changed))
}

fn scale_of(object: &Value) -> Value {
    let fields = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];
    let kept =
        fields.into_iter().filter_map(|name| Some((name.to_owned(), object["metadata"].get(name)?.clone())));
    let metadata: Map<String, Value> = kept.collect();
    let mut scale = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": {},
        "status": { "replicas": object["status"]["replicas"].as_i64().unwrap_or_default() },
    });
    let wanted = object["spec"]["replicas"].as_i64().unwrap_or_default();
    if wanted != 0 {
        scale["spec"]["replicas"] = wanted.into();
    }
    let selector = in_words(&object["spec"]["selector"]);
    if !selector.is_empty() {
        scale["status"]["selector"] = selector.into();
    }
    scale
}

/// A LabelSelector in the notation of a query.
fn in_words(selector: &Value) -> String {
    let mut words: Vec<(String, String)> = Vec::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        words.push((key.clone(), format!("{key}={}", value.as_str().unwrap_or_default())));
    }
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = expression["key"].as_str().unwrap_or_default().to_owned();
        let values = expression["values"].as_array().into_iter().flatten();
        let mut values: Vec<&str> = values.filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        let said = match expression["operator"].as_str().unwrap_or_default() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.clone(),
        };
        words.push((key, said));
    }
    words.sort();
    words.into_iter().map(|(_, said)| said).collect::<Vec<_>>().join(",")
}

/// Replaces the scale, as PUT does.
pub fn replace(name: &str, is: &mut Value, object: Value) -> Result<(), Refusal> {
    let said = object["metadata"]["name"].as_str().unwrap_or_default();
    if said != name {
        return Err(Refusal::other_name(said, name));
    }
    *is = object;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_as_they_stand_in_a_query() {
        let selector = json!({
            "matchLabels": { "app": "web" },
            "matchExpressions": [
                { "key": "tier", "operator": "In", "values": ["b", "a"] },
                { "key": "old", "operator": "DoesNotExist" },
            ],
        });
        assert_eq!(in_words(&selector), "app=web,!old,tier in (a,b)");
    }
}
