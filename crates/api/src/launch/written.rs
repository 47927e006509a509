//! Reads the launch order that a pod or a pod template requests, from its JSON.

use rollcall_core::gates;
use rollcall_core::launch::ranks::{
    ORDERED_KEY, Spelling, Value as Written, Variable, WrittenContainer, WrittenPod, is_variable,
};
use serde_json::Value;

/// Whether a pod requests a launch order. Equivalent to the `matchConditions` of `config/webhook/launch.yaml`.
pub fn asks_for_order(pod: &Value) -> bool {
    let written = written_pod(pod);
    let mut variables =
        written.containers.iter().chain(&written.init_containers).flat_map(|own| &own.variables);
    let is_priority = |name: &str| Spelling::ALL.iter().any(|spelling| spelling.priority_variable() == name);
    !written.ordered.is_empty() || variables.any(|variable| is_priority(variable.name))
}

/// Returns the settings of a pod or template that concern the launch order of its containers.
pub fn written_pod(pod: &Value) -> WrittenPod<'_> {
    let (metadata, spec) = (&pod["metadata"], &pod["spec"]);
    let ordered = ["labels", "annotations"].iter().filter_map(|map| metadata[map][ORDERED_KEY].as_str());
    let mut gates = items(&spec["schedulingGates"]);
    WrittenPod {
        name: metadata["name"].as_str().unwrap_or_default(),
        ordered: ordered.collect(),
        reviewed: gates.any(|gate| gate["name"] == gates::LAUNCH)
            || spec["nodeName"].as_str().is_some_and(|node| !node.is_empty()),
        containers: items(&spec["containers"]).map(container).collect(),
        init_containers: items(&spec["initContainers"])
            .map(container)
            .filter(|container| !container.variables.is_empty())
            .collect(),
        plain_containers: 0,
    }
}

fn container(container: &Value) -> WrittenContainer<'_> {
    let variables = items(&container["env"]).filter_map(|variable| {
        let name = variable["name"].as_str().filter(|name| is_variable(name))?;
        Some(Variable { name, value: value(variable) })
    });
    WrittenContainer { name: container["name"].as_str().unwrap_or_default(), variables: variables.collect() }
}

fn value(variable: &Value) -> Written<'_> {
    let from = &variable["valueFrom"];
    let reference = &from["configMapKeyRef"];
    match (from.is_null(), reference["key"].as_str()) {
        (true, _) => Written::Text(variable["value"].as_str().unwrap_or_default()),
        (false, Some(key)) if reference["optional"] != true => {
            Written::ConfigMapKey { config_map: reference["name"].as_str().unwrap_or_default(), key }
        }
        (false, _) => Written::Other,
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}
