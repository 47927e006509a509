//! Explains Orders, tickets, and pods that request a ticket.

use super::unseen_by;
use crate::connect::Connection;
use crate::load::Loaded;
use crate::load::reservation::{Objects, add, load, rooms};
use crate::similar::suggestion;
use anyhow::{Context, Result, anyhow};
use jiff::Timestamp;
use rollcall_api::reservation::OrderObject;
use rollcall_api::watch::Meta;
use rollcall_core::line::Line;
use rollcall_core::reservation::explain::{
    FetchedData, Rooms, Written, explain_order, explain_ticket, without_room,
};
use rollcall_core::reservation::spec::Ticket;
use rollcall_core::reservation::ticket::NO_ROOM;

pub async fn order(connection: &Connection, name: &str, now: Timestamp) -> Result<(Loaded, Line)> {
    let (mut loaded, objects) = load(connection, &connection.namespace, now).await?;
    let object = order_named(&loaded, &objects, name)?;
    let facts = loaded.index.reservation_facts();
    let crowded: Vec<Ticket> = match facts.reservations.order(object.metadata.uid()) {
        Some(entry) => without_room(facts, entry).into_iter().cloned().collect(),
        None => Vec::new(),
    };
    let mut occupied = Rooms::new();
    for ticket in crowded {
        let there = rooms(connection, &objects, &ticket, &mut loaded.gaps).await?;
        occupied.insert(ticket.uid, there);
    }
    loaded.gaps.dedup();
    let line = order_line(&loaded, &objects, object, &occupied, now)?;
    Ok((loaded, line))
}

fn order_named<'a>(loaded: &Loaded, objects: &'a Objects, name: &str) -> Result<&'a OrderObject> {
    let metadata = objects.orders.iter().map(|order| &order.metadata);
    named(metadata, "order", &loaded.namespace, name).map(|there| &objects.orders[there])
}

fn order_line(
    loaded: &Loaded,
    objects: &Objects,
    object: &OrderObject,
    rooms: &Rooms,
    now: Timestamp,
) -> Result<Line> {
    let facts = loaded.index.reservation_facts();
    let entry = facts
        .reservations
        .order(object.metadata.uid())
        .context("the Order was deleted while this command ran; run it again")?;
    let status = object.status().unwrap_or_default();
    unseen_by(&object.metadata, status.observed_generation);
    let message = status.message.as_deref().unwrap_or("none");
    let written = Written { since: ready_since(object), message, nodes_known: objects.nodes.is_some() };
    Ok(explain_order(facts, entry, &written, rooms, now))
}

fn ready_since(order: &OrderObject) -> Option<Timestamp> {
    let conditions = order.status()?.conditions;
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready")?;
    Some(ready.last_transition_time.0)
}

pub async fn ticket(connection: &Connection, name: &str, now: Timestamp) -> Result<(Loaded, Line)> {
    let (mut loaded, objects) = load(connection, &connection.namespace, now).await?;
    let metadata = objects.tickets.iter().map(|ticket| &ticket.metadata);
    let there = named(metadata, "ticket", &loaded.namespace, name)?;
    let object = &objects.tickets[there];
    unseen_by(&object.metadata, object.status().and_then(|status| status.observed_generation));
    let facts = object.facts();
    let occupied = match *facts.record.reason == *NO_ROOM {
        true => rooms(connection, &objects, &facts, &mut loaded.gaps).await?,
        false => Vec::new(),
    };
    let fetched = FetchedData { rooms: &occupied, pods_known: objects.pods_known };
    let line = explain_ticket(loaded.index.reservation_facts(), &facts, fetched, now);
    Ok((loaded, line))
}

/// Loads the objects that a pod with a ticket request waits for. If they cannot be read, the explanation covers only the gate.
pub async fn look(connection: &Connection, loaded: &mut Loaded, name: &str, now: Timestamp) -> Result<()> {
    if loaded.pod(name)?.request.is_none() {
        return Ok(());
    }
    match add(connection, loaded, now).await {
        Ok(objects) if objects.orders.is_empty() && objects.tickets.is_empty() => {
            loaded.gaps.push(format!("namespace {} has no Orders and no tickets", loaded.namespace));
        }
        Ok(_) => {}
        Err(error) => loaded.gaps.push(error.to_string()),
    }
    Ok(())
}

/// Returns the position of the object with this name, or an error that suggests similar names.
fn named<'a>(
    there: impl Iterator<Item = &'a Meta> + Clone,
    kind: &str,
    namespace: &str,
    name: &str,
) -> Result<usize> {
    there.clone().position(|meta| meta.name == name).ok_or_else(|| {
        let names = there.map(|meta| meta.name.as_str());
        anyhow!("no {kind} {name} in namespace {namespace}{}", suggestion(name, names))
    })
}

#[cfg(test)]
mod tests {
    use super::super::node::{CommandStyle, Node};
    use super::super::render;
    use super::*;
    use crate::load::reservation::{filled, rooms_of};
    use crate::testing;
    use rollcall_api::load::Loader;
    use rollcall_api::names;
    use rollcall_api::reservation::TicketObject;
    use rollcall_api::watch::{NodeObject, PodObject};
    use rollcall_core::dispatch::explain_pod;
    use rollcall_core::index::Index;
    use rollcall_core::kind::Kind;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    fn read<T: DeserializeOwned>(objects: &[Value]) -> Vec<T> {
        objects.iter().map(|object| serde_json::from_value(object.clone()).expect("an object")).collect()
    }

    fn node(name: &str) -> Value {
        json!({
            "metadata": { "name": name, "uid": name, "resourceVersion": "5", "creationTimestamp": "2026-11-15T22:00:00Z" },
            "status": { "allocatable": { "cpu": "4" }, "conditions": [{ "type": "Ready", "status": "True" }] },
        })
    }

    /// A pod that runs on the second node.
    fn occupant(name: &str, cpu: &str, priority: i32) -> Value {
        let mut pod = testing::ready(name);
        pod["spec"]["nodeName"] = "node-b".into();
        pod["spec"]["priority"] = priority.into();
        pod["spec"]["containers"][0]["resources"] = json!({ "requests": { "cpu": cpu } });
        pod
    }

    /// A pod that requests a ticket of an Order.
    fn claimer(name: &str, order: &str, cpu: &str) -> Value {
        let mut pod = testing::held(name);
        pod["metadata"]["annotations"] = json!({ "korder.dev/order-request": order });
        pod["spec"]["schedulingGates"] = json!([{ "name": names::TICKET_GATE }]);
        pod["spec"]["containers"][0]["resources"] = json!({ "requests": { "cpu": cpu } });
        pod
    }

    fn pods() -> Vec<PodObject> {
        read(&[
            occupant("db-0", "3", 1000),
            occupant("web-1", "500m", 0),
            occupant("web-2", "500m", 0),
            claimer("large", "agents", "2"),
            claimer("lost", "agentz", "500m"),
        ])
    }

    fn loaded() -> (Loaded, Objects) {
        let mut cordoned = node("node-d");
        cordoned["spec"]["unschedulable"] = true.into();
        let nodes = read::<NodeObject>(&[node("node-a"), node("node-b"), node("node-c"), cordoned]);
        let (orders, tickets) = (read(&testing::orders()), read::<TicketObject>(&testing::tickets()));
        let objects = Objects { orders, tickets, nodes: Some(nodes), pods_known: true };
        let mut loader = Loader::into_index(Index::of_full_mode());
        loader.add(Kind::Pod, &pods());
        let index = filled(loader.index, &objects, &[], testing::now());
        (Loaded { index, namespace: "default".into(), pod_names: Vec::new(), gaps: Vec::new() }, objects)
    }

    fn drawn(line: Line) -> String {
        let node = Node::new(line, &CommandStyle::of_namespace("default"));
        render::text(&node).without_colours()
    }

    #[test]
    fn orders() {
        let (loaded, objects) = loaded();
        let mut text = String::new();
        let facts = loaded.index.reservation_facts();
        for name in ["agents", "buffer", "new"] {
            let order = order_named(&loaded, &objects, name).expect(name);
            let entry = facts.reservations.order(order.metadata.uid()).expect(name);
            let rooms = without_room(facts, entry)
                .into_iter()
                .map(|ticket| (ticket.uid, rooms_of(&objects, ticket, &pods())))
                .collect();
            text += &drawn(order_line(&loaded, &objects, order, &rooms, testing::now()).expect(name));
            text += "\n";
        }
        let wrong = order_named(&loaded, &objects, "agent").expect_err("no such Order");
        insta::assert_snapshot!(format!("{text}{wrong}"));
    }

    #[test]
    fn tickets() {
        let (loaded, objects) = loaded();
        let facts = loaded.index.reservation_facts();
        let mut text = String::new();
        for ticket in objects.tickets.iter().map(TicketObject::facts) {
            let rooms = rooms_of(&objects, &ticket, &pods());
            let fetched = FetchedData { rooms: &rooms, pods_known: true };
            text += &drawn(explain_ticket(facts, &ticket, fetched, testing::now()));
            text += "\n";
        }
        insta::assert_snapshot!(text);
    }

    #[test]
    fn pods_that_want_one() {
        let (loaded, _) = loaded();
        let line = |name: &str| explain_pod(&loaded.index, loaded.pod(name).expect(name), testing::now());
        insta::assert_snapshot!(format!("{}\n{}", drawn(line("large")), drawn(line("lost"))));
        let node = Node::new(line("large"), &CommandStyle::of_namespace("default"));
        insta::assert_snapshot!(serde_json::to_string_pretty(&node).expect("JSON"));
    }
}
