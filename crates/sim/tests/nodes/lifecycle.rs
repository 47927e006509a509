//! Nodes that join, fail and are deleted.

use super::world::{World, both, node_key, pod_key};
use serde_json::{Value, json};

fn taints(world: &World, node: &str) -> Vec<String> {
    let node = world.get(&node_key(node)).expect("the object exists");
    let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let text = |taint: &Value, field: &str| taint[field].as_str().unwrap_or_default().to_owned();
    taints.iter().map(|taint| format!("{}:{}", text(taint, "key"), text(taint, "effect"))).collect()
}

fn tolerates(key: &str, seconds: Option<i64>) -> Value {
    let mut toleration = json!({ "key": key, "operator": "Exists", "effect": "NoExecute" });
    if let Some(seconds) = seconds {
        toleration["tolerationSeconds"] = seconds.into();
    }
    json!({ "spec": { "tolerations": [toleration] } })
}

#[tokio::test(start_paused = true)]
async fn a_node_comes() {
    let world = World::with_nodes(&["n1"]).await;
    let node = world.get(&node_key("n1")).expect("the object exists");
    let ready =
        node["status"]["conditions"].as_array().and_then(|all| all.iter().find(|is| is["type"] == "Ready"));
    assert_eq!(
        ready.map(|is| (&is["status"], &is["reason"])),
        Some((&json!("True"), &json!("KubeletReady")))
    );
    assert_eq!(node["metadata"]["labels"]["kubernetes.io/hostname"], "n1");
    assert_eq!(node["status"]["allocatable"]["cpu"], "8");
    assert_eq!(node["status"]["capacity"]["pods"], "110");
    assert_eq!(taints(&world, "n1"), [""; 0]);
    world.node("small", json!({ "status": { "allocatable": { "cpu": "500m" } } }));
    world.run(0.0).await;
    let small = world.get(&node_key("small")).expect("the object exists");
    assert_eq!(
        (&small["status"]["capacity"]["cpu"], &small["status"]["allocatable"]["memory"]),
        (&json!("500m"), &json!("32Gi"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_is_not_ready_for_a_while() {
    let world = World::with_nodes(&["n1"]).await;
    let not_ready = "node.kubernetes.io/not-ready";
    world.pod("stays", tolerates(not_ready, None));
    world.pod("bears-it", tolerates(not_ready, Some(60)));
    world.pod("impatient", tolerates(not_ready, Some(20)));
    world.run(5.0).await;
    world.annotate(&node_key("n1"), "not-ready", "true".into());
    world.run(30.0).await;
    assert_eq!(
        taints(&world, "n1"),
        ["node.kubernetes.io/not-ready:NoSchedule", "node.kubernetes.io/not-ready:NoExecute"]
    );
    world.annotate(&node_key("n1"), "not-ready", Value::Null);
    world.run(300.0).await;
    assert_eq!(taints(&world, "n1"), [""; 0]);
    let evicted = world.seen("impatient");
    assert_eq!(evicted.last().map(String::as_str), Some("26 gone"), "{evicted:?}");
    assert!(
        evicted.iter().any(|line| line.starts_with("25 ") && line.ends_with("terminating")),
        "{evicted:?}"
    );
    for name in ["stays", "bears-it"] {
        let seen = world.seen(name);
        // The kubelet runs and reports its pods itself.
        assert_eq!(seen[3..], [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_stops() {
    let world = World::with_nodes(&["n1"]).await;
    let unreachable = "node.kubernetes.io/unreachable";
    world.pod("p", tolerates(unreachable, Some(30)));
    world.run(5.0).await;
    world.annotate(&node_key("n1"), "stopped", "true".into());
    world.run(49.0).await;
    assert_eq!(taints(&world, "n1"), [""; 0]);
    world.run(60.0).await;
    assert_eq!(
        taints(&world, "n1"),
        ["node.kubernetes.io/unreachable:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"]
    );
    // No kubelet is running that could end the pod.
    let seen = world.seen("p");
    assert_eq!(seen[3..], ["55 Running app:runs", "85 Running app:runs terminating"]);
    world.annotate(&node_key("n1"), "stopped", Value::Null);
    world.run(5.0).await;
    assert!(world.get(&pod_key("p")).is_none());
    assert_eq!(taints(&world, "n1"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_user_taints_a_node() {
    let world = World::with_nodes(&["n1"]).await;
    world.pod("goes", json!({}));
    world.pod("bears-it", tolerates("maintenance", None));
    world.run(5.0).await;
    world.update(&node_key("n1"), |node| {
        node["spec"]["taints"] = json!([{ "key": "maintenance", "effect": "NoExecute" }]);
    });
    world.run(5.0).await;
    assert!(world.get(&pod_key("goes")).is_none() && world.get(&pod_key("bears-it")).is_some());
    world.update(&node_key("n1"), |node| node["spec"]["unschedulable"] = true.into());
    world.run(0.0).await;
    assert_eq!(
        taints(&world, "n1"),
        ["maintenance:NoExecute", "node.kubernetes.io/unschedulable:NoSchedule"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_is_deleted() {
    let world = World::with_nodes(&["n1", "n2"]).await;
    let on = |node: &str| json!({ "spec": { "nodeName": node } });
    world.pod("one", on("n1"));
    world.pod("other", both(on("n2"), json!({})));
    world.pod("lost", on("never-there"));
    world.run(5.0).await;
    world.delete(&node_key("n1"));
    world.run(39.0).await;
    assert!(world.get(&pod_key("one")).is_some() && world.get(&pod_key("lost")).is_none());
    world.run(2.0).await;
    assert!(world.get(&pod_key("one")).is_none() && world.get(&pod_key("other")).is_some());
    world.expect("lost", &["0 Pending", "40 Failed", "40 Failed terminating", "40 gone"]);
}

#[tokio::test(start_paused = true)]
async fn heartbeats_if_they_are_wanted() {
    let world = World::with_nodes(&[]).await;
    world.change(|cluster| cluster.programs.heartbeats = true);
    world.node("n1", json!({}));
    world.run(25.0).await;
    let lease = rollcall_sim::store::Key::new(rollcall_sim::kinds::Kind::Lease, "kube-node-lease", "n1");
    let lease = world.get(&lease).expect("it is renewed");
    assert_eq!(lease["spec"]["renewTime"], "2026-01-01T00:00:21.000000Z");
}
