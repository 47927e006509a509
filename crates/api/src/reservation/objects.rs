//! The objects that are made for reservations, and the changes of pods that get a room.

use crate::names as known;
use crate::patch::{self, Body, Style};
use crate::reservation::ticket_status;
use rollcall_core::Uid;
use rollcall_core::decision::{NewGuardian, NewTicket, Nominate, TicketWrite};
use rollcall_core::planted::{Bug, planted};
use rollcall_core::reservation::names;
use serde_json::{Map, Value, json};

/// The only program in a guardian waits until it is killed.
const CONTAINER: &str = "guardian";

fn owner(api_version: &str, kind: &str, name: &str, uid: &str) -> Value {
    json!([{ "apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true }])
}

fn object(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| json!({}))
}

/// A ticket of an Order.
pub fn ticket(new: &NewTicket) -> Value {
    let mut spec = object(&new.template.spec.text);
    if let Some(node) = &new.node {
        spec["nodeName"] = (**node).into();
    }
    let mut metadata = object(&new.template.metadata);
    metadata["name"] = (*new.target.name).into();
    metadata["namespace"] = (*new.target.namespace).into();
    metadata["ownerReferences"] =
        owner(known::KORDER_API_VERSION, known::ORDER_KIND, &new.order_name, &new.order.to_string());
    metadata["labels"][names::TEMPLATE_HASH] = (*new.template.hash).into();
    metadata["labels"][names::ORDER_UID] = new.order.to_string().into();
    if let Some(index) = new.index {
        metadata["labels"][names::INDEX] = index.to_string().into();
    }
    if let Some(tick) = new.tick {
        metadata["annotations"][names::TICK] = tick.to_string().into();
    }
    json!({ "apiVersion": known::KORDER_API_VERSION, "kind": known::TICKET_KIND, "metadata": metadata, "spec": spec })
}

/// The pod that sits in the room of a ticket. It evicts nobody and does nothing.
pub fn guardian(new: &NewGuardian, image: &str) -> Value {
    let ticket = object(&new.spec.text);
    let mut labels = json!({ names::GUARDIAN: "true" });
    if let Some(order) = new.order {
        labels[names::ORDER_UID] = order.to_string().into();
    }
    let mut annotations = json!({ "cluster-autoscaler.kubernetes.io/safe-to-evict": "true" });
    if new.each_node {
        annotations["cluster-autoscaler.kubernetes.io/daemonset-pod"] = "true".into();
    }
    let mut tolerations = ticket["tolerations"].as_array().cloned().unwrap_or_default();
    tolerations.push(json!({ "key": names::RESERVING_TAINT, "operator": "Exists", "effect": "NoSchedule" }));
    let mut spec = json!({
        "priorityClassName": *new.class,
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "restartPolicy": "Always",
        "securityContext": { "runAsNonRoot": true, "runAsUser": 65535, "runAsGroup": 65535, "seccompProfile": { "type": "RuntimeDefault" } },
        "tolerations": tolerations,
        "containers": [{
            "name": CONTAINER,
            "image": image,
            "resources": resources(&ticket["resources"]),
            "securityContext": {
                "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": { "drop": ["ALL"] },
            },
        }],
    });
    for field in ["schedulerName", "nodeSelector", "affinity"] {
        if !ticket[field].is_null() {
            spec[field] = ticket[field].clone();
        }
    }
    if let Some(node) = &new.node {
        pin(&mut spec, node);
    }
    spread(&mut spec, &ticket, new.order);
    let naming = if planted(Bug::GuardianNamedAnew) { "generateName" } else { "name" };
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            naming: *new.target.name,
            "namespace": *new.target.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": owner(known::KORDER_API_VERSION, known::TICKET_KIND, &new.ticket_name, &new.ticket.to_string()),
        },
        "spec": spec,
    })
}

/// As the ticket has them. What cannot be shared (devices, huge pages) must have a limit, and the same one.
fn resources(of_ticket: &Value) -> Value {
    let mut resources = of_ticket.clone();
    let requests = of_ticket["requests"].as_object().into_iter().flatten();
    for (name, amount) in requests.filter(|(name, _)| name.contains('/') || name.starts_with("hugepages-")) {
        resources["limits"][name] = amount.clone();
    }
    resources
}

/// To one node, as the DaemonSet controller does it: every alternative that there is has to be on it.
fn pin(spec: &mut Value, node: &str) {
    let field = json!({ "key": "metadata.name", "operator": "In", "values": [node] });
    let required = &mut spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    match required["nodeSelectorTerms"].as_array_mut() {
        Some(terms) => terms.iter_mut().for_each(|term| match term["matchFields"].as_array_mut() {
            Some(fields) => fields.push(field.clone()),
            None => term["matchFields"] = json!([field]),
        }),
        None => required["nodeSelectorTerms"] = json!([{ "matchFields": [field] }]),
    }
}

/// A constraint that names no pods means the guardians of the same Order.
fn spread(spec: &mut Value, ticket: &Value, order: Option<Uid>) {
    let Some(constraints) = ticket["topologySpreadConstraints"].as_array() else { return };
    let mut constraints = constraints.clone();
    let all = match order {
        Some(order) => json!({ "matchLabels": { names::ORDER_UID: order.to_string() } }),
        None => json!({ "matchLabels": { names::GUARDIAN: "true" } }),
    };
    for constraint in &mut constraints {
        if constraint["labelSelector"].is_null() {
            constraint["labelSelector"] = all.clone();
        }
    }
    spec["topologySpreadConstraints"] = constraints.into();
}

/// The class of guardians of this priority. It goes with the definition of tickets.
pub fn priority_class(name: &str, priority: i32, definition: Option<&str>) -> Value {
    let mut metadata = json!({ "name": name });
    if let Some(uid) = definition {
        metadata["ownerReferences"] = json!([{
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "name": known::TICKET_DEFINITION, "uid": uid,
        }]);
    }
    let policy = if planted(Bug::GuardiansEvict) { "PreemptLowerPriority" } else { "Never" };
    json!({
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": metadata,
        "value": priority,
        "preemptionPolicy": policy,
        "description": "Of pods that keep room for others of this priority. They evict nobody.",
    })
}

/// The status of a ticket, if the ticket is as it was.
pub fn ticket_record(write: &TicketWrite) -> Body {
    let status = ticket_status(&write.record, &write.target.namespace);
    patch::status(write.target.uid, &write.version.to_string(), &status)
}

/// The node whose room the scheduler keeps for a pod. The uid makes the API server refuse it for a namesake.
pub fn nomination(nominate: &Nominate) -> Body {
    let mut metadata = json!({ "uid": nominate.target.uid.map(|uid| uid.to_string()) });
    if !nominate.forget.is_empty() {
        let none: Map<String, Value> =
            nominate.forget.iter().map(|key| ((*key).to_owned(), Value::Null)).collect();
        metadata["annotations"] = none.into();
    }
    let value = json!({ "metadata": metadata, "status": { "nominatedNodeName": nominate.node.as_deref() } });
    Body { style: Style::Merge, value }
}
