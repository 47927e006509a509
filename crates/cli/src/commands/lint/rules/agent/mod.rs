//! What runs on nodes, and who waits for it there. Which containers wait and which keep a marker is for the core to say.

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

/// The containers of a template as the core sees them, each with its field; none where they cannot be read.
fn seen<'a>(template: &Template<'a>) -> Vec<(Field<'a>, Container)> {
    let facts = containers(template.spec.value).unwrap_or_default();
    template.all_containers().into_iter().zip(facts).collect()
}

/// What is left of a path below a folder, with its `/`.
fn rest_below<'a>(path: &'a str, folder: &str) -> Option<&'a str> {
    path.strip_prefix(folder.trim_end_matches('/')).filter(|rest| rest.starts_with('/'))
}

/// The host paths of the markers that a DaemonSet keeps: by its annotation, or by what its containers do.
fn markers(template: &Template) -> Vec<String> {
    let said = template.object.field("metadata.annotations").get(names::MARKER).text();
    if !said.is_empty() {
        return said.split(',').map(|path| path.trim().to_owned()).collect();
    }
    let kept = seen(template).into_iter().flat_map(|(_, container)| container.keeps());
    kept.filter_map(|found| found.host).collect()
}

/// The DaemonSets for which others wait on their node: they keep a marker, or a later group of Node scope follows them.
pub fn awaited_agents<'a>(all: &'a Scene) -> Vec<Template<'a>> {
    let claims = all.claims();
    let awaited = |template: &Template| {
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
