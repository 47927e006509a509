//! The changes that a sequence makes on a node: labels or taints that block it, and the journal.

use super::json::{add, append, escape, remove, test};
use super::{Body, Style};
use crate::watch::{journal_key, journal_text};
use rollcall_core::decision::{NodeMarks, NodePatch};
use rollcall_core::planted::{Bug, planted};
use serde_json::{Value, json};
use std::sync::Arc;

/// Builds the patch of a node. Labels and annotations merge by their keys. With the uid, the API server rejects the
/// patch for another node of the same name. With the resourceVersion, it rejects a decision that is based on an
/// outdated node.
pub fn node(patch: &NodePatch) -> Body {
    let NodePatch { node, version, name: _, parts } = patch;
    if parts.iter().any(|part| !part.marks.taints.is_nothing()) {
        return Body { style: Style::Json, value: with_taints(patch) };
    }
    let mut metadata = json!({ "uid": node.to_string(), "resourceVersion": version.to_string() });
    for (key, value) in parts.iter().flat_map(|part| &part.marks.labels) {
        metadata["labels"][&**key] = json!(value);
    }
    for (key, text) in journals(parts) {
        metadata["annotations"][key] = json!(text);
    }
    Body { style: Style::Merge, value: json!({ "metadata": metadata }) }
}

/// The journal annotations to set (`Some`) or to remove (`None`).
fn journals(parts: &[NodeMarks]) -> impl Iterator<Item = (String, Option<String>)> {
    parts.iter().filter_map(|NodeMarks { sequence, marks }| {
        let journal = marks.journal.as_ref()?;
        Some((journal_key(*sequence), journal.as_ref().map(journal_text)))
    })
}

/// Builds a JSON patch that changes taints. The taints of a node are one list; taints of other owners are not changed.
/// The journals are part of the same patch.
fn with_taints(patch: &NodePatch) -> Value {
    let NodePatch { node, version, name: _, parts } = patch;
    let each = || parts.iter().map(|part| &part.marks.taints);
    // Every write is made from one view of the node, so all parts agree on these.
    let (had_any, annotated) = (each().any(|taints| taints.had_any), each().any(|taints| taints.annotated));
    let mut remove_at: Vec<&(usize, Arc<str>)> = each().flat_map(|taints| &taints.remove).collect();
    remove_at.sort_by_key(|(place, _)| std::cmp::Reverse(*place));
    let mut operations =
        vec![test("/metadata/uid", node.to_string()), test("/metadata/resourceVersion", version.to_string())];
    for (place, key) in remove_at.into_iter().filter(|_| !planted(Bug::TaintsReplaced)) {
        let at = format!("/spec/taints/{place}");
        operations.push(test(&format!("{at}/key"), &**key));
        operations.push(remove(&at));
    }
    let new = parts.iter().flat_map(|NodeMarks { sequence, marks }| {
        let value = sequence.to_string();
        let taint = move |key: &Arc<str>| json!({ "key": key, "value": value, "effect": "NoSchedule" });
        marks.taints.add.iter().map(taint)
    });
    let had_any = had_any && !planted(Bug::TaintsReplaced);
    operations.extend(append("/spec/taints", had_any, new.collect()));
    let mut set = |path: String, value: Option<Value>| {
        operations.push(match value {
            Some(value) => add(&path, value),
            None => remove(&path),
        });
    };
    for (key, value) in parts.iter().flat_map(|part| &part.marks.labels) {
        set(format!("/metadata/labels/{}", escape(key)), value.as_ref().map(|value| json!(value)));
    }
    let journals: Vec<(String, Option<String>)> = journals(parts).collect();
    match annotated || journals.is_empty() {
        true => journals.into_iter().for_each(|(key, text)| {
            set(format!("/metadata/annotations/{}", escape(&key)), text.map(Value::from));
        }),
        false => set("/metadata/annotations".into(), Some(journals.into_iter().collect())),
    }
    operations.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rollcall_core::Uid;
    use rollcall_core::sequence::marks::{Marks, Taints};

    #[test]
    fn taints_of_others_stay_where_they_are() {
        let (sequence, uid) = (Uid::digest("s"), Uid::digest("n"));
        let journal = Some(Some(Default::default()));
        for annotated in [true, false] {
            let taints =
                Taints { had_any: true, annotated, remove: vec![(1, "old".into())], add: vec!["new".into()] };
            let marks = Marks { labels: [("l/1".into(), None)].into(), journal: journal.clone(), taints };
            let mut node = json!({
                "metadata": { "uid": uid.to_string(), "resourceVersion": "7", "labels": { "l/1": "x", "k": "v" } },
                "spec": { "taints": [{ "key": "a", "timeAdded": "t" }, { "key": "old" }, { "key": "b" }] },
            });
            if annotated {
                node["metadata"]["annotations"] = json!({ "theirs": "1" });
            }
            let parts = vec![NodeMarks { sequence, marks }];
            let patch = NodePatch { node: uid, version: 7, name: "n".into(), parts };
            let patch = super::node(&patch).value;
            let patch: json_patch::Patch = serde_json::from_value(patch).expect("a JSON patch");
            json_patch::patch(&mut node, &patch).expect("it fits");
            let new = json!({ "key": "new", "value": sequence.to_string(), "effect": "NoSchedule" });
            let expected = json!([{ "key": "a", "timeAdded": "t" }, { "key": "b" }, new]);
            assert_eq!(node["spec"]["taints"], expected);
            assert_eq!(node["metadata"]["labels"], json!({ "k": "v" }));
            let annotations = node["metadata"]["annotations"].as_object().expect("there are some");
            assert!(annotations.contains_key(&journal_key(sequence)));
            assert_eq!(annotations.contains_key("theirs"), annotated);
        }
    }
}
