//! Launch order at admission: the changes of a pod, denials, and idempotence.

use crate::common::{after, request};
use proptest::prelude::*;
use rollcall_api::launch::written_pod;
use rollcall_core::launch::ranks::read;
use rollcall_core::roster::Roster;
use rollcall_webhook::{Asked, review};
use serde_json::{Value, json};

const PROPOSED: &str = "KRUISE_CONTAINER_LAUNCH_PRIORITY";
const SHIPPED: &str = "KRUISE_CONTAINER_PRIORITY";
const ORDERED: &str = "apps.kruise.io/container-launch-priority";
const GATE: &str = "podsequence.example.com/launch-gate";

fn asked(pod: &Value) -> Value {
    review(Asked::Launch, &request("pods", "shop", pod.clone()), &Roster::default())["response"].clone()
}

fn reviewed(pod: &Value) -> Value {
    after(pod, &json!({ "response": asked(pod) }))
}

fn pod(containers: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web" }, "spec": { "containers": containers } })
}

fn keys(pod: &Value) -> Vec<&str> {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let variables = containers.flat_map(|container| container["env"].as_array()).flatten();
    let barriers =
        variables.filter(|variable| variable["name"].as_str().is_some_and(|name| name.ends_with("_BARRIER")));
    barriers.filter_map(|variable| variable["valueFrom"]["configMapKeyRef"]["key"].as_str()).collect()
}

#[test]
fn a_pod_gets_variables_gate_and_name_and_nothing_else() {
    let side = json!({ "name": "side", "image": "i", "env": [{ "name": "A", "value": "1" }, { "name": PROPOSED, "value": "1" }] });
    let asked = pod(json!([{ "name": "main", "image": "i" }, side]));
    let variable = |key: &str| {
        json!({ "name": "KRUISE_CONTAINER_LAUNCH_BARRIER",
                "valueFrom": { "configMapKeyRef": { "name": "web-barrier", "key": key } } })
    };
    let mut expected = asked.clone();
    expected["spec"]["containers"][0]["env"] = json!([variable("c_0")]);
    expected["spec"]["containers"][1]["env"].as_array_mut().expect("a list").push(variable("c_1"));
    expected["spec"]["schedulingGates"] = json!([{ "name": GATE }]);
    assert_eq!(reviewed(&asked), expected);
}

#[test]
fn a_name_is_made_up_as_the_api_server_would() {
    let mut asked =
        pod(json!([{ "name": "a", "env": [{ "name": SHIPPED, "value": "1" }] }, { "name": "b" }]));
    asked["metadata"] = json!({ "generateName": format!("{}-", "x".repeat(60)) });
    let made = reviewed(&asked);
    let name = made["metadata"]["name"].as_str().expect("a name");
    assert!(name.len() == 63 && name.starts_with(&"x".repeat(58)), "{name}");
    assert!(name[58..].bytes().all(|byte| b"bcdfghjklmnpqrstvwxz2456789".contains(&byte)), "{name}");
    assert_eq!(keys(&made), ["p_1", "p_0"]);
    assert_eq!(
        made["spec"]["containers"][1]["env"][0]["valueFrom"]["configMapKeyRef"]["name"],
        format!("{name}-barrier")
    );
}

/// Another webhook inserts a container before the others, and the API server calls us again.
#[test]
fn containers_that_come_later_have_a_rank_too() {
    let mut asked = pod(json!([{ "name": "a" }, { "name": "b" }]));
    asked["metadata"]["annotations"] = json!({ ORDERED: "Ordered" });
    let mut made = reviewed(&asked);
    assert_eq!(keys(&made), ["c_0", "c_-1"]);
    made["spec"]["containers"].as_array_mut().expect("a list").insert(0, json!({ "name": "injected" }));
    let again = reviewed(&made);
    assert_eq!(keys(&again), ["c_0", "c_-1", "c_-2"]);
    assert_eq!(reviewed(&again), again);
}

#[test]
fn others_are_left_alone() {
    let ordered = json!([{ "name": "a", "env": [{ "name": PROPOSED, "value": "1" }] }, { "name": "b" }]);
    let mut mirrored = pod(ordered.clone());
    mirrored["metadata"]["annotations"] = json!({ "kubernetes.io/config.mirror": "x" });
    assert_eq!(reviewed(&mirrored), mirrored);
    for namespace in ["kube-system", "pod-sequence-system"] {
        let request = request("pods", namespace, pod(ordered.clone()));
        assert_eq!(review(Asked::Launch, &request, &Roster::default())["response"].get("patch"), None);
    }
    let mut bound = pod(ordered);
    bound["spec"]["nodeName"] = json!("node");
    let made = reviewed(&bound);
    assert!(made["spec"]["schedulingGates"].is_null());
    assert_eq!(keys(&made), ["c_1", "c_0"]);
}

#[test]
fn what_has_no_effect_is_said() {
    let mut both =
        pod(json!([{ "name": "a", "env": [{ "name": PROPOSED, "value": "1" }] }, { "name": "b" }]));
    both["metadata"]["labels"] = json!({ ORDERED: "Ordered" });
    both["metadata"]["annotations"] = json!({ "podsequence.example.com/restart-dependents": "true" });
    both["spec"]["initContainers"] =
        json!([{ "name": "setup", "env": [{ "name": PROPOSED, "value": "9" }] }]);
    let said = asked(&both)["warnings"].to_string();
    for words in [
        "Ordered takes precedence; the values of KRUISE_CONTAINER_LAUNCH_PRIORITY are ignored",
        "the priority of an init container has no effect",
        "restart-dependents has no effect",
    ] {
        assert!(said.contains(words), "{said}");
    }
    // A pod that cannot be read may need an order, so it is denied.
    let answer = asked(&json!({ "metadata": { "name": 1 }, "spec": {} }));
    assert_eq!(answer["allowed"], false);
    assert_eq!(answer["status"]["message"], "rollcall: object.metadata.name is not a string");
}

fn variable() -> impl Strategy<Value = Value> {
    let name = prop_oneof![
        3 => Just(PROPOSED), 2 => Just(SHIPPED), 2 => Just("OTHER"),
        1 => Just("KRUISE_CONTAINER_LAUNCH_BARRIER"), 1 => Just("KRUISE_CONTAINER_BARRIER"),
    ];
    let reference =
        |key: &str| json!({ "valueFrom": { "configMapKeyRef": { "name": "web-barrier", "key": key } } });
    let value = prop_oneof![
        4 => (-2..3i64).prop_map(|priority| json!({ "value": priority.to_string() })),
        1 => Just(json!({ "value": "soon" })),
        1 => Just(json!({})),
        1 => Just(json!({ "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } })),
        1 => Just(reference("c_0")),
        1 => Just(reference("p_1")),
    ];
    (name, value).prop_map(|(name, mut value)| {
        value["name"] = json!(name);
        value
    })
}

fn container() -> impl Strategy<Value = Value> {
    let env = proptest::option::of(proptest::collection::vec(variable(), 0..3));
    ("[a-z]{1,5}", env).prop_map(|(name, env)| match env {
        Some(env) => json!({ "name": name, "image": "i", "env": env }),
        None => json!({ "name": name }),
    })
}

fn any_pod() -> impl Strategy<Value = Value> {
    let containers = proptest::collection::vec(container(), 1..5);
    let init = proptest::collection::vec(container(), 0..2);
    let ordered = proptest::option::weighted(0.3, prop_oneof![Just("Ordered"), Just("ordered")]);
    (containers, init, ordered, any::<bool>(), any::<bool>(), proptest::option::weighted(0.2, Just("node")))
        .prop_map(|(containers, init, ordered, generated, gates, node)| {
            let mut pod =
                json!({ "metadata": {}, "spec": { "containers": containers, "initContainers": init } });
            pod["metadata"] =
                if generated { json!({ "generateName": "web-" }) } else { json!({ "name": "web" }) };
            if let Some(ordered) = ordered {
                pod["metadata"]["labels"] = json!({ ORDERED: ordered, "app": "x" });
            }
            if gates {
                pod["spec"]["schedulingGates"] = json!([{ "name": "other" }]);
            }
            if let Some(node) = node {
                pod["spec"]["nodeName"] = json!(node);
            }
            pod
        })
}

/// The pod without our changes.
fn without_ours(mut pod: Value, before: &Value) -> Value {
    if before["metadata"]["name"].is_null() {
        pod["metadata"].as_object_mut().expect("an object").remove("name");
    }
    for (place, container) in pod["spec"]["containers"].as_array_mut().expect("a list").iter_mut().enumerate()
    {
        let known = before["spec"]["containers"][place]["env"].as_array();
        let Some(env) = container.get_mut("env").and_then(Value::as_array_mut) else { continue };
        assert!(env.len() <= known.map_or(0, Vec::len) + 1, "more than one variable is added");
        env.truncate(known.map_or(0, Vec::len));
        // A reference to the pod's own ConfigMap is also ours: its key is corrected if the order has changed.
        for (now, before) in env.iter_mut().zip(known.into_iter().flatten()) {
            let reference = &before["valueFrom"]["configMapKeyRef"];
            let is_barrier = now["name"].as_str().is_some_and(|name| name.ends_with("_BARRIER"));
            if is_barrier && reference["name"] == "web-barrier" {
                now["valueFrom"]["configMapKeyRef"]["key"] = reference["key"].clone();
            }
        }
        if known.is_none() {
            container.as_object_mut().expect("an object").remove("env");
        }
    }
    if let Some(gates) = pod["spec"].get_mut("schedulingGates").and_then(Value::as_array_mut) {
        gates.retain(|gate| gate["name"] != GATE);
        if gates.is_empty() && before["spec"]["schedulingGates"].is_null() {
            pod["spec"].as_object_mut().expect("an object").remove("schedulingGates");
        }
    }
    pod
}

proptest! {
    #[test]
    fn a_second_look_changes_nothing_and_only_ours_is_added(pod in any_pod()) {
        let answer = asked(&pod);
        // The expected order, from JSON that was parsed in another way.
        match read(&written_pod(&pod)) {
            Err(problem) => {
                prop_assert_eq!(&answer["allowed"], &json!(false));
                prop_assert_eq!(&answer["status"]["message"], &json!(format!("rollcall: {}", problem.message)));
            }
            Ok(reading) => {
                prop_assert_eq!(&answer["allowed"], &json!(true));
                prop_assert_eq!(answer.get("patch").is_some(), reading.order.is_some() && reviewed(&pod) != pod);
                let once = reviewed(&pod);
                prop_assert_eq!(without_ours(once.clone(), &pod), pod.clone());
                if let Some(order) = reading.order {
                    let expected: Vec<String> = order.priorities.iter().map(|rank| order.spelling.key(*rank)).collect();
                    prop_assert_eq!(keys(&once), expected);
                }
                prop_assert_eq!(reviewed(&once), once);
            }
        }
    }
}
