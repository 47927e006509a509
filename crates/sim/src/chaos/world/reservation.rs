//! Reservations. An Order reserves capacity on each node for an agent, which claims it because the Order selects it. A
//! second Order reserves capacity on any nodes for pods that request it.
//!
//! Difficulties:
//! - Foreign pods with the same priority tolerate everything and compete for the capacity.
//! - One ticket is larger than any node, and one expires before any pod requests it.
//! - One pod is bound late, because its volume does not exist yet.
//! - Three pods claim tickets of one node at once, and one of them cannot run there because its port is taken.
//! - One node is cordoned.

use super::super::fault::Fault;
use super::{
    AGENTS_LABEL, Group, NAMESPACE, NODES, SequenceEnd, SequenceRule, UserAction, When, World, has_arrived,
    pod_key, sequence,
};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::store::{Key, Stored};
use rollcall_api::names;
use rollcall_core::reservation::names as known;
use serde_json::{Value, json};
use std::sync::Arc;

/// The CPU capacity of a node: enough for all pods at the end, but not while the foreign pods exist.
pub const CAPACITY: &[(&str, &str)] = &[("cpu", "6")];
/// The PriorityClass of all pods and tickets, and its value.
pub const CLASS: &str = "important";
pub const PRIORITY: i64 = 1000;
/// An Order in daemonSet mode, an Order with replicas, and its number of replicas.
pub const AGENTS: &str = "agents";
pub const BUFFER: &str = "buffer";
pub const REPLICAS: usize = 2;
/// The capacity that a ticket of each kind reserves.
const AGENT_ROOM: &str = "1";
const BUFFER_ROOM: &str = "500m";
const CROWD_ROOM: &str = "100m";
/// Tickets without an Order: one is larger than any node, one expires soon.
const HUGE: &str = "huge";
const BRIEF: &str = "brief";

/// Pods that request a ticket of [`BUFFER`]. `WEB` and `APP` use different annotations; `LARGE` requests more than a ticket reserves.
const WEB: [&str; 2] = ["web-0", "web-1"];
const APP: &str = "app-0";
const LARGE_POD: &str = "large-0";
/// This node is always cordoned.
const CLOSED_NODE: &str = "node-8";
/// The volume of this pod is created late.
const SLOW: &str = "slow-0";
const VOLUME: &str = "data";
/// Each pod claims the ticket of its name. The tickets are all on [`CROWDED_NODE`], where [`PORT_HOLDER`] uses the port of
/// the last pod.
const CROWD: [&str; 3] = ["crowd-0", "crowd-1", "crowd-2"];
const CROWDED_NODE: &str = NODES[0];
const PORT_HOLDER: &str = "port-holder";
const PORT: u16 = 8443;
/// Foreign pods that compete for the reserved capacity. The early ones take half of each node; the late ones find no
/// capacity.
const EARLY: [&str; 2] = ["stranger-0", "stranger-1"];
const LATE: [&str; 2] = ["stranger-2", "stranger-3"];

static SHOP: SequenceRule = SequenceRule {
    namespace: NAMESPACE,
    sequence: "shop",
    groups: &[Group::named("web", &WEB), Group::named("app", &[APP])],
    end: SequenceEnd::Completed,
    permitted: true,
    lets_go: true,
    guard: None,
};

pub static WORLD: World = World {
    name: "reservations",
    full: true,
    launch: false,
    reservation: true,
    rules: std::slice::from_ref(&SHOP),
    manifests,
    script: &[
        UserAction { when: When::At(2_500), act: strangers_come },
        UserAction { when: When::At(12_000), act: volume_comes },
        UserAction { when: When::At(15_000), act: strangers_go },
    ],
    held: &[],
    // No sequence writes to nodes here, so a removed label of new nodes would not be restored either.
    spared: &[Fault::MarksTaken, Fault::MarksAdded],
};

fn pod_spec(gates: &[&str], cpu: &str) -> Value {
    let gates: Vec<Value> = gates.iter().map(|gate| json!({ "name": gate })).collect();
    json!({
        "schedulingGates": gates,
        "priorityClassName": CLASS,
        "tolerations": [{ "operator": "Exists" }],
        "containers": [{
            "name": "main", "image": "example/main:1", "resources": { "requests": { "cpu": cpu } },
        }],
    })
}

fn slow_spec(gates: &[&str]) -> Value {
    let mut spec = pod_spec(gates, "400m");
    spec["volumes"] = json!([{ "name": VOLUME, "persistentVolumeClaim": { "claimName": VOLUME } }]);
    spec
}

fn with_port(mut spec: Value) -> Value {
    spec["containers"][0]["ports"] = json!([{ "containerPort": PORT, "hostPort": PORT }]);
    spec
}

fn port_holder_spec() -> Value {
    let mut spec = with_port(pod_spec(&[], "100m"));
    let field = json!({ "key": "metadata.name", "operator": "In", "values": [CROWDED_NODE] });
    spec["affinity"] = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{ "matchFields": [field] }],
    } } });
    spec
}

/// A pod of this world that has no workload.
pub fn pod_named(name: &str) -> Option<(Kind, Value)> {
    let both = [names::SEQUENCE_GATE, names::TICKET_GATE];
    let (tier, annotations, spec) = match name {
        "web-0" => ("web", json!({ known::ORDER_REQUEST: BUFFER }), pod_spec(&both, BUFFER_ROOM)),
        "web-1" => ("web", json!({ known::TICKET_REQUEST: "group:shop" }), pod_spec(&both, "400m")),
        APP => {
            ("app", json!({ known::REQUIRED: "true", known::ORDER: BUFFER }), pod_spec(&both, BUFFER_ROOM))
        }
        LARGE_POD => ("other", json!({ known::ORDER_REQUEST: BUFFER }), pod_spec(&both[1..], "600m")),
        SLOW => ("other", json!({ known::ORDER_REQUEST: BUFFER }), slow_spec(&both[1..])),
        PORT_HOLDER => ("other", json!({}), port_holder_spec()),
        _ if CROWD.contains(&name) => {
            let spec = pod_spec(&both[1..], CROWD_ROOM);
            let spec = if name == CROWD[2] { with_port(spec) } else { spec };
            ("crowd", json!({ known::TICKET_REQUEST: name }), spec)
        }
        _ if EARLY.contains(&name) => ("stranger", json!({}), pod_spec(&[], "3")),
        _ if LATE.contains(&name) => ("stranger", json!({}), pod_spec(&[], "1")),
        _ => return None,
    };
    let metadata = json!({ "name": name, "namespace": NAMESPACE, "labels": { "tier": tier }, "annotations": annotations });
    Some((Kind::Pod, json!({ "metadata": metadata, "spec": spec })))
}

/// The initial manifest of an Order.
pub fn order(name: &str) -> Value {
    let selector = json!({ "matchLabels": { "tier": "agent" } });
    let expression = json!({ "key": AGENTS_LABEL, "operator": "Exists" });
    let labelled = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{ "matchExpressions": [expression] }],
    } } });
    let spec = match name {
        AGENTS => json!({ "daemonSet": true, "selector": selector, "template": { "spec": {
            "affinity": labelled, "priorityClassName": CLASS,
            "lifecycle": { "ttlSecondsAfterFinished": 1 }, "resources": { "requests": { "cpu": AGENT_ROOM } },
        } } }),
        _ => json!({ "replicas": REPLICAS, "template": {
            "metadata": { "labels": { known::GROUP: "shop" } },
            "spec": {
                "priorityClassName": CLASS, "lifecycle": { "ttlSecondsAfterFinished": 1 },
                "resources": { "requests": { "cpu": BUFFER_ROOM } },
            },
        } }),
    };
    json!({ "metadata": { "name": name, "namespace": NAMESPACE }, "spec": spec })
}

pub fn class() -> (Kind, Value) {
    (Kind::PriorityClass, json!({ "metadata": { "name": CLASS }, "value": PRIORITY }))
}

fn manifests() -> Vec<(Kind, Value)> {
    let named = |name: &str| json!({ "name": name, "namespace": NAMESPACE });
    let ticket = |name: &str, cpu: &str, more: Value| {
        let mut spec = json!({ "priorityClassName": CLASS, "resources": { "requests": { "cpu": cpu } } });
        more.as_object().cloned().into_iter().flatten().for_each(|(key, value)| spec[key] = value);
        (Kind::Ticket, json!({ "metadata": named(name), "spec": spec }))
    };
    let brief = json!({ "duration": "4s", "lifecycle": { "cleanupPolicy": "Retain" } });
    let mut agent = pod_spec(&[names::TICKET_GATE], AGENT_ROOM);
    agent["nodeSelector"] = json!({ AGENTS_LABEL: "yes" });
    let agents = json!({ "metadata": named(AGENTS), "spec": {
        "selector": { "matchLabels": { "tier": "agent" } },
        "template": { "metadata": { "labels": { "tier": "agent" } }, "spec": agent },
    } });
    let groups = json!([{ "name": "web", "pods": WEB }, { "name": "app", "pods": [APP] }]);
    // The Order would have a ticket on this node if it were not cordoned. The agents do not select it.
    let closed = json!({
        "metadata": { "name": CLOSED_NODE, "labels": { AGENTS_LABEL: "no" } },
        "spec": { "unschedulable": true }, "status": { "capacity": { "cpu": "1" } },
    });
    let mut all = vec![(Kind::Node, closed), class(), sequence(&SHOP, json!({ "podGroups": groups }))];
    all.extend([AGENTS, BUFFER].map(|name| (Kind::Order, order(name))));
    all.extend([ticket(HUGE, "64", json!({})), ticket(BRIEF, BUFFER_ROOM, brief)]);
    all.extend(CROWD.map(|name| ticket(name, CROWD_ROOM, json!({ "nodeName": CROWDED_NODE }))));
    all.push((Kind::DaemonSet, agents));
    let pods = EARLY.iter().chain([&PORT_HOLDER]).chain(&WEB).chain([&APP, &LARGE_POD, &SLOW]).chain(&CROWD);
    all.extend(pods.copied().filter_map(pod_named));
    all
}

fn strangers_come(cluster: &mut Cluster) {
    for (kind, stranger) in LATE.into_iter().filter_map(pod_named) {
        let _ = cluster.create(kind, stranger);
    }
}

fn volume_comes(cluster: &mut Cluster) {
    let spec = json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
    let metadata = json!({ "name": VOLUME, "namespace": NAMESPACE });
    let _ = cluster.create(Kind::PersistentVolumeClaim, json!({ "metadata": metadata, "spec": spec }));
}

fn strangers_go(cluster: &mut Cluster) {
    for name in EARLY.into_iter().chain(LATE) {
        let _ = cluster.delete_now(&pod_key(name));
    }
}

/// Prepares the re-creation of a pod. Returns `false` for a foreign pod, which may have been removed for good meanwhile.
pub fn prepare_for_pod_again(cluster: &mut Cluster, name: &str) -> bool {
    // The API server rejects a pod whose PriorityClass does not exist, which may be the case now.
    let (kind, class) = class();
    let _ = cluster.create(kind, class);
    !EARLY.contains(&name) && !LATE.contains(&name)
}

pub fn is_guardian(pod: &Value) -> bool {
    pod["metadata"]["labels"][known::GUARDIAN] == "true"
}

fn owner_uid(object: &Value) -> &str {
    object["metadata"]["ownerReferences"][0]["uid"].as_str().unwrap_or_default()
}

fn phase(ticket: &Value) -> &str {
    ticket["status"]["phase"].as_str().unwrap_or("Pending")
}

fn is_unclaimed(ticket: &Value) -> bool {
    matches!(phase(ticket), "Pending" | "Reserved")
}

fn all(cluster: &Cluster, kind: Kind) -> impl Iterator<Item = (&Key, &Arc<Stored>)> {
    cluster.store.list(kind, Some(NAMESPACE))
}

/// Describes something that has not reached its end state. Each place of an Order must have one unclaimed ticket with a
/// running guardian. No other guardians may exist.
pub fn unfinished(cluster: &Cluster) -> Option<String> {
    let open = cluster.store.list(Kind::Node, None).filter(|(_, node)| node["spec"]["unschedulable"] != true);
    let nodes: Vec<&str> = open.map(|(key, _)| &*key.name).collect();
    let places: Vec<(&str, Vec<String>)> = vec![
        (AGENTS, nodes.iter().map(|node| (*node).to_owned()).collect()),
        (BUFFER, (0..REPLICAS).map(|index| index.to_string()).collect()),
    ];
    for (name, places) in places {
        let key = Key::new(Kind::Order, NAMESPACE, name);
        let Some(order) = cluster.store.get(&key) else { return Some(format!("Order {name} is missing")) };
        let ready = order["status"]["conditions"].as_array().into_iter().flatten();
        let is_ready = ready.into_iter().any(|is| is["type"] == "Ready" && is["status"] == "True");
        if order["status"]["observedGeneration"] != order["metadata"]["generation"] || !is_ready {
            return Some(format!("Order {name} is not ready: {}", order["status"]));
        }
        let unclaimed: Vec<&Arc<Stored>> = all(cluster, Kind::Ticket)
            .map(|(_, ticket)| ticket)
            .filter(|ticket| owner_uid(ticket) == order.uid() && is_unclaimed(ticket))
            .collect();
        if unclaimed.len() != places.len() {
            return Some(format!(
                "Order {name} has {} unclaimed tickets for {} places",
                unclaimed.len(),
                places.len()
            ));
        }
        for place in places {
            let mut there = unclaimed.iter().filter(|ticket| place_of(ticket) == place);
            match there.next() {
                Some(ticket) if phase(ticket) == "Reserved" => {}
                Some(ticket) => {
                    return Some(format!("the ticket of {name} in {place}: {}", ticket["status"]));
                }
                None => return Some(format!("no ticket of {name} in {place}")),
            }
        }
    }
    of_tickets(cluster).or_else(|| of_guardians(cluster))
}

/// The place of a ticket in its Order: its index, or the node of a ticket that is bound to one.
pub fn place_of(ticket: &Value) -> &str {
    let index = ticket["metadata"]["labels"][known::INDEX].as_str();
    index.or(ticket["spec"]["nodeName"].as_str()).unwrap_or_default()
}

fn of_tickets(cluster: &Cluster) -> Option<String> {
    let guards = |ticket: &Stored| {
        all(cluster, Kind::Pod)
            .map(|(_, pod)| pod)
            .find(|pod| is_guardian(pod) && owner_uid(pod) == ticket.uid())
    };
    all(cluster, Kind::Ticket).find_map(|(key, ticket)| {
        let (name, status) = (&*key.name, &ticket["status"]);
        let claimer = status["podUID"].as_str();
        let living = all(cluster, Kind::Pod).any(|(_, pod)| Some(pod.uid()) == claimer);
        match (phase(ticket), guards(ticket)) {
            ("Pending", _) if name == HUGE && status["reason"] == "NoRoom" => None,
            ("Pending", _) => Some(format!("ticket {name} is Pending: {}", status["message"])),
            ("Reserved", Some(guardian)) if has_arrived(guardian) && is_where(guardian, ticket) => None,
            ("Reserved", _) => Some(format!("ticket {name} is Reserved although its guardian does not run")),
            ("Claimed", None) if living => None,
            ("Claimed", None) => Some(format!("ticket {name} is claimed although its pod does not exist")),
            ("Expired", None) => None,
            (phase, _) => Some(format!("ticket {name} is {phase} although its guardian exists")),
        }
    })
}

fn is_where(guardian: &Value, ticket: &Value) -> bool {
    let node = &guardian["spec"]["nodeName"];
    *node == ticket["status"]["nodeName"]
        && (ticket["spec"]["nodeName"].is_null() || *node == ticket["spec"]["nodeName"])
}

/// A guardian without a ticket.
fn of_guardians(cluster: &Cluster) -> Option<String> {
    let has_ticket =
        |pod: &Value| all(cluster, Kind::Ticket).any(|(_, ticket)| ticket.uid() == owner_uid(pod));
    let mut guardians = all(cluster, Kind::Pod).filter(|(_, pod)| is_guardian(pod));
    let lost = guardians.find(|(_, pod)| !has_ticket(pod));
    lost.map(|(key, _)| format!("guardian {} exists without its ticket", key.name))
}

/// A summary of the Orders and their unclaimed tickets. It omits which pods got tickets, because that depends on chance: a
/// pod whose ticket was deleted, for example, runs without one.
pub fn end_state(cluster: &Cluster) -> impl Iterator<Item = String> {
    let orders = all(cluster, Kind::Order).map(|(key, order)| {
        let numbers = json!([order["status"]["desiredReplicas"], order["status"]["availableReplicas"]]);
        format!("orders/{} {} {numbers}", key.name, order["spec"])
    });
    let tickets = all(cluster, Kind::Ticket)
        .filter(|(_, ticket)| !owner_uid(ticket).is_empty() && is_unclaimed(ticket));
    let tickets = tickets.map(|(_, ticket)| {
        let order = &ticket["metadata"]["ownerReferences"][0]["name"];
        format!("tickets/{order}-{} {}", place_of(ticket), phase(ticket))
    });
    orders.chain(tickets)
}
