//! Orders, tickets and what they rest on: nodes, classes, guardians, and who else is on a node.

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
use rollcall_core::reservation::explain::{Room, Sitter};
use rollcall_core::reservation::spec::Ticket;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The Orders of a namespace, or of all.
pub async fn orders(connection: &Connection, namespace: Option<&str>) -> Result<Vec<OrderObject>> {
    listed(connection, Kind::Order, namespace)
        .await
        .map_err(|error| unlisted(connection, error, Kind::Order, namespace))
}

/// The tickets of a namespace, or of all.
pub async fn tickets(connection: &Connection, namespace: Option<&str>) -> Result<Vec<TicketObject>> {
    let found = listed(connection, Kind::Ticket, namespace).await;
    found.map_err(|error| unlisted(connection, error, Kind::Ticket, namespace))
}

async fn listed<T: DeserializeOwned + Clone>(
    connection: &Connection,
    kind: Kind,
    namespace: Option<&str>,
) -> Result<Vec<T>, kube::Error> {
    list(connection, &Resource::of(kind).path(namespace), &ListParams::default()).await
}

fn unlisted(
    connection: &Connection,
    error: kube::Error,
    kind: Kind,
    namespace: Option<&str>,
) -> anyhow::Error {
    if has_code(&error, 404) {
        let install = format!("{} install --mode full | kubectl apply -f -", crate::cli::program());
        return anyhow!("the cluster at {} does not know Orders and Tickets; {install}", connection.server);
    }
    let place =
        namespace.map_or("in all namespaces".to_owned(), |namespace| format!("in namespace {namespace}"));
    connection.explained(error, &format!("list {} {place}", Resource::of(kind).plural))
}

/// What was read besides what is in the index.
pub struct Objects {
    pub orders: Vec<OrderObject>,
    pub tickets: Vec<TicketObject>,
    /// `None` if they may not be read.
    pub nodes: Option<Vec<NodeObject>>,
    /// Whether the pods of the namespace could be read.
    pub pods_known: bool,
}

/// A namespace with its pods and all that its Orders and tickets rest on.
pub async fn load(connection: &Connection, namespace: &str, now: Timestamp) -> Result<(Loaded, Objects)> {
    let path = Resource::of(Kind::Pod).path(Some(namespace));
    let (mut gaps, mut pods_known) = (Vec::new(), true);
    let pods: Vec<PodObject> = match list(connection, &path, &ListParams::default()).await {
        Ok(pods) => pods,
        Err(error) if has_code(&error, 403) => {
            gaps.push(format!(
                "not allowed to list pods in namespace {namespace}: guardians and the pods that want a ticket are not seen"
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

/// The same for a namespace whose pods are known already.
pub async fn add(connection: &Connection, loaded: &mut Loaded, now: Timestamp) -> Result<Objects> {
    let namespace = loaded.namespace.clone();
    let orders = orders(connection, Some(&namespace)).await?;
    let tickets = tickets(connection, Some(&namespace)).await?;
    let nodes: Option<Vec<NodeObject>> = match listed(connection, Kind::Node, None).await {
        Ok(nodes) => Some(nodes),
        Err(error) if has_code(&error, 403) => {
            loaded.gaps.push("not allowed to list nodes: which of them get a ticket is not known".into());
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

/// An index with Orders, tickets and what they rest on added to it.
pub fn filled(index: Index, objects: &Objects, classes: &[PriorityClassObject], now: Timestamp) -> Index {
    let Objects { orders, tickets, nodes, .. } = objects;
    let mut loader = Loader::into_index(index);
    loader.add(Kind::Node, nodes.as_deref().unwrap_or_default());
    loader.add(Kind::PriorityClass, classes);
    loader.add(Kind::Ticket, tickets);
    loader.add(Kind::Order, orders);
    loader.finish(now)
}

/// The nodes on which a ticket could be, with everybody who is there.
pub async fn rooms(
    connection: &Connection,
    objects: &Objects,
    ticket: &Ticket,
    gaps: &mut Vec<String>,
) -> Result<Vec<Room>> {
    if objects.nodes.is_none() {
        return Ok(Vec::new());
    }
    // What has ended takes no room.
    let there = "status.phase!=Succeeded,status.phase!=Failed";
    let params = ListParams::default().fields(&match &ticket.node {
        Some(node) => format!("spec.nodeName={node},{there}"),
        None => format!("spec.nodeName!=,{there}"),
    });
    match list(connection, &Resource::of(Kind::Pod).path(None), &params).await {
        Ok(pods) => Ok(rooms_of(objects, ticket, &pods)),
        Err(error) if has_code(&error, 403) => {
            gaps.push(
                "not allowed to list pods in all namespaces: who sits on the nodes is not known".into(),
            );
            Ok(Vec::new())
        }
        Err(error) => Err(connection.explained(error, "list pods in all namespaces")),
    }
}

/// The same, of pods that are known.
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
        room.pods.push(Sitter { pod: Target::of_pod(&facts), since: facts.created, requests, priority });
    }
    rooms.into_values().collect()
}

/// The ticket that a pod has claimed and does not run in yet, if it may be read.
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
