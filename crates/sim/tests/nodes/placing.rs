//! The scheduler: selected nodes, pending pods and messages.

use super::world::{World, both, node_key, pod_key};
use rollcall_sim::kinds::Kind;
use serde_json::{Value, json};

fn cpu(amount: &str) -> Value {
    json!({ "spec": { "containers": [
        { "name": "app", "image": "x", "resources": { "requests": { "cpu": amount } } } ] } })
}

fn capacity(cpu: &str) -> Value {
    json!({ "status": { "capacity": { "cpu": cpu }, "allocatable": { "cpu": cpu } } })
}

/// A pod with class and value, as after admission.
fn priority(value: i64) -> Value {
    json!({ "spec": { "priority": value, "priorityClassName": format!("p{value}") } })
}

fn create_classes(world: &World) {
    for value in [5, 10, 20, 30, 40, 50, 100] {
        let class = json!({ "metadata": { "name": format!("p{value}") }, "value": value });
        world.create(Kind::PriorityClass, class);
    }
    let polite = json!({ "metadata": { "name": "polite" }, "value": 0, "preemptionPolicy": "Never" });
    world.create(Kind::PriorityClass, polite);
}

fn labelled(key: &str, value: &str) -> Value {
    json!({ "metadata": { "labels": { key: value } } })
}

fn no_victims(nodes: usize) -> String {
    format!(
        "no new claims to deallocate, preemption: 0/{nodes} nodes are available: {nodes} No preemption victims found for incoming pod."
    )
}

fn not_helpful(nodes: usize) -> String {
    format!(
        "no new claims to deallocate, preemption: 0/{nodes} nodes are available: {nodes} Preemption is not helpful for scheduling."
    )
}

/// Messages for unschedulable pods. Each node has 8 CPUs and the label `disk: ssd`.
#[tokio::test(start_paused = true)]
async fn why_not() {
    let affinity = |requirement: Value| {
        json!({ "spec": { "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [requirement] } } } } })
    };
    let gpu = json!({ "spec": { "containers": [
        { "name": "app", "image": "x", "resources": { "limits": { "example.com/gpu": "1" } } } ] } });
    let port = json!({ "spec": { "containers": [
        { "name": "app", "image": "x", "ports": [{ "containerPort": 80, "hostPort": 80 }] } ] } });
    let spread = json!({ "spec": { "topologySpreadConstraints": [
        { "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {} } ] } });
    let near = json!({ "spec": { "affinity": { "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
        { "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "app": "none" } } } ] } } } });
    let claim =
        json!({ "spec": { "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "data" } }] } });
    let cases = [
        (cpu("20"), format!("2 Insufficient cpu. {}", not_helpful(2))),
        (cpu("7900m"), format!("2 Insufficient cpu. {}", no_victims(2))),
        (gpu, format!("2 Insufficient example.com/gpu. {}", not_helpful(2))),
        (json!({ "spec": { "nodeSelector": { "disk": "hdd" } } }), format!("2 node(s) didn't match Pod's node affinity/selector. {}", not_helpful(2))),
        (affinity(json!({ "matchExpressions": [{ "key": "disk", "operator": "NotIn", "values": ["ssd"] }] })), format!("2 node(s) didn't match Pod's node affinity/selector. {}", not_helpful(2))),
        (both(cpu("20"), affinity(json!({ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["n2"] }] }))), format!("1 Insufficient cpu, 1 node(s) didn't satisfy plugin(s) [NodeAffinity]. {}", not_helpful(2))),
        (port, format!("2 node(s) didn't have free ports for the requested pod ports. {}", no_victims(2))),
        (spread, format!("2 node(s) didn't match pod topology spread constraints (missing required label). {}", not_helpful(2))),
        (near, format!("2 node(s) didn't match pod affinity rules. {}", not_helpful(2))),
        (claim, "persistentvolumeclaim \"data\" not found. not found".to_owned()),
        (both(cpu("7900m"), json!({ "spec": { "priorityClassName": "polite", "preemptionPolicy": "Never" } })), "2 Insufficient cpu. no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never.".to_owned()),
    ];
    for (pod, message) in cases {
        let world = World::with_nodes(&[]).await;
        create_classes(&world);
        for name in ["n1", "n2"] {
            world.node(name, labelled("disk", "ssd"));
            world.pod(&format!("there-{name}"), json!({ "spec": {
                "nodeName": name,
                "containers": [{ "name": "app", "image": "x", "ports": [{ "containerPort": 80, "hostPort": 80 }],
                    "resources": { "requests": { "cpu": "200m" } } }] } }));
        }
        world.run(1.0).await;
        world.pod("p", pod);
        world.run(1.0).await;
        assert_eq!(world.why("p"), format!("0/2 nodes are available: {message}"));
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_that_take_no_pods() {
    let world = World::with_nodes(&[]).await;
    world.pod("p", json!({}));
    world.run(1.0).await;
    assert_eq!(world.why("p"), "no nodes available to schedule pods");
    world.node("cordoned", json!({ "spec": { "unschedulable": true } }));
    world.node(
        "tainted",
        json!({ "spec": { "taints": [{ "key": "k", "value": "v", "effect": "NoSchedule" }] } }),
    );
    world.node(
        "unready",
        json!({ "metadata": { "annotations": { "testbed.rollcall.dev/not-ready": "true" } } }),
    );
    world.run(1.0).await;
    let against = "1 node(s) were unschedulable, 2 node(s) had untolerated taint(s)";
    assert_eq!(world.why("p"), format!("0/3 nodes are available: {against}. {}", not_helpful(3)));
    // Each of these changes makes the pod schedulable.
    world.update(&pod_key("p"), |pod| {
        pod["spec"]["tolerations"] = json!([{ "key": "k", "operator": "Exists", "effect": "NoSchedule" }]);
    });
    world.run(0.0).await;
    assert_eq!(world.node_of("p").as_deref(), Some("tainted"));
    world.pod("q", json!({}));
    world.run(1.0).await;
    world.update(&node_key("cordoned"), |node| node["spec"]["unschedulable"] = false.into());
    world.run(0.0).await;
    assert_eq!(world.node_of("q").as_deref(), Some("cordoned"));
}

#[tokio::test(start_paused = true)]
async fn pods_that_are_left_alone() {
    let world = World::with_nodes(&["n1"]).await;
    world.pod("gated", json!({ "spec": { "schedulingGates": [{ "name": "example.com/g" }] } }));
    world.pod("of-another", json!({ "spec": { "schedulerName": "other" } }));
    world.run(1.0).await;
    assert_eq!((world.node_of("gated"), world.node_of("of-another")), (None, None));
    world.update(&pod_key("gated"), |pod| pod["spec"]["schedulingGates"] = json!([]));
    world.run(0.0).await;
    assert_eq!(world.node_of("gated").as_deref(), Some("n1"));
}

#[tokio::test(start_paused = true)]
async fn the_least_loaded_node_comes_first() {
    let world = World::with_nodes(&["n1", "n2", "n3"]).await;
    for (pod, node) in [("a", "n1"), ("b", "n2"), ("c", "n3"), ("d", "n1")] {
        world.pod(pod, cpu("1"));
        world.run(0.0).await;
        assert_eq!(world.node_of(pod).as_deref(), Some(node), "{pod}");
    }
    world.pod("large", cpu("6"));
    world.run(0.0).await;
    assert_eq!(world.node_of("large").as_deref(), Some("n2"));
    let preferred = json!({ "spec": { "affinity": { "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 1, "preference": { "matchExpressions": [
            { "key": "kubernetes.io/hostname", "operator": "In", "values": ["n2"] } ] } }] } } } });
    world.pod("prefers", preferred);
    world.run(0.0).await;
    assert_eq!(world.node_of("prefers").as_deref(), Some("n2"));
}

#[tokio::test(start_paused = true)]
async fn room_that_becomes_free_goes_to_the_most_important() {
    let world = World::with_nodes(&[]).await;
    create_classes(&world);
    world.node("n1", capacity("2"));
    world.run(1.0).await;
    world.pod("first", both(cpu("2"), priority(100)));
    world.run(2.0).await;
    world.pod("low", cpu("2"));
    world.pod("high", both(cpu("2"), priority(50)));
    world.run(1.0).await;
    assert_eq!((world.node_of("low"), world.node_of("high")), (None, None));
    world.delete(&pod_key("first"));
    world.run(2.0).await;
    assert_eq!((world.node_of("low"), world.node_of("high").as_deref()), (None, Some("n1")));
    // Finished pods use no capacity.
    world.annotate(&pod_key("high"), "complete-after", "1s".into());
    world.run(3.0).await;
    assert_eq!(world.node_of("low").as_deref(), Some("n1"));
}

#[tokio::test(start_paused = true)]
async fn more_important_pods_make_room() {
    let world = World::with_nodes(&[]).await;
    create_classes(&world);
    world.node("n1", capacity("4"));
    world.node("n2", capacity("4"));
    world.run(1.0).await;
    for (name, value) in [("a1", 10), ("a2", 20)] {
        world.pod(name, both(both(cpu("2"), priority(value)), json!({ "spec": { "nodeName": "n1" } })));
    }
    for (name, value) in [("b1", 30), ("b2", 40)] {
        world.pod(name, both(both(cpu("2"), priority(value)), json!({ "spec": { "nodeName": "n2" } })));
    }
    world.run(3.0).await;
    world.pod("urgent", both(cpu("2"), priority(100)));
    world.run(0.0).await;
    // Only the least important pod is evicted.
    let urgent = world.get(&pod_key("urgent")).expect("the object exists");
    assert_eq!(urgent["status"]["nominatedNodeName"], "n1");
    assert_eq!(world.why("urgent"), "0/2 nodes are available: 2 Insufficient cpu.");
    let victim = world.get(&pod_key("a1")).expect("it has its time to end");
    let marked = victim["status"]["conditions"]
        .as_array()
        .and_then(|all| all.iter().find(|is| is["type"] == "DisruptionTarget"));
    assert_eq!(marked.map(|is| &is["reason"]), Some(&json!("PreemptionByScheduler")));
    // The capacity is reserved for the nominated pod.
    world.pod("sneaky", both(cpu("2"), priority(5)));
    world.run(3.0).await;
    assert_eq!((world.node_of("urgent").as_deref(), world.node_of("sneaky")), (Some("n1"), None));
    assert!(world.get(&pod_key("a1")).is_none());
    assert!(["a2", "b1", "b2"].iter().all(|name| world.node_of(name).is_some()));
}

#[tokio::test(start_paused = true)]
async fn a_budget_spares_its_pods() {
    let world = World::with_nodes(&[]).await;
    create_classes(&world);
    world.node("n1", capacity("2"));
    world.node("n2", capacity("2"));
    world.run(1.0).await;
    let on = |node: &str| json!({ "spec": { "nodeName": node } });
    world.pod("kept", both(both(cpu("2"), on("n1")), labelled("app", "db")));
    world.pod("goes", both(both(cpu("2"), priority(10)), on("n2")));
    let budget = json!({
        "metadata": { "name": "db", "namespace": "default" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "db" } } },
    });
    world.create(Kind::PodDisruptionBudget, budget);
    world.run(2.0).await;
    world.pod("urgent", both(cpu("2"), priority(100)));
    world.run(5.0).await;
    assert_eq!(world.node_of("urgent").as_deref(), Some("n2"));
    assert!(world.get(&pod_key("kept")).is_some());
}

#[tokio::test(start_paused = true)]
async fn neighbours() {
    let world = World::with_nodes(&[]).await;
    for (node, zone) in [("n1", "a"), ("n2", "a"), ("n3", "b")] {
        world.node(node, labelled("zone", zone));
    }
    world.run(1.0).await;
    let own = json!({ "matchLabels": { "app": "web" } });
    let away = json!({ "spec": { "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
        { "topologyKey": "kubernetes.io/hostname", "labelSelector": own } ] } } } });
    for name in ["w1", "w2", "w3", "w4"] {
        world.pod(name, both(labelled("app", "web"), away.clone()));
        world.run(0.0).await;
    }
    let mut nodes: Vec<_> = ["w1", "w2", "w3"].iter().filter_map(|name| world.node_of(name)).collect();
    nodes.sort();
    assert_eq!(nodes, ["n1", "n2", "n3"]);
    let message = "0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules.";
    assert!(world.why("w4").starts_with(message), "{}", world.why("w4"));
    // A pod with the same label but without a rule of its own is rejected, too.
    world.pod("plain", labelled("app", "web"));
    world.run(0.0).await;
    let message = "0/3 nodes are available: 3 node(s) didn't satisfy existing pods anti-affinity rules.";
    assert!(world.why("plain").starts_with(message), "{}", world.why("plain"));
    let near = json!({ "spec": { "affinity": { "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
        { "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "app": "db" } } } ] } } } });
    world.pod("client", near);
    world.run(0.0).await;
    assert_eq!(world.node_of("client"), None);
    world.pod("db", both(labelled("app", "db"), json!({ "spec": { "nodeName": "n2" } })));
    world.run(0.0).await;
    assert_eq!(world.node_of("client").as_deref(), Some("n2"));

    let spread = json!({ "spec": { "topologySpreadConstraints": [{ "maxSkew": 1, "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": { "matchLabels": { "app": "s" } } }] } });
    let mut zones = std::collections::BTreeMap::new();
    for name in ["s1", "s2", "s3", "s4", "s5", "s6"] {
        world.pod(name, both(labelled("app", "s"), spread.clone()));
        world.run(0.0).await;
        let node = world.node_of(name).expect("it has a place");
        *zones.entry(if node == "n3" { "b" } else { "a" }).or_insert(0) += 1;
    }
    assert_eq!(zones, [("a", 3), ("b", 3)].into());
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_pods_on_a_hundred_nodes() {
    let names: Vec<String> = (0..100).map(|number| format!("n{number}")).collect();
    let world = World::with_nodes(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    for number in 0..10_000 {
        world.pod(&format!("p{number}"), cpu("70m"));
    }
    world.run(0.0).await;
    let mut loads = std::collections::BTreeMap::new();
    for number in 0..10_000 {
        *loads.entry(world.node_of(&format!("p{number}"))).or_insert(0) += 1;
    }
    assert!(loads.len() == 100 && loads.values().all(|load| *load == 100), "{loads:?}");
}
