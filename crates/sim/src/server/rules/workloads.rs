//! Validation of Deployments, ReplicaSets, StatefulSets and DaemonSets.

use super::{
    ELIDED, invalid_each, invalid_shown, items, metadata, not_negative, one_of, pod, selector, text,
};
use super::{names, others};
use crate::server::refusal::{Wrong, WrongKind};
use serde_json::{Value, json};

const NO_MATCH: &str = "`selector` does not match template `labels`";

pub fn deployment(spec: &Value, found: &mut Vec<Wrong>) {
    not_negative(found, spec, "replicas", "spec");
    required_selector(spec, "deployment", found);
    selected_template(spec, "ReplicaSet", found);
    deployment_strategy(&spec["strategy"], found);
    not_negative(found, spec, "minReadySeconds", "spec");
    not_negative(found, spec, "revisionHistoryLimit", "spec");
    not_negative(found, spec, "progressDeadlineSeconds", "spec");
    if let Some(deadline) = spec["progressDeadlineSeconds"].as_i64()
        && deadline <= spec["minReadySeconds"].as_i64().unwrap_or_default()
    {
        let words = "must be greater than minReadySeconds";
        found.push(Wrong::invalid("spec.progressDeadlineSeconds", &deadline.into(), words));
    }
}

pub fn replica_set(spec: &Value, found: &mut Vec<Wrong>) {
    not_negative(found, spec, "replicas", "spec");
    not_negative(found, spec, "minReadySeconds", "spec");
    // "deployment" is the API server's wording for ReplicaSets as well.
    required_selector(spec, "deployment", found);
    selected_template(spec, "ReplicaSet", found);
}

pub fn stateful_set(spec: &Value, found: &mut Vec<Wrong>) {
    if !matches!(text(spec, "podManagementPolicy"), "OrderedReady" | "Parallel") {
        let words = "must be 'OrderedReady' or 'Parallel'";
        found.push(Wrong::invalid("spec.podManagementPolicy", &spec["podManagementPolicy"], words));
    }
    stateful_set_strategy(&spec["updateStrategy"], found);
    for when in ["whenDeleted", "whenScaled"] {
        let field = format!("spec.persistentVolumeClaimRetentionPolicy.{when}");
        let policy = &spec["persistentVolumeClaimRetentionPolicy"][when];
        one_of(found, &field, policy, &["Retain", "Delete"]);
    }
    for (at, claim) in items(spec, "volumeClaimTemplates").enumerate() {
        others::claim(&claim["spec"], &format!("spec.volumeClaimTemplates[{at}].spec"), found);
    }
    not_negative(found, spec, "replicas", "spec");
    not_negative(found, spec, "minReadySeconds", "spec");
    not_negative(found, &spec["ordinals"], "start", "spec.ordinals");
    let service = text(spec, "serviceName");
    if !service.is_empty() {
        invalid_each(found, "spec.serviceName", service, names::dns_label(service));
    }
    required_selector(spec, "statefulset", found);
    if selector::is_sound(&spec["selector"]) {
        matched(spec, found);
        let claims: Vec<&str> =
            items(spec, "volumeClaimTemplates").map(|claim| text(&claim["metadata"], "name")).collect();
        pod::template(&spec["template"], "spec.template", &claims, found);
    } else {
        found.push(invalid_shown("spec.selector", &selector::shown(&spec["selector"]), ""));
    }
    runs_for_ever(&spec["template"]["spec"], "StatefulSet", found);
}

pub fn daemon_set(spec: &Value, found: &mut Vec<Wrong>) {
    let wanted = &spec["selector"];
    selector::check(wanted, "spec.selector", found);
    if selector::is_sound(wanted) && !selector::matches(wanted, &spec["template"]["metadata"]["labels"]) {
        no_match(spec, found);
    }
    if !wanted.is_null() && selector::is_empty(wanted) {
        found.push(Wrong::invalid("spec.selector", &json!({}), "empty selector is invalid for daemonset"));
    }
    pod::template(&spec["template"], "spec.template", &[], found);
    runs_for_ever(&spec["template"]["spec"], "DaemonSet", found);
    not_negative(found, spec, "minReadySeconds", "spec");
    daemon_set_strategy(&spec["updateStrategy"], found);
    not_negative(found, spec, "revisionHistoryLimit", "spec");
}

fn required_selector(spec: &Value, of: &str, found: &mut Vec<Wrong>) {
    let wanted = &spec["selector"];
    if wanted.is_null() {
        found.push(Wrong::required("spec.selector", ""));
        return;
    }
    selector::check(wanted, "spec.selector", found);
    if selector::is_empty(wanted) {
        let words = format!("empty selector is invalid for {of}");
        found.push(Wrong::invalid("spec.selector", &json!({}), &words));
    }
}

fn selected_template(spec: &Value, of: &str, found: &mut Vec<Wrong>) {
    if !selector::is_sound(&spec["selector"]) {
        let shown = selector::shown(&spec["selector"]);
        found.push(invalid_shown("spec.selector", &shown, "invalid label selector"));
        return;
    }
    matched(spec, found);
    pod::template(&spec["template"], "spec.template", &[], found);
    runs_for_ever(&spec["template"]["spec"], of, found);
}

/// Reports a selector that does not match the template. An empty selector has already been reported.
fn matched(spec: &Value, found: &mut Vec<Wrong>) {
    let wanted = &spec["selector"];
    let is_empty = !wanted.is_null() && selector::is_empty(wanted);
    if !is_empty && !selector::matches(wanted, &spec["template"]["metadata"]["labels"]) {
        no_match(spec, found);
    }
}

pub fn no_match(spec: &Value, found: &mut Vec<Wrong>) {
    let labels = &spec["template"]["metadata"]["labels"];
    found.push(Wrong::invalid("spec.template.metadata.labels", labels, NO_MATCH));
}

fn runs_for_ever(spec: &Value, of: &str, found: &mut Vec<Wrong>) {
    one_of(found, "spec.template.spec.restartPolicy", &spec["restartPolicy"], &["Always"]);
    if spec.get("activeDeadlineSeconds").is_some() {
        let words = format!("activeDeadlineSeconds in {of} is not Supported");
        found.push(Wrong::forbidden("spec.template.spec.activeDeadlineSeconds", words));
    }
}

fn deployment_strategy(strategy: &Value, found: &mut Vec<Wrong>) {
    let path = "spec.strategy.rollingUpdate";
    match text(strategy, "type") {
        "Recreate" => {
            if strategy.get("rollingUpdate").is_some() {
                let words = "may not be specified when strategy `type` is 'Recreate'";
                found.push(Wrong::forbidden(path, words));
            }
        }
        "RollingUpdate" => {
            let rolling = &strategy["rollingUpdate"];
            let (unavailable, surge) = (&rolling["maxUnavailable"], &rolling["maxSurge"]);
            number_or_percentage(unavailable, &format!("{path}.maxUnavailable"), found);
            number_or_percentage(surge, &format!("{path}.maxSurge"), found);
            if amount(unavailable) == 0 && amount(surge) == 0 {
                let words = "may not be 0 when `maxSurge` is 0";
                found.push(Wrong::invalid(format!("{path}.maxUnavailable"), unavailable, words));
            }
            at_most_all(unavailable, &format!("{path}.maxUnavailable"), found);
        }
        _ => strategy_not_supported("spec.strategy", strategy, &["Recreate", "RollingUpdate"], found),
    }
}

fn daemon_set_strategy(strategy: &Value, found: &mut Vec<Wrong>) {
    let path = "spec.updateStrategy.rollingUpdate";
    match text(strategy, "type") {
        "OnDelete" => {}
        "RollingUpdate" => {
            let rolling = &strategy["rollingUpdate"];
            for field in ["maxUnavailable", "maxSurge"] {
                number_or_percentage(&rolling[field], &format!("{path}.{field}"), found);
            }
            for field in ["maxUnavailable", "maxSurge"] {
                at_most_all(&rolling[field], &format!("{path}.{field}"), found);
            }
            match (amount(&rolling["maxUnavailable"]) != 0, amount(&rolling["maxSurge"]) != 0) {
                (true, true) => {
                    let words = "may not be set when maxUnavailable is non-zero";
                    found.push(Wrong::invalid(format!("{path}.maxSurge"), &rolling["maxSurge"], words));
                }
                (false, false) => {
                    let words = "cannot be 0 when maxSurge is 0";
                    found.push(Wrong::required(format!("{path}.maxUnavailable"), words));
                }
                _ => {}
            }
        }
        _ => strategy_not_supported("spec.updateStrategy", strategy, &["RollingUpdate", "OnDelete"], found),
    }
}

fn stateful_set_strategy(strategy: &Value, found: &mut Vec<Wrong>) {
    let rolling = strategy.get("rollingUpdate");
    match text(strategy, "type") {
        "OnDelete" => {
            if let Some(rolling) = rolling {
                let shown = format!("{{\"Partition\":{},\"MaxUnavailable\":null}}", rolling["partition"]);
                let words = "only allowed for updateStrategy 'RollingUpdate'";
                found.push(invalid_shown("spec.updateStrategy.rollingUpdate", &shown, words));
            }
        }
        "RollingUpdate" => {
            let none = Value::Null;
            let path = "spec.updateStrategy.rollingUpdate";
            not_negative(found, rolling.unwrap_or(&none), "partition", path);
        }
        _ => {
            let words = "must be 'RollingUpdate' or 'OnDelete'";
            found.push(invalid_shown("spec.updateStrategy", &shown_strategy(strategy), words));
        }
    }
}

fn strategy_not_supported(field: &str, strategy: &Value, allowed: &[&str], found: &mut Vec<Wrong>) {
    let list: Vec<String> = allowed.iter().map(|one| format!("{one:?}")).collect();
    let detail = format!("{}: supported values: {}", shown_strategy(strategy), list.join(", "));
    found.push(Wrong { field: field.to_owned(), kind: WrongKind::NotSupported, detail });
}

fn shown_strategy(strategy: &Value) -> String {
    let rolling = if strategy.get("rollingUpdate").is_some() { ELIDED } else { "null" };
    format!("{{\"Type\":{},\"RollingUpdate\":{rolling}}}", strategy["type"])
}

pub fn number_or_percentage(value: &Value, field: &str, found: &mut Vec<Wrong>) {
    match value {
        Value::String(text) => invalid_each(found, field, text, names::percentage(text)),
        Value::Number(number) if number.as_i64().is_some_and(|number| number < 0) => {
            found.push(Wrong::invalid(field, value, "must be greater than or equal to 0"));
        }
        _ => {}
    }
}

pub fn at_most_all(value: &Value, field: &str, found: &mut Vec<Wrong>) {
    if value.is_string() && amount(value) > 100 {
        found.push(Wrong::invalid(field, value, "must not be greater than 100%"));
    }
}

fn amount(value: &Value) -> i64 {
    match value {
        Value::String(text) => text.strip_suffix('%').unwrap_or(text).parse().unwrap_or_default(),
        value => value.as_i64().unwrap_or_default(),
    }
}

pub fn selector_immutable(before: &Value, after: &Value, found: &mut Vec<Wrong>) {
    let (before, after) = (&before["selector"], &after["selector"]);
    metadata::immutable_as(found, "spec.selector", before, after, &selector::shown(after));
}

pub fn stateful_set_updated(before: &Value, after: &Value, found: &mut Vec<Wrong>) {
    const MAY_CHANGE: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let rest = |spec: &Value| {
        let mut spec = spec.as_object().cloned().unwrap_or_default();
        spec.retain(|field, _| !MAY_CHANGE.contains(&field.as_str()));
        spec
    };
    if rest(before) != rest(after) {
        let words = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                     'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                     'minReadySeconds' are forbidden";
        found.push(Wrong::forbidden("spec", words));
    }
}
