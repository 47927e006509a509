//! Label and field selectors in the notation of a query.

use super::refusal::Refusal;
use super::rules::label_value;
use crate::kinds::Kind;
use serde_json::Value;

/// Selects objects by labels and fields.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    labels: Vec<Requirement>,
    fields: Vec<(String, bool, String)>,
}

#[derive(Clone, Debug)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

impl Wanted {
    pub fn parse(kind: Kind, labels: &str, fields: &str) -> Result<Wanted, Refusal> {
        let (labels, fields) = (parse_labels(labels)?, parse_fields(fields)?);
        match fields.iter().find_map(|(field, ..)| unknown_field(kind, field)) {
            Some(why) => Err(Refusal::bad_request(why)),
            None => Ok(Wanted { labels, fields }),
        }
    }

    pub fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub fn matches(&self, object: &Value) -> bool {
        self.labels.iter().all(|requirement| requirement.matches(object))
            && self.fields.iter().all(|(field, equal, value)| (field_of(object, field) == *value) == *equal)
    }
}

impl Requirement {
    fn matches(&self, object: &Value) -> bool {
        let label = |key: &str| object["metadata"]["labels"][key].as_str();
        let among =
            |key: &str, values: &[String]| label(key).map(|is| values.iter().any(|value| value == is));
        match self {
            Requirement::In(key, values) => among(key, values) == Some(true),
            Requirement::NotIn(key, values) => among(key, values) != Some(true),
            Requirement::Exists(key) => label(key).is_some(),
            Requirement::Absent(key) => label(key).is_none(),
        }
    }
}

/// The value of a field such as `spec.nodeName`; empty if missing.
fn field_of(object: &Value, field: &str) -> String {
    let value = field.split('.').fold(object, |value, name| &value[name]);
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// The selectable fields of a kind, besides name and namespace; `None` if it has no others.
fn selectable(kind: Kind) -> Option<&'static [&'static str]> {
    Some(match kind {
        Kind::Pod => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        Kind::Node => &["spec.unschedulable"],
        Kind::Namespace => &["status.phase"],
        Kind::Secret => &["type"],
        Kind::Service => &["spec.clusterIP", "spec.type"],
        Kind::Job => &["status.successful"],
        Kind::Event => {
            &["regarding.kind", "regarding.namespace", "regarding.name", "regarding.uid", "reason", "type"]
        }
        _ if kind.custom().is_some() => &[],
        _ => return None,
    })
}

fn unknown_field(kind: Kind, field: &str) -> Option<String> {
    let known = field == "metadata.name" || field == "metadata.namespace" && kind != Kind::Node;
    match selectable(kind) {
        _ if known => None,
        None => Some(format!(
            "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        )),
        Some(fields) if fields.contains(&field) => None,
        Some(_) => Some(format!("field label not supported: {field}")),
    }
}

fn parse_labels(text: &str) -> Result<Vec<Requirement>, Refusal> {
    split_outside_brackets(text).into_iter().map(parse_requirement).collect()
}

fn split_outside_brackets(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut from) = (Vec::new(), 0, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts.into_iter().map(str::trim).filter(|part| !part.is_empty()).collect()
}

fn parse_requirement(part: &str) -> Result<Requirement, Refusal> {
    let refuse = |why: String| Refusal::bad_request(format!("unable to parse requirement: {why}"));
    let unreadable = || refuse(unreadable(part));
    let owned = |text: &str| text.trim().to_owned();
    if let Some(key) = part.strip_prefix('!') {
        return Ok(Requirement::Absent(owned(key)));
    }
    let checked = |key: &str, value: &str| match label_value(value.trim()).first() {
        Some(why) => {
            let (key, value) = (key.trim(), value.trim());
            Err(refuse(format!("values[0][{key}]: Invalid value: {value:?}: {why}")))
        }
        None => Ok(vec![owned(value)]),
    };
    if let Some((key, value)) = part.split_once("!=") {
        return Ok(Requirement::NotIn(owned(key), checked(key, value)?));
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return Ok(Requirement::In(owned(key), checked(key, value)?));
    }
    let Some((head, values)) = part.split_once('(') else {
        return match part.split_whitespace().count() {
            1 => Ok(Requirement::Exists(owned(part))),
            _ => Err(unreadable()),
        };
    };
    let values = values.strip_suffix(')').ok_or_else(unreadable)?.split(',').map(owned).collect();
    match head.split_whitespace().collect::<Vec<_>>()[..] {
        [key, "in"] => Ok(Requirement::In(key.to_owned(), values)),
        [key, "notin"] => Ok(Requirement::NotIn(key.to_owned(), values)),
        _ => Err(unreadable()),
    }
}

/// The token that the server expected.
fn unreadable(part: &str) -> String {
    match part.split_whitespace().collect::<Vec<_>>()[..] {
        [_, "in" | "notin", found, ..] => format!("found '{found}' expected: '('"),
        [_, found, ..] => format!("found '{found}', expected: in, notin, =, ==, !=, gt, lt"),
        _ => format!("{part:?}"),
    }
}

fn parse_fields(text: &str) -> Result<Vec<(String, bool, String)>, Refusal> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let parse = |part: &str| {
        let (field, equal, value) = match part.split_once("!=") {
            Some((field, value)) => (field, false, value),
            None => {
                let split = part.split_once("==").or_else(|| part.split_once('='));
                let (field, value) = split.ok_or_else(|| {
                    Refusal::bad_request(format!("invalid selector: '{part}'; can't understand '{part}'"))
                })?;
                (field, true, value)
            }
        };
        Ok((field.trim().to_owned(), equal, value.trim().to_owned()))
    };
    parts.map(parse).collect()
}

/// Whether a LabelSelector of a workload selects an object.
pub fn selects(selector: &Value, labels: &Value) -> bool {
    let equal = selector["matchLabels"].as_object().into_iter().flatten();
    let expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    let holds = |expression: &Value| {
        let value = labels[expression["key"].as_str().unwrap_or_default()].as_str();
        let values = expression["values"].as_array().map(Vec::as_slice).unwrap_or_default();
        let listed = value.is_some_and(|value| values.iter().any(|one| one == value));
        match expression["operator"].as_str() {
            Some("In") => listed,
            Some("NotIn") => !listed,
            Some("Exists") => value.is_some(),
            Some("DoesNotExist") => value.is_none(),
            _ => false,
        }
    };
    equal.into_iter().all(|(key, value)| labels[key] == *value) && expressions.into_iter().all(holds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_form_of_a_query() {
        let object = json!({ "metadata": { "name": "x", "labels": { "app": "db", "tier": "back" } }, "spec": { "nodeName": "n1" } });
        let matches = |labels: &str, fields: &str| {
            Wanted::parse(Kind::Pod, labels, fields).expect("it parses").matches(&object)
        };
        for yes in
            ["", "app=db", "app==db", "app", "!gone", "app in (db, web)", "app notin (web)", "app!=web,tier"]
        {
            assert!(matches(yes, ""), "{yes}");
        }
        for no in ["app=web", "!app", "gone", "app notin (db)", "app in (web),tier=back"] {
            assert!(!matches(no, ""), "{no}");
        }
        assert!(matches("", "spec.nodeName=n1,metadata.name!=y"));
        assert!(!matches("", "spec.nodeName="));
        assert!(Wanted::parse(Kind::Pod, "a b", "").is_err());
        assert!(Wanted::parse(Kind::Pod, "", "nonsense").is_err());
        assert!(Wanted::parse(Kind::Pod, "", "spec.hostname=x").is_err());
        assert!(Wanted::parse(Kind::Deployment, "", "spec.nodeName=x").is_err());
    }
}
