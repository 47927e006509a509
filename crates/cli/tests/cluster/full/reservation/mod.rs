//! Reservations on a real API server with the real scheduler. The controller uses its own service account within the limits;
//! kwok simulates the kubelets.

mod beside;
mod kubelet;
mod owners;
mod seen;

use crate::common::permissions::{Permission, granted, used};
use crate::common::*;
use anyhow::{Context, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use rollcall_testbed::{AuditEvent, Cluster};
use std::collections::{BTreeMap, BTreeSet};

async fn install(nodes: usize) -> Result<Lab> {
    let lab = Lab::full(rollcall_testbed::Options { nodes, ..Default::default() }).await?;
    lab.apply_file("config/crd/korder-crd.yaml")?;
    for definition in ["orders.core.korder.dev", "tickets.core.korder.dev"] {
        lab.cluster().kubectl_ok(&["wait", "--for=condition=Established", "crd", definition])?;
    }
    Ok(lab)
}

fn list(cluster: &Cluster, namespace: &str, what: &str) -> Result<Vec<Value>> {
    cluster.read_items(namespace, what)
}

/// Returns the phases of unclaimed tickets, by node.
fn unclaimed(cluster: &Cluster, namespace: &str) -> Result<BTreeMap<String, String>> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let tickets = list(cluster, namespace, "tickets")?;
    let unclaimed = tickets.iter().filter(|ticket| ticket["status"]["podUID"].is_null());
    Ok(unclaimed
        .map(|ticket| (text(&ticket["spec"]["nodeName"]), text(&ticket["status"]["phase"])))
        .collect())
}

async fn reserved_on(cluster: &Cluster, namespace: &str, nodes: &[&str]) -> Result<()> {
    let wanted: BTreeMap<String, String> =
        nodes.iter().map(|node| (node.to_string(), "Reserved".to_owned())).collect();
    wait::until("a reserved ticket on each node", LIMIT, async || {
        Ok((unclaimed(cluster, namespace)? == wanted).then_some(()))
    })
    .await
}

fn apply(cluster: &Cluster, namespace: &str, object: &Value) -> Result<()> {
    let mut object = object.clone();
    object["metadata"]["namespace"] = namespace.into();
    let file = cluster
        .dir()
        .join(format!("{namespace}-{}.json", object["metadata"]["name"].as_str().unwrap_or("x")));
    std::fs::write(&file, object.to_string())?;
    cluster.kubectl_ok(&["apply", "-f", file.to_str().context("a path")?]).map(drop)
}

fn pod(name: &str, spec: Value) -> Value {
    let container = json!({ "name": "main", "image": "pause", "resources": { "requests": { "cpu": "1" } } });
    let mut pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": { "containers": [container] } });
    for (field, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][field] = value.clone();
    }
    pod
}

#[tokio::test]
async fn room_is_kept_on_each_node_and_nobody_gets_between() -> Result<()> {
    let lab = install(2).await?;
    lab.apply_file("config/webhook/launch.yaml")?;
    let controller = Controller::start(&lab, Options::default()).await?;
    lab.call_launch_webhook(controller.webhook)?;
    tickets_follow_the_nodes(&lab).await?;
    agents_take_their_room(&lab).await?;
    tickets_by_hand(&lab).await?;
    seen::people_see_why_it_is_not_there(&lab).await?;
    beside::who_cannot_run_on_its_room_runs_elsewhere(&lab).await?;
    beside::three_gates_on_one_pod(&lab).await?;
    foreign_pods_take_nothing_from_twenty_claims_at_once(&lab).await?;
    used_and_granted_are_the_same(&lab)
}

/// Runs last, when the audit log contains all requests of this cluster.
fn used_and_granted_are_the_same(lab: &Lab) -> Result<()> {
    let events = lab.events(|event| event.user == ACCOUNT)?;
    let refused: Vec<&AuditEvent> = events.iter().filter(|event| event.status_code == 403).collect();
    ensure!(refused.is_empty(), "{refused:?}");
    let is_ours = |(verb, group, resource): &Permission| match (group.as_str(), resource.as_str()) {
        ("core.korder.dev" | "scheduling.k8s.io" | "apiextensions.k8s.io", _) | ("", "pods/status") => true,
        ("", "pods") => verb == "create" || verb == "delete",
        _ => false,
    };
    let used: BTreeSet<Permission> = events.iter().map(used).filter(is_ours).collect();
    let granted: BTreeSet<Permission> =
        granted("config/rbac/rbac.yaml", "ClusterRole")?.into_iter().filter(is_ours).collect();
    ensure!(granted.len() == 15 && used == granted, "used: {used:?}, granted: {granted:?}");
    Ok(())
}

/// The first Order of the original document, verbatim.
async fn tickets_follow_the_nodes(lab: &Lab) -> Result<()> {
    let cluster = lab.cluster();
    let namespace = cluster.namespace("nodes").await?;
    let file = lab::repository("config/samples/reservation/infrastructure.yaml");
    cluster.kubectl_ok(&["apply", "-n", &namespace, "-f", file.to_str().context("a path")?])?;
    let order = "order/infrastructure-reservation";
    cluster.kubectl_ok(&["wait", "-n", &namespace, order, "--for=condition=Ready", "--timeout=90s"])?;
    reserved_on(cluster, &namespace, &["node-0", "node-1"]).await?;
    cluster.add_node("late", &Default::default()).await?;
    reserved_on(cluster, &namespace, &["late", "node-0", "node-1"]).await?;
    cluster.kubectl_ok(&["cordon", "node-0"])?;
    cluster.remove_node("late").await?;
    reserved_on(cluster, &namespace, &["node-1"]).await?;
    cluster.kubectl_ok(&["uncordon", "node-0"])?;
    reserved_on(cluster, &namespace, &["node-0", "node-1"]).await?;
    // Deletion needs no controller: the garbage collector deletes the tickets and guardians.
    cluster.kubectl_ok(&["delete", "-n", &namespace, order])?;
    wait::until("deletion of all tickets and pods", LIMIT, async || {
        let left = list(cluster, &namespace, "tickets")?.len() + list(cluster, &namespace, "pods")?.len();
        Ok((left == 0).then_some(()))
    })
    .await
}

async fn agents_take_their_room(lab: &Lab) -> Result<()> {
    let cluster = lab.cluster();
    let namespace = cluster.namespace("agents").await?;
    let order = json!({
        "apiVersion": "core.korder.dev/v1alpha1", "kind": "Order", "metadata": { "name": "agents" },
        "spec": {
            "daemonSet": true,
            "selector": { "matchLabels": { "app": "agent" } },
            "template": { "spec": { "resources": { "requests": { "cpu": "1" } } } },
        },
    });
    apply(cluster, &namespace, &order)?;
    reserved_on(cluster, &namespace, &["node-0", "node-1"]).await?;
    let template = pod("agent", json!({ "schedulingGates": [{ "name": "korder.dev/ticket-gate" }] }));
    let daemons = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": "agent" },
        "spec": {
            "selector": { "matchLabels": { "app": "agent" } },
            "template": { "metadata": { "labels": { "app": "agent" } }, "spec": template["spec"] },
        },
    });
    apply(cluster, &namespace, &daemons)?;
    cluster.kubectl_ok(&["rollout", "status", "-n", &namespace, "daemonset/agent", "--timeout=90s"])?;
    for agent in
        list(cluster, &namespace, "pods")?.iter().filter(|pod| pod["metadata"]["labels"]["app"] == "agent")
    {
        let node = &agent["spec"]["nodeName"];
        let name = node.as_str().context("a node")?;
        let annotations = &agent["metadata"]["annotations"];
        ensure!(annotations["korder.dev/ticket-claimed"] == format!("agents-{name}"), "{annotations}");
        ensure!(annotations["korder.dev/ticket-node"] == *node, "{annotations}");
    }
    // Each claimed ticket is replaced by a new one on the same node.
    reserved_on(cluster, &namespace, &["node-0", "node-1"]).await
}

/// Tickets created by hand expire in time, and report what they wait for.
async fn tickets_by_hand(lab: &Lab) -> Result<()> {
    let cluster = lab.cluster();
    let namespace = cluster.namespace("by-hand").await?;
    let ticket = |name: &str, spec: Value| json!({ "apiVersion": "core.korder.dev/v1alpha1", "kind": "Ticket", "metadata": { "name": name }, "spec": spec });
    let room = |cpu: &str| json!({ "requests": { "cpu": cpu } });
    let short =
        json!({ "duration": "3s", "lifecycle": { "ttlSecondsAfterFinished": 1 }, "resources": room("100m") });
    apply(cluster, &namespace, &ticket("short", short))?;
    apply(cluster, &namespace, &ticket("huge", json!({ "resources": room("500") })))?;
    apply(
        cluster,
        &namespace,
        &ticket("lost", json!({ "priorityClassName": "nope", "resources": room("100m") })),
    )?;
    for (name, reason) in [("huge", "NoRoom"), ("lost", "UnknownPriorityClass")] {
        let says = format!("--for=jsonpath={{.status.reason}}={reason}");
        cluster.kubectl_ok(&["wait", "-n", &namespace, &format!("ticket/{name}"), &says, "--timeout=90s"])?;
    }
    cluster.kubectl_ok(&["wait", "-n", &namespace, "ticket/short", "--for=delete", "--timeout=90s"])?;
    wait::until("deletion of its guardian", LIMIT, async || {
        let gone = list(cluster, &namespace, "pods")?
            .iter()
            .all(|pod| pod["metadata"]["name"] != "korder-guardian-short");
        Ok(gone.then_some(()))
    })
    .await
}

/// The node has only reserved capacity left, and all pending pods have the same priority and tolerate everything.
async fn foreign_pods_take_nothing_from_twenty_claims_at_once(lab: &Lab) -> Result<()> {
    const ALONE: usize = 4;
    const TICKETS: usize = ALONE + 20;
    let cluster = lab.cluster();
    let namespace = cluster.namespace("arena").await?;
    let capacity = rollcall_testbed::Capacity { cpu: TICKETS.to_string(), ..Default::default() };
    cluster.add_node("arena", &capacity).await?;
    let here = json!({ "kubernetes.io/hostname": "arena" });
    let order = json!({
        "apiVersion": "core.korder.dev/v1alpha1", "kind": "Order", "metadata": { "name": "rooms" },
        "spec": {
            "replicas": TICKETS,
            "strategy": { "refreshPolicy": "Never" },
            "template": { "spec": { "resources": { "requests": { "cpu": "1" } }, "nodeSelector": here } },
        },
    });
    // The agents of the previous scene would occupy capacity.
    cluster.kubectl_ok(&["delete", "daemonset,order", "--all", "-A", "--wait=true"])?;
    apply(cluster, &namespace, &order)?;
    let available = format!("--for=jsonpath={{.status.availableReplicas}}={TICKETS}");
    cluster.kubectl_ok(&["wait", "-n", &namespace, "order/rooms", &available, "--timeout=90s"])?;
    let foreign = |number: usize| {
        let spec = json!({ "nodeSelector": here, "tolerations": [{ "operator": "Exists" }] });
        pod(&format!("foreign-{number}"), spec)
    };
    create_at_once(cluster, &namespace, (0..TICKETS).map(foreign).collect()).await?;
    let claiming = |number: usize| {
        let gates = json!({ "schedulingGates": [{ "name": "korder.dev/ticket-gate" }] });
        let asks = json!({ "metadata": { "annotations": { "korder.dev/order-request": "rooms" } } });
        pod(&format!("claiming-{number}"), gates).with(asks)
    };
    let running = |number: usize| {
        let pod = format!("pod/claiming-{number}");
        cluster.kubectl_ok(&["wait", "-n", &namespace, &pod, "--for=condition=Ready", "--timeout=120s"])
    };
    for number in 0..ALONE {
        apply(cluster, &namespace, &claiming(number))?;
        running(number)?;
    }
    create_at_once(cluster, &namespace, (ALONE..TICKETS).map(claiming).collect()).await?;
    for number in ALONE..TICKETS {
        running(number)?;
    }
    let pods = list(cluster, &namespace, "pods")?;
    let named = |prefix: &str| {
        pods.iter()
            .filter(|pod| pod["metadata"]["name"].as_str().is_some_and(|name| name.starts_with(prefix)))
            .collect::<Vec<_>>()
    };
    for claiming in named("claiming-") {
        ensure!(claiming["spec"]["nodeName"] == "arena", "{claiming}");
    }
    for foreign in named("foreign-") {
        ensure!(foreign["spec"]["nodeName"].is_null(), "the pod took reserved capacity: {foreign}");
    }
    ensure!(named("foreign-").len() == TICKETS && named("claiming-").len() == TICKETS, "a pod was evicted");
    ensure!(named("korder-guardian-").is_empty(), "a guardian still exists");
    let events = list(cluster, &namespace, "events")?;
    let lost: Vec<&Value> = events.iter().filter(|event| event["reason"] == "NotBound").collect();
    ensure!(lost.is_empty(), "{lost:?}");
    Ok(())
}

/// Creates pods with concurrent requests, faster than any hand-over.
async fn create_at_once(cluster: &Cluster, namespace: &str, pods: Vec<Value>) -> Result<()> {
    let api: Api<Pod> = Api::namespaced(cluster.client(), namespace);
    let (api, params) = (&api, &PostParams::default());
    let create = |pod: Value| async move {
        let pod: Pod = serde_json::from_value(pod)?;
        anyhow::Ok(api.create(params, &pod).await?)
    };
    try_join_all(pods.into_iter().map(create)).await.map(drop)
}
