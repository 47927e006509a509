//! Rules about node agents and the pods that wait for them on their node. The core recognises which containers wait for a marker
//! file and which write one.

pub mod foreign_marker;
pub mod no_readiness;
pub mod no_timeout;
pub mod not_propagated;
pub mod not_shared_with_host;
pub mod shared_marker;

use super::prelude::*;
use crate::commands::explain::containers;
use rollcall_api::names;
use rollcall_core::agent::recognise::Container;
use rollcall_core::sequence::spec::Scope;

/// Containers of a template as the core recognises them, each with its field; empty if they cannot be parsed.
fn seen<'a>(template: &PodTemplate<'a>) -> Vec<(Field<'a>, Container)> {
    let facts = containers(template.spec.value).unwrap_or_default();
    template.all_containers().into_iter().zip(facts).collect()
}

/// Returns the part of a path below a directory, with its leading `/`.
fn rest_below<'a>(path: &'a str, folder: &str) -> Option<&'a str> {
    path.strip_prefix(folder.trim_end_matches('/')).filter(|rest| rest.starts_with('/'))
}

/// Host paths of the markers that a DaemonSet writes, from its annotation or else from its containers.
fn markers(template: &PodTemplate) -> Vec<String> {
    let said = template.object.field("metadata.annotations").get(names::MARKER).text();
    if !said.is_empty() {
        return said.split(',').map(|path| path.trim().to_owned()).collect();
    }
    let kept = seen(template).into_iter().flat_map(|(_, container)| container.keeps());
    kept.filter_map(|found| found.host).collect()
}

/// DaemonSets that other pods wait for on their node: they write a marker, or a later group of scope Node follows them.
pub fn awaited_agents<'a>(all: &'a ManifestFacts) -> Vec<PodTemplate<'a>> {
    let claims = all.claims();
    let awaited = |template: &PodTemplate| {
        claims.each().any(|(sequence, position, claimed)| {
            sequence.spec.scope == Scope::Node
                && std::ptr::eq(claimed.object, template.object)
                && sequence.spec.groups.iter().any(|later| later.after.contains(&position))
        })
    };
    let mut agents = templates_of(all, Kind::DaemonSet);
    agents.retain(|template| awaited(template) || !markers(template).is_empty());
    agents
}
