//! The short notation of objects in scenarios, without fields that are always the same.
//!
//! - `apiVersion` is derived from `kind`. `name`, `labels`, `annotations` and `finalizers` are top-level fields, also in
//!   templates.
//! - `app: web` is the label of pods, and the selector of their owner.
//! - Annotations without a prefix determine the behaviour of pods.
//! - A pod without containers gets a container `main`.

use super::clusters::{node, room};
use super::side::kind;
use anyhow::{Context, Result};
use rollcall_sim::kinds::Kind;
use serde_json::{Map, Value, json};

const PREFIX: &str = "testbed.rollcall.dev/";

/// The complete object, in the given namespace if its kind is namespaced.
pub fn whole(short: &Value, namespace: &str) -> Result<(Kind, Value)> {
    let name = short["kind"].as_str().context("an object without kind")?;
    let kind = kind(name)?;
    if kind == Kind::Node {
        return Ok((kind, whole_node(short, namespace)));
    }
    let mut object = short.clone();
    object["apiVersion"] = kind.info().api_version().into();
    let app = object.as_object_mut().and_then(|fields| fields.remove("app"));
    if kind.info().namespaced {
        object["metadata"]["namespace"] = namespace.into();
    }
    lift_metadata(&mut object);
    match kind {
        Kind::Pod => {
            if let Some(app) = app {
                object["metadata"]["labels"]["app"] = app;
            }
            add_container(&mut object["spec"]);
        }
        Kind::Deployment | Kind::ReplicaSet | Kind::StatefulSet | Kind::DaemonSet => {
            if let Some(app) = app {
                object["spec"]["selector"] = json!({ "matchLabels": { "app": app } });
                object["spec"]["template"]["labels"]["app"] = app;
            }
            complete_template(&mut object["spec"]["template"]);
        }
        Kind::Job => complete_template(&mut object["spec"]["template"]),
        Kind::CronJob => complete_template(&mut object["spec"]["jobTemplate"]["spec"]["template"]),
        _ => {}
    }
    Ok((kind, object))
}

fn whole_node(short: &Value, namespace: &str) -> Value {
    let text = |field: &str, usual: &str| short[field].as_str().unwrap_or(usual).to_owned();
    let room = room(&text("cpu", "8"), &text("memory", "32Gi"), &text("pods", "110"));
    let mut more = short.clone();
    more["labels"]["scenario"] = namespace.into();
    node(&text("name", ""), &more, &room)
}

fn lift_metadata(object: &mut Value) {
    for field in ["name", "generateName", "labels", "annotations", "finalizers"] {
        if let Some(value) = object.as_object_mut().and_then(|fields| fields.remove(field)) {
            object["metadata"][field] = value;
        }
    }
    if let Some(metadata) = object.get_mut("metadata") {
        prefix_annotations(metadata);
    }
}

pub fn prefix_annotations(metadata: &mut Value) {
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        let own = std::mem::take(annotations);
        let prefixed = |(name, value): (String, Value)| match name.contains('/') {
            true => (name, value),
            false => (format!("{PREFIX}{name}"), value),
        };
        *annotations = own.into_iter().map(prefixed).collect::<Map<_, _>>();
    }
}

fn complete_template(template: &mut Value) {
    lift_metadata(template);
    add_container(&mut template["spec"]);
}

fn add_container(spec: &mut Value) {
    if !spec["containers"].is_array() {
        spec["containers"] = json!([{ "name": "main", "image": "app:1" }]);
    }
}
