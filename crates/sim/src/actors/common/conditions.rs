//! Conditions as workload controllers maintain them.

use super::text;
use serde_json::{Value, json};

pub fn find<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    status["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

pub fn is_true(status: &Value, kind: &str) -> bool {
    find(status, kind).is_some_and(|condition| condition["status"] == "True")
}

/// Sets a condition. A condition with the same status and reason stays unchanged. Otherwise the new condition is appended,
/// as in the real controllers. It keeps the transition time if the status is the same.
pub fn set(status: &mut Value, mut condition: Value) {
    let kind = text(&condition["type"]).to_owned();
    if let Some(is) = find(status, &kind) {
        if is["status"] == condition["status"] && is["reason"] == condition["reason"] {
            return;
        }
        if is["status"] == condition["status"] {
            condition["lastTransitionTime"] = is["lastTransitionTime"].clone();
        }
    }
    remove(status, &kind);
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    if let Some(list) = status["conditions"].as_array_mut() {
        list.push(condition);
    }
}

/// Removes a condition, and an empty list of conditions.
pub fn remove(status: &mut Value, kind: &str) {
    let Some(list) = status["conditions"].as_array_mut() else { return };
    list.retain(|condition| condition["type"] != kind);
    if list.is_empty()
        && let Some(status) = status.as_object_mut()
    {
        status.remove("conditions");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(status: &str, reason: &str, at: &str) -> Value {
        json!({ "type": "A", "status": status, "reason": reason, "lastTransitionTime": at })
    }

    #[test]
    fn times_change_with_the_status_only() {
        let mut status = json!({});
        set(&mut status, condition("True", "x", "1"));
        set(&mut status, condition("True", "x", "2"));
        assert_eq!(status["conditions"][0], condition("True", "x", "1"));
        set(&mut status, condition("True", "y", "3"));
        assert_eq!(status["conditions"][0], condition("True", "y", "1"));
        set(&mut status, condition("False", "y", "4"));
        assert_eq!(status["conditions"][0], condition("False", "y", "4"));
        remove(&mut status, "A");
        assert_eq!(status, json!({}));
    }
}
