//! Effects of agents on their nodes, and Rollcall's admission of new nodes and pods.

use super::world::{World, annotations, both, node_key, pod_key};
use rollcall_sim::kinds::Kind;
use rollcall_sim::store::Key;
use serde_json::{Value, json};

fn drivers(world: &World, node: &str) -> Vec<String> {
    let csi = world.get(&Key::new(Kind::CsiNode, "", node)).expect("every node has one");
    let drivers = csi["spec"]["drivers"].as_array().cloned().unwrap_or_default();
    drivers.iter().filter_map(|driver| driver["name"].as_str().map(str::to_owned)).collect()
}

fn on(node: &str) -> Value {
    json!({ "spec": { "nodeName": node } })
}

#[tokio::test(start_paused = true)]
async fn a_driver_is_registered_after_its_pod_is_ready_and_until_it_goes() {
    let world = World::with_nodes(&["n1", "n2"]).await;
    let path = "--kubelet-registration-path=/var/lib/kubelet/plugins/csi.example.com/csi.sock";
    let registrar = json!([{ "name": "node-driver-registrar", "image": "r", "args": ["--v=2", path] }]);
    world.pod("registrar", both(on("n1"), json!({ "spec": { "containers": registrar } })));
    world.pod("said", both(on("n1"), annotations(&[("csi-driver", "other.example.com")])));
    world.run(1.5).await;
    assert!(world.seen("registrar").last().is_some_and(|last| last.ends_with("ready")), "ready");
    assert_eq!(drivers(&world, "n1"), [""; 0], "ready is not registered");
    world.run(1.0).await;
    assert_eq!(drivers(&world, "n1"), ["csi.example.com", "other.example.com"]);
    assert_eq!(drivers(&world, "n2"), [""; 0]);
    // A deleted CSINode is created again.
    world.delete(&Key::new(Kind::CsiNode, "", "n1"));
    world.run(0.0).await;
    assert_eq!(drivers(&world, "n1"), ["csi.example.com", "other.example.com"]);
    world.delete(&pod_key("said"));
    world.run(5.0).await;
    assert_eq!(drivers(&world, "n1"), ["csi.example.com"]);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_comes_back_has_no_drivers() {
    let world = World::with_nodes(&["n1"]).await;
    world.pod("said", both(on("n1"), annotations(&[("csi-driver", "csi.example.com")])));
    world.run(5.0).await;
    assert_eq!(drivers(&world, "n1"), ["csi.example.com"]);
    world.delete(&node_key("n1"));
    world.change(|cluster| cluster.delete_now(&pod_key("said"))).expect("the object exists");
    world.node("n1", json!({}));
    world.run(0.0).await;
    let csi = world.get(&Key::new(Kind::CsiNode, "", "n1")).expect("a new one");
    let node = world.get(&node_key("n1")).expect("the object exists");
    assert_eq!(csi["metadata"]["ownerReferences"][0]["uid"], node["metadata"]["uid"]);
    assert_eq!(drivers(&world, "n1"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn devices_and_conditions_appear_and_go() {
    let world = World::with_nodes(&["n1"]).await;
    let shows = annotations(&[("device", "example.com/gpu=2"), ("condition", "NetworkReady")]);
    world.pod("plugin", both(on("n1"), shows));
    let seen = || {
        let status = world.get(&node_key("n1")).expect("the object exists")["status"].take();
        let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default().into_iter();
        let network = conditions.find(|is| is["type"] == "NetworkReady").map(|is| is["status"].clone());
        (status["allocatable"]["example.com/gpu"].clone(), network.unwrap_or_default())
    };
    assert_eq!(seen(), (Value::Null, Value::Null));
    world.run(5.0).await;
    assert_eq!(seen(), (json!("2"), json!("True")));
    world.delete(&pod_key("plugin"));
    world.run(5.0).await;
    assert_eq!(seen(), (json!("0"), json!("False")));
}

fn gates(world: &World, pod: &str) -> Vec<String> {
    let pod = world.get(&pod_key(pod)).expect("the object exists");
    let gates = pod["spec"]["schedulingGates"].as_array().cloned().unwrap_or_default();
    gates.iter().filter_map(|gate| gate["name"].as_str().map(str::to_owned)).collect()
}

/// A sequence in Node scope that blocks nodes by taints.
fn sequence() -> Value {
    let selects = |app: &str| json!({ "name": app, "podSelector": { "matchLabels": { "app": app } } });
    json!({
        "metadata": { "name": "s", "namespace": "default" },
        "spec": { "scope": "Node", "nodeGuard": "Taints", "podGroups": [selects("agent"), selects("web")] },
    })
}

#[tokio::test(start_paused = true)]
async fn our_admission_gives_gates_tolerations_and_the_label_of_new_nodes() {
    let world = World::with_nodes(&["before"]).await;
    let app = |app: &str| json!({ "metadata": { "labels": { "app": app } } });
    world.create(Kind::PodSequence, sequence());
    world.pod("nothing-installed", app("web"));
    world.change(|cluster| cluster.admission.installed = true);
    world.pod("not-enabled", app("web"));
    let default = Key::new(Kind::Namespace, "", "default");
    world.update(&default, |there| there["metadata"]["labels"]["podsequence-enabled"] = "true".into());
    world.update(&default, |there| {
        there["metadata"]["annotations"] = json!({ "podsequence.example.com/allow-node-taints": "true" });
    });
    world.pod("agent", app("agent"));
    world.pod("web", app("web"));
    world.pod("bound", both(app("web"), on("before")));
    world.pod("stranger", app("other"));
    world.node("after", json!({ "metadata": { "labels": { "zone": "a" } } }));
    let ours = "podsequence.example.com/sequence-gate";
    let all = ["nothing-installed", "not-enabled", "agent", "web", "bound", "stranger"];
    let gated: Vec<&str> = all.into_iter().filter(|pod| gates(&world, pod) == [ours]).collect();
    assert_eq!(gated, ["agent", "web"]);
    let tolerates = |pod: &str| {
        let pod = world.get(&pod_key(pod)).expect("the object exists");
        pod["spec"]["tolerations"].to_string().contains("podsequence.example.com/default.s.web-blocked")
    };
    assert!(
        tolerates("agent") && !tolerates("web"),
        "members of the first group tolerate the taint of the second"
    );
    let unseen = |node: &str| {
        world.get(&node_key(node)).expect("the object exists")["metadata"]["labels"]["podsequence.example.com/unseen"].take()
    };
    assert_eq!((unseen("before"), unseen("after")), (Value::Null, json!("true")));
    // A deleted sequence has no members.
    world.delete(&Key::new(Kind::PodSequence, "default", "s"));
    world.pod("later", app("web"));
    assert_eq!(gates(&world, "later"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_generated_name_is_not_known_at_admission() {
    let world = World::with_nodes(&[]).await;
    world.change(|cluster| cluster.admission.installed = true);
    let default = Key::new(Kind::Namespace, "", "default");
    world.update(&default, |there| there["metadata"]["labels"]["podsequence-enabled"] = "true".into());
    let pod = json!({
        "metadata": { "generateName": "web-", "namespace": "default" },
        "spec": { "containers": [{ "name": "app", "image": "app" }] },
    });
    // The same seed gives the same name, so a sequence that lists this name in advance would match by luck.
    let made = |world: &World| world.change(|cluster| cluster.create(Kind::Pod, pod.clone())).expect("a pod");
    let name = {
        let other = World::with_nodes(&[]).await;
        let spec = json!({ "podGroups": [{ "pods": ["placeholder"] }] });
        other.create(
            Kind::PodSequence,
            json!({ "metadata": { "name": "s", "namespace": "default" }, "spec": spec }),
        );
        made(&other)["metadata"]["name"].as_str().expect("a name").to_owned()
    };
    let spec = json!({ "podGroups": [{ "pods": [name] }] });
    world.create(
        Kind::PodSequence,
        json!({ "metadata": { "name": "s", "namespace": "default" }, "spec": spec }),
    );
    let made = made(&world);
    assert_eq!(made["metadata"]["name"], name.as_str(), "the premise of this test");
    assert!(made["spec"]["schedulingGates"].is_null());
}
