//! The objects that the controller creates for reservations, and its patches of claiming pods and of ticket statuses.

use crate::names as known;
use crate::patch::{self, Body, Style};
use crate::reservation::ticket_status;
use rollcall_core::Uid;
use rollcall_core::decision::{NewGuardian, NewTicket, Nominate, TicketWrite};
use rollcall_core::planted::{Bug, planted};
use rollcall_core::reservation::names;
use serde_json::{Map, Value, json};

/// The name of the only container of a guardian. Its process waits until it is killed.
const CONTAINER: &str = "guardian";

/// Settings of guardians that do not come from their tickets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardianOptions {
    pub image: String,
    /// Whether the Node becomes the second owner of a guardian.
    pub node_owner: bool,
}

fn owner(api_version: &str, kind: &str, name: &str, uid: &str) -> Value {
    json!([{ "apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true }])
}

/// The owner references of a guardian: its ticket and, with `node_owner`, its Node if that is known. Karpenter ignores pods that
/// a Node owns when it decides which nodes to remove.
fn owners(new: &NewGuardian, options: &GuardianOptions) -> Value {
    let ticket =
        owner(known::KORDER_API_VERSION, known::TICKET_KIND, &new.ticket_name, &new.ticket.to_string());
    let node = new.node.as_ref().zip(new.node_uid).filter(|_| options.node_owner);
    let node = node.map(
        |(name, uid)| json!({ "apiVersion": "v1", "kind": "Node", "name": **name, "uid": uid.to_string() }),
    );
    ticket.as_array().into_iter().flatten().cloned().chain(node).collect()
}

fn object(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| json!({}))
}

/// Builds a ticket of an Order.
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

/// Builds the guardian of a ticket: a pause pod that occupies the reserved capacity and never preempts other pods.
pub fn guardian(new: &NewGuardian, options: &GuardianOptions) -> Value {
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
            "image": options.image,
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
            "ownerReferences": owners(new, options),
        },
        "spec": spec,
    })
}

/// The resources of a guardian: those of its ticket. Extended resources and huge pages also need a limit that equals the request.
fn resources(of_ticket: &Value) -> Value {
    let mut resources = of_ticket.clone();
    let requests = of_ticket["requests"].as_object().into_iter().flatten();
    for (name, amount) in requests.filter(|(name, _)| name.contains('/') || name.starts_with("hugepages-")) {
        resources["limits"][name] = amount.clone();
    }
    resources
}

/// Restricts a pod to one node, as the DaemonSet controller does: adds the node name to every node selector term.
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

/// Copies the topology spread constraints of the ticket. A constraint without `labelSelector` selects the guardians of the same
/// Order.
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

/// Builds the PriorityClass of guardians with this priority. It is owned by the CRD of tickets, and deleted with it.
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
        "description": "For guardians: pods that reserve capacity for other pods of this priority. They never preempt other pods.",
    })
}

/// Builds the status update of a ticket. The API server rejects it if the ticket has changed since it was read.
pub fn ticket_record(write: &TicketWrite) -> Body {
    let status = ticket_status(&write.record, &write.target.namespace);
    patch::status(write.target.uid, &write.version.to_string(), &status)
}

/// Builds the patch that sets or clears the nominated node of a pod. The scheduler then reserves capacity there for the
/// pod. The patch contains the uid, so the API server rejects it for another pod of the same name.
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

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::SignedDuration;
    use rollcall_core::cluster::Target;
    use rollcall_core::kind::Kind;
    use rollcall_core::reservation::spec::TicketSpec;
    use std::sync::Arc;

    fn new_guardian(node: Option<(&str, Uid)>) -> NewGuardian {
        let spec = TicketSpec {
            ttl: SignedDuration::ZERO,
            retain: false,
            start: None,
            duration: None,
            priority_class: None,
            requests: Default::default(),
            placement: Default::default(),
            text: "{}".into(),
        };
        let (kind, namespace, name) = (Kind::Pod, "infra".into(), "korder-guardian-t".into());
        NewGuardian {
            target: Target { kind, namespace, name, uid: None },
            ticket: Uid::digest("t"),
            ticket_name: "t".into(),
            order: None,
            each_node: false,
            spec: Arc::new(spec),
            node: node.map(|(name, _)| name.into()),
            node_uid: node.map(|(_, uid)| uid),
            class: "korder-guardian-0".into(),
        }
    }

    #[test]
    fn the_node_is_the_second_owner_where_that_is_asked_for() {
        let owners = |node_owner: bool, node: Option<(&str, Uid)>| {
            let options = GuardianOptions { image: "pause".into(), node_owner };
            guardian(&new_guardian(node), &options)["metadata"]["ownerReferences"].clone()
        };
        let node = Uid::digest("n1");
        let ticket = json!({
            "apiVersion": "core.korder.dev/v1alpha1", "kind": "Ticket", "name": "t", "uid": Uid::digest("t").to_string(), "controller": true,
        });
        // The reference to the Node sets neither `controller` nor `blockOwnerDeletion`.
        let second = json!({ "apiVersion": "v1", "kind": "Node", "name": "n1", "uid": node.to_string() });
        assert_eq!(owners(false, Some(("n1", node))), json!([ticket]));
        assert_eq!(owners(true, Some(("n1", node))), json!([ticket, second]));
        assert_eq!(owners(true, None), json!([ticket]), "the ticket is not bound to a node");
    }
}
