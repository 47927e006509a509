//! Loads Orders and tickets with related objects: nodes, priority classes, guardians, and other pods on the nodes.

use super::{Loaded, has_code, list};
use crate::connect::Connection;
use anyhow::{Result, anyhow};
use jiff::Timestamp;
use kube::api::ListParams;
use rollcall_api::load::Loader;
use rollcall_api::names;
use rollcall_api::reservation::{OrderObject, PriorityClassObject, TicketObject};
use rollcall_api::resource::Resource;
use rollcall_api::watch::{NodeObject, PodObject};
use rollcall_core::cluster::Target;
use rollcall_core::index::Index;
use rollcall_core::kind::Kind;
use rollcall_core::reservation::eligible::{Fit, fit};
use rollcall_core::reservation::explain::{Occupant, Room};
use rollcall_core::reservation::spec::Ticket;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Lists the Orders of one namespace, or of all namespaces.
pub async fn orders(connection: &Connection, namespace: Option<&str>) -> Result<Vec<OrderObject>> {
    listed(connection, Kind::Order, namespace)
        .await
        .map_err(|error| unlisted(connection, error, Kind::Order, namespace))
}

/// Lists the tickets of one namespace, or of all namespaces.
pub async fn tickets(connection: &Connection, namespace: Option<&str>) -> Result<Vec<TicketObject>> {
    let found = listed(connection, Kind::Ticket, namespace).await;
    found.map_err(|error| unlisted(connection, error, Kind::Ticket, namespace))
}

async fn listed<T: DeserializeOwned + Clone>(
    connection: &Connection,
    kind: Kind,
    namespace: Option<&str>,
) -> Result<Vec<T>, kube::Error> {
    list(connection, &Resource::from_kind(kind).path(namespace), &ListParams::default()).await
}

fn unlisted(
    connection: &Connection,
    error: kube::Error,
    kind: Kind,
    namespace: Option<&str>,
) -> anyhow::Error {
    if has_code(&error, 404) {
        let install = format!("{} install --mode full | kubectl apply -f -", crate::cli::program());
        return anyhow!(
            "Orders and Tickets are not installed in the cluster at {}; run: {install}",
            connection.server
        );
    }
    let place =
        namespace.map_or("in all namespaces".to_owned(), |namespace| format!("in namespace {namespace}"));
    connection.explained(error, &format!("list {} {place}", Resource::from_kind(kind).plural))
}

/// Objects that were loaded in addition to the index.
pub struct Objects {
    pub orders: Vec<OrderObject>,
    pub tickets: Vec<TicketObject>,
    /// `None` if the caller is not permitted to list nodes.
    pub nodes: Option<Vec<NodeObject>>,
    /// Whether the pods of the namespace could be read.
    pub pods_known: bool,
}

/// Loads a namespace: its pods, and all objects that its Orders and tickets depend on.
pub async fn load(connection: &Connection, namespace: &str, now: Timestamp) -> Result<(Loaded, Objects)> {
    let path = Resource::from_kind(Kind::Pod).path(Some(namespace));
    let (mut gaps, mut pods_known) = (Vec::new(), true);
    let pods: Vec<PodObject> = match list(connection, &path, &ListParams::default()).await {
        Ok(pods) => pods,
        Err(error) if has_code(&error, 403) => {
            gaps.push(format!(
                "not allowed to list pods in namespace {namespace}: guardians and claiming pods are unknown"
            ));
            pods_known = false;
            Vec::new()
        }
        Err(error) => return Err(connection.explained(error, &format!("list pods in namespace {namespace}"))),
    };
    let mut loader = Loader::into_index(Index::of_full_mode());
    loader.add(Kind::Pod, &pods);
    let index = loader.index;
    let pod_names = pods.into_iter().map(|pod| pod.metadata.name).collect();
    let mut loaded = Loaded { index, namespace: namespace.to_owned(), pod_names, gaps };
    let objects = Objects { pods_known, ..add(connection, &mut loaded, now).await? };
    Ok((loaded, objects))
}

/// Like [`load`], for a namespace whose pods are already loaded.
pub async fn add(connection: &Connection, loaded: &mut Loaded, now: Timestamp) -> Result<Objects> {
    let namespace = loaded.namespace.clone();
    let orders = orders(connection, Some(&namespace)).await?;
    let tickets = tickets(connection, Some(&namespace)).await?;
    let nodes: Option<Vec<NodeObject>> = match listed(connection, Kind::Node, None).await {
        Ok(nodes) => Some(nodes),
        Err(error) if has_code(&error, 403) => {
            loaded.gaps.push("not allowed to list nodes: the nodes that get a ticket are unknown".into());
            None
        }
        Err(error) => return Err(connection.explained(error, "list nodes")),
    };
    let classes: Vec<PriorityClassObject> = match listed(connection, Kind::PriorityClass, None).await {
        Ok(classes) => classes,
        Err(error) if has_code(&error, 403) => {
            loaded
                .gaps
                .push("not allowed to list priorityclasses: the priorities of tickets are not known".into());
            Vec::new()
        }
        Err(error) => return Err(connection.explained(error, "list priorityclasses")),
    };
    let objects = Objects { orders, tickets, nodes, pods_known: true };
    let index = std::mem::take(&mut loaded.index);
    loaded.index = filled(index, &objects, &classes, now);
    Ok(objects)
}

/// Adds Orders, tickets and the objects that they depend on to an index.
pub fn filled(index: Index, objects: &Objects, classes: &[PriorityClassObject], now: Timestamp) -> Index {
    let Objects { orders, tickets, nodes, .. } = objects;
    let mut loader = Loader::into_index(index);
    loader.add(Kind::Node, nodes.as_deref().unwrap_or_default());
    loader.add(Kind::PriorityClass, classes);
    loader.add(Kind::Ticket, tickets);
    loader.add(Kind::Order, orders);
    loader.finish(now)
}

/// Loads the possible nodes of a ticket, with all pods on them.
pub async fn rooms(
    connection: &Connection,
    objects: &Objects,
    ticket: &Ticket,
    gaps: &mut Vec<String>,
) -> Result<Vec<Room>> {
    if objects.nodes.is_none() {
        return Ok(Vec::new());
    }
    // Pods that have ended occupy no capacity.
    let there = "status.phase!=Succeeded,status.phase!=Failed";
    let params = ListParams::default().fields(&match &ticket.node {
        Some(node) => format!("spec.nodeName={node},{there}"),
        None => format!("spec.nodeName!=,{there}"),
    });
    match list(connection, &Resource::from_kind(Kind::Pod).path(None), &params).await {
        Ok(pods) => Ok(rooms_of(objects, ticket, &pods)),
        Err(error) if has_code(&error, 403) => {
            gaps.push("not allowed to list pods in all namespaces: the pods on the nodes are unknown".into());
            Ok(Vec::new())
        }
        Err(error) => Err(connection.explained(error, "list pods in all namespaces")),
    }
}

/// Like [`rooms`], with pods that are already loaded.
pub fn rooms_of(objects: &Objects, ticket: &Ticket, pods: &[PodObject]) -> Vec<Room> {
    let Ok(spec) = &ticket.spec else { return Vec::new() };
    let possible = |node: &&NodeObject| {
        ticket.node.as_deref().is_none_or(|pinned| node.metadata.name == pinned)
            && !matches!(fit(&spec.placement, &node.facts()), Fit::Unfit(_))
    };
    let mut rooms: BTreeMap<Arc<str>, Room> = BTreeMap::new();
    for node in objects.nodes.iter().flatten().filter(possible) {
        let name: Arc<str> = node.metadata.name.as_str().into();
        let room = Room { node: name.clone(), allocatable: node.allocatable(), pods: Vec::new() };
        rooms.insert(name, room);
    }
    for pod in pods {
        let facts = pod.facts();
        let Some(room) = facts.node.as_ref().and_then(|node| rooms.get_mut(node)) else { continue };
        let (requests, priority) = (pod.requests(), pod.priority());
        room.pods.push(Occupant { pod: Target::of_pod(&facts), since: facts.created, requests, priority });
    }
    rooms.into_values().collect()
}

/// Returns the ticket that a pod has claimed while it still has its ticket gate. `None` also if the tickets cannot be read.
pub async fn claimed_by(
    connection: &Connection,
    namespace: &str,
    pod: &rollcall_core::facts::Pod,
) -> Option<Ticket> {
    let carries = pod.gates.iter().any(|gate| **gate == *names::TICKET_GATE);
    if !carries {
        return None;
    }
    let tickets = tickets(connection, Some(namespace)).await.ok()?;
    let claimed = |ticket: &Ticket| ticket.claim().is_some_and(|claim| claim.pod == pod.uid);
    tickets.iter().map(TicketObject::facts).find(claimed)
}
