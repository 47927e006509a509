use super::world::{World, part, selector, template};
use rollcall_sim::kinds::Kind;
use serde_json::{Value, json};

fn set(strategy: Value) -> Value {
    json!({
        "metadata": { "name": "agent" },
        "spec": { "selector": selector("agent"), "template": template("agent", "1"), "updateStrategy": strategy },
    })
}

fn image(world: &World, version: &str) {
    world.edit(Kind::DaemonSet, "agent", |agent| agent["spec"]["template"] = template("agent", version));
}

/// The nodes with a pod that is not terminating, with the version of its image.
fn placed(world: &World) -> Vec<String> {
    let pods = world.all(Kind::Pod);
    let staying = pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    let mut placed: Vec<String> = staying
        .map(|pod| {
            let image = pod["spec"]["containers"][0]["image"].as_str().unwrap();
            let node = pod["spec"]["nodeName"].as_str().unwrap_or("nowhere");
            format!("{node} {}", image.split_once(':').unwrap().1)
        })
        .collect();
    placed.sort();
    placed
}

#[tokio::test(start_paused = true)]
async fn one_on_every_node() {
    let world = World::with_nodes(3);
    world.create(Kind::DaemonSet, set(json!(null)));
    world.wait(10).await;
    assert_eq!(placed(&world), ["node-1 1", "node-2 1", "node-3 1"]);
    assert_eq!(
        world.status(Kind::DaemonSet, "agent"),
        json!({
            "currentNumberScheduled": 3, "numberMisscheduled": 0, "desiredNumberScheduled": 3, "numberReady": 3,
            "observedGeneration": 1, "updatedNumberScheduled": 3, "numberAvailable": 3,
        })
    );
    let pod = world.get(Kind::Pod, &world.pod("agent-#1"));
    let required = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    assert_eq!(
        required["nodeSelectorTerms"],
        json!([{
            "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["node-1"] }],
        }])
    );
    let tolerated: Vec<&str> = pod["spec"]["tolerations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|toleration| toleration["key"].as_str().unwrap().strip_prefix("node.kubernetes.io/").unwrap())
        .collect();
    for expected in
        ["not-ready", "unreachable", "disk-pressure", "memory-pressure", "pid-pressure", "unschedulable"]
    {
        assert!(tolerated.contains(&expected), "{expected} in {tolerated:?}");
    }
    let hash = pod["metadata"]["labels"]["controller-revision-hash"].as_str().unwrap();
    assert_eq!(world.names(Kind::ControllerRevision), [format!("agent-{hash}")]);
}

#[tokio::test(start_paused = true)]
async fn nodes_come_and_go() {
    let world = World::with_nodes(1);
    world.create(Kind::DaemonSet, set(json!(null)));
    world.wait(10).await;
    world.node("node-2", json!({}), json!([]));
    world.wait(10).await;
    assert_eq!(placed(&world), ["node-1 1", "node-2 1"]);
    assert_eq!(world.status(Kind::DaemonSet, "agent")["desiredNumberScheduled"], 2);
    world.delete(Kind::Node, "node-2");
    world.wait(10).await;
    assert_eq!(world.status(Kind::DaemonSet, "agent")["desiredNumberScheduled"], 1);
}

#[tokio::test(start_paused = true)]
async fn only_where_selector_and_affinity_permit() {
    let world = World::with_nodes(0);
    for (name, disk) in [("a", "ssd"), ("b", "ssd"), ("c", "hdd")] {
        world.node(name, json!({ "disk": disk, "name": name }), json!([]));
    }
    let mut agent = set(json!(null));
    agent["spec"]["template"]["spec"]["nodeSelector"] = json!({ "disk": "ssd" });
    let not_b = json!({ "matchExpressions": [{ "key": "name", "operator": "NotIn", "values": ["b"] }] });
    agent["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
        json!({ "nodeSelectorTerms": [not_b] });
    world.create(Kind::DaemonSet, agent);
    world.wait(10).await;
    assert_eq!(placed(&world), ["a 1"]);
    // A node that loses the label loses its pod; a node that gets the label gets a pod.
    world.edit(Kind::Node, "a", |node| node["metadata"]["labels"]["disk"] = "hdd".into());
    world.edit(Kind::Node, "c", |node| node["metadata"]["labels"]["disk"] = "ssd".into());
    world.wait(60).await;
    assert_eq!(placed(&world), ["c 1"]);
}

#[tokio::test(start_paused = true)]
async fn taints_keep_pods_away_unless_they_are_tolerated() {
    for (taint, toleration, expected) in [
        ("NoSchedule", json!(null), 1),
        ("NoExecute", json!(null), 1),
        ("PreferNoSchedule", json!(null), 2),
        ("NoSchedule", json!({ "key": "dedicated", "operator": "Exists" }), 2),
        ("NoSchedule", json!({ "key": "dedicated", "value": "gpu", "effect": "NoSchedule" }), 2),
        ("NoExecute", json!({ "key": "dedicated", "operator": "Exists", "effect": "NoSchedule" }), 1),
    ] {
        let world = World::with_nodes(1);
        world.node("tainted", json!({}), json!([{ "key": "dedicated", "value": "gpu", "effect": taint }]));
        let mut agent = set(json!(null));
        if toleration.is_object() {
            agent["spec"]["template"]["spec"]["tolerations"] = json!([toleration]);
        }
        world.create(Kind::DaemonSet, agent);
        world.wait(10).await;
        let status = world.status(Kind::DaemonSet, "agent");
        assert_eq!(status["desiredNumberScheduled"], expected, "{taint} {toleration}");
        assert_eq!(status["numberReady"], expected, "{taint} {toleration}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cordoned_node_keeps_its_agent_and_gets_one() {
    let world = World::with_nodes(1);
    let unschedulable = json!([{ "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule" }]);
    world.node("cordoned", json!({}), unschedulable);
    world.create(Kind::DaemonSet, set(json!(null)));
    world.wait(10).await;
    assert_eq!(world.status(Kind::DaemonSet, "agent")["numberReady"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_taint_that_comes_later() {
    for (effect, placed_after, misscheduled) in [("NoSchedule", 2, 1), ("NoExecute", 1, 0)] {
        let world = World::with_nodes(2);
        world.create(Kind::DaemonSet, set(json!(null)));
        world.wait(10).await;
        world.edit(Kind::Node, "node-2", |node| {
            node["spec"]["taints"] = json!([{ "key": "x", "effect": effect }]);
        });
        world.wait(60).await;
        assert_eq!(placed(&world).len(), placed_after, "{effect}");
        let status = world.status(Kind::DaemonSet, "agent");
        let counts = part(&status, &["desiredNumberScheduled", "numberMisscheduled"]);
        let expected = json!({ "desiredNumberScheduled": 1, "numberMisscheduled": misscheduled });
        assert_eq!(counts, expected, "{effect}");
    }
}

#[tokio::test(start_paused = true)]
async fn updated_as_many_at_a_time_as_may_be_unavailable() {
    for (unavailable, at_once) in [(json!(null), 1), (json!(2), 2), (json!("50%"), 3), (json!("100%"), 5)] {
        let world = World::with_nodes(5);
        let strategy = json!({ "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": unavailable } });
        world.create(Kind::DaemonSet, set(strategy));
        world.wait(10).await;
        world.log();
        image(&world, "2");
        world.wait(300).await;
        let (mut down, mut most) = (0, 0);
        for note in world.log().split_whitespace() {
            match &note[..1] {
                "~" => down += 1,
                "!" => down -= 1,
                _ => {}
            }
            most = most.max(down);
        }
        assert_eq!((most, down), (at_once, 0), "{unavailable}");
        assert!(placed(&world).iter().all(|pod| pod.ends_with(" 2")));
        assert_eq!(world.status(Kind::DaemonSet, "agent")["updatedNumberScheduled"], 5);
    }
}

#[tokio::test(start_paused = true)]
async fn with_surge_the_new_one_is_ready_before_the_old_one_goes() {
    let world = World::with_nodes(2);
    let limits = json!({ "maxSurge": 1, "maxUnavailable": 0 });
    world.create(Kind::DaemonSet, set(json!({ "type": "RollingUpdate", "rollingUpdate": limits })));
    world.wait(10).await;
    world.log();
    image(&world, "2");
    world.wait(200).await;
    assert_eq!(world.only("+!~"), "+agent-#3 !agent-#3 ~agent-#1 +agent-#4 !agent-#4 ~agent-#2");
}

#[tokio::test(start_paused = true)]
async fn on_delete_waits_for_a_hand() {
    let world = World::with_nodes(2);
    world.create(Kind::DaemonSet, set(json!({ "type": "OnDelete" })));
    world.wait(10).await;
    image(&world, "2");
    world.wait(60).await;
    assert_eq!(placed(&world), ["node-1 1", "node-2 1"]);
    world.delete(Kind::Pod, &world.pod("agent-#1"));
    world.wait(60).await;
    assert_eq!(placed(&world), ["node-1 2", "node-2 1"]);
    assert_eq!(world.status(Kind::DaemonSet, "agent")["updatedNumberScheduled"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_broken_update_stops_after_the_first_node() {
    let world = World::with_nodes(3);
    world.create(Kind::DaemonSet, set(json!(null)));
    world.wait(10).await;
    image(&world, "broken");
    world.wait(100).await;
    assert_eq!(world.status(Kind::DaemonSet, "agent")["numberReady"], 2);
    image(&world, "3");
    world.wait(200).await;
    assert_eq!(placed(&world), ["node-1 3", "node-2 3", "node-3 3"]);
}

#[tokio::test(start_paused = true)]
async fn failed_pods_are_replaced_later_each_time() {
    let world = World::with_nodes(1);
    world.create(Kind::DaemonSet, set(json!(null)));
    world.wait(10).await;
    world.end("agent-#1", "Failed");
    world.wait(10).await;
    assert_eq!(world.only("+!"), "+agent-#1 !agent-#1 +agent-#2 !agent-#2");
    assert_eq!(world.status(Kind::DaemonSet, "agent")["numberReady"], 1);
}
