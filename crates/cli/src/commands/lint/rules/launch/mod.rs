//! Rules about the launch order of containers in a pod, as the core reads it.

pub mod ignored;
pub mod native_sidecar;
pub mod nothing_to_order;
pub mod refused;

use super::prelude::*;
use rollcall_api::launch::{asks_for_order, written_pod};
use rollcall_core::launch::ranks::{self, ORDERED_KEY, Problem, Reading, is_variable};

/// The reading of each template that requests a launch order.
fn readings<'a>(all: &'a Manifests) -> Vec<(PodTemplate<'a>, Result<Reading, Problem>)> {
    let mut templates = templates(all);
    templates.retain(|template| asks_for_order(template.pod.value));
    templates
        .into_iter()
        .map(|template| {
            let reading = ranks::read(&written_pod(template.pod.value));
            (template, reading)
        })
        .collect()
}

/// The environment variable that sets the priority of a container.
fn variable<'a>(container: &Field<'a>) -> Option<Field<'a>> {
    let variables = container.get("env").items().into_iter();
    variables.map(|one| one.get("name")).find(|name| is_variable(name.text()))
}

/// The field that requests the launch order: the label, the annotation, or the first variable.
fn place<'a>(template: &PodTemplate<'a>) -> Field<'a> {
    let ordered = ["labels", "annotations"].map(|map| template.metadata.get(map).get(ORDERED_KEY));
    let ordered = ordered.into_iter().find(|field| !field.is_missing());
    let written = || template.all_containers().iter().find_map(variable);
    ordered.or_else(written).unwrap_or_else(|| template.spec.clone())
}
