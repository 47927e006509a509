//! Launch order at admission on a real API server: additions to pods, rejections and their messages, and pod creation while the
//! webhook is unavailable.

use super::pods::{ORDERED, PROPOSED, SHIPPED, container, containers, pod, spec, with_priority, workload};
use super::scene::{LaunchLab, ranks_of};
use super::{permissions, samples};
use crate::common::*;
use anyhow::{Context, ensure};

const BARRIER: &str = "KRUISE_CONTAINER_LAUNCH_BARRIER";

#[tokio::test]
async fn pods_get_what_they_ask_for_or_hear_why_not() -> Result<()> {
    let mut launch = LaunchLab::start(rollcall_testbed::Options { nodes: 1, ..Default::default() }).await?;
    let namespace = launch.lab.cluster().namespace("asked").await?;
    what_is_added(&launch, &namespace)?;
    what_is_refused(&launch, &namespace)?;
    in_a_deployment(&launch, &namespace).await?;
    nothing_is_added(&launch, &namespace)?;
    let left = launch.get(&namespace, "configmaps")?;
    ensure!(!left.to_string().contains("-barrier"), "a dry run left an object: {left}");
    samples::all(&launch).await?;
    permissions::used_and_granted_are_the_same(&launch).await?;
    without_the_webhook(&mut launch).await
}

fn refusal(launch: &LaunchLab, namespace: &str, pod: &Value) -> Result<String> {
    match launch.dry_run(namespace, pod) {
        Ok(pod) => anyhow::bail!("not rejected: {pod}"),
        Err(error) => Ok(format!("{error:#}")),
    }
}

fn what_is_added(launch: &LaunchLab, namespace: &str) -> Result<()> {
    let ends = launch
        .dry_run(namespace, &pod("ends", &spec(containers(PROPOSED, &[2147483647, 0, -2147483647]))))?;
    ensure!(
        ends["spec"]["schedulingGates"] == json!([{ "name": "podsequence.example.com/launch-gate" }]),
        "{ends}"
    );
    let keys: Vec<i32> = ranks_of(&ends)?.into_values().collect();
    ensure!(keys == [2147483647, 0, -2147483647], "{keys:?}");
    let mut generated = pod("x", &spec(containers(SHIPPED, &[1, 0])));
    let base = "a".repeat(70);
    generated["metadata"] = json!({ "generateName": base });
    let made = launch.dry_run(namespace, &generated)?;
    let name = made["metadata"]["name"].as_str().context("a name")?;
    ensure!(name.len() == 63 && name.starts_with(&base[..58]), "{name}");
    let reference = &made["spec"]["containers"][0]["env"][2]["valueFrom"]["configMapKeyRef"];
    ensure!(*reference == json!({ "name": format!("{name}-barrier"), "key": "p_1" }), "{made}");
    let mut bound = pod("bound", &spec(containers(PROPOSED, &[1, 0])));
    bound["spec"]["nodeName"] = json!("node-0");
    let bound = launch.dry_run(namespace, &bound)?;
    ensure!(bound["spec"]["schedulingGates"].is_null() && ranks_of(&bound)?.len() == 2, "{bound}");
    Ok(())
}

fn what_is_refused(launch: &LaunchLab, namespace: &str) -> Result<()> {
    let expected = "expected an integer from -2147483647 to 2147483647";
    for value in ["2147483648", "-2147483648", "abc", "", "1.5"] {
        let alone = pod("alone", &spec(vec![with_priority(container("main", 1), PROPOSED, value)]));
        let said = refusal(launch, namespace, &alone)?;
        let words = format!(
            "admission webhook \"launch.podsequence.example.com\" denied the request: rollcall: container \"main\": \
             {PROPOSED} is \"{value}\"; {expected}"
        );
        ensure!(said.contains(&words), "{said}");
    }
    let two = |env: Value| {
        let mut main = container("main", 1);
        main["env"] = env;
        pod("two", &spec(vec![main, with_priority(container("side", 1), PROPOSED, "1")]))
    };
    let field = json!({ "fieldRef": { "fieldPath": "metadata.name" } });
    let from = |name: &str| json!([{ "name": name, "valueFrom": field }]);
    let twice = json!([{ "name": PROPOSED, "value": "1" }, { "name": PROPOSED, "value": "2" }]);
    for (env, words) in [
        (from(PROPOSED), format!("container \"main\": {PROPOSED} is a valueFrom; {expected}")),
        (
            from(BARRIER),
            format!("container \"main\": {BARRIER} is a valueFrom; expected none, or the key \"c_0\""),
        ),
        (
            json!([{ "name": BARRIER, "value": "1" }]),
            format!("container \"main\": {BARRIER} is \"1\"; expected none"),
        ),
        (twice, format!("container \"main\": {PROPOSED} is set 2 times; expected once")),
        (json!([{ "name": SHIPPED, "value": "1" }]), "expected one spelling per pod".to_owned()),
    ] {
        let said = refusal(launch, namespace, &two(env))?;
        ensure!(said.contains(&words), "{said}");
    }
    let long = "x".repeat(250);
    let said = refusal(launch, namespace, &pod(&long, &spec(containers(PROPOSED, &[1, 0]))))?;
    ensure!(said.contains("metadata.name has 250 characters; expected at most 245"), "{said}");
    let mut many = vec![0; 65];
    many[7] = 1;
    let said = refusal(launch, namespace, &pod("many", &spec(containers(PROPOSED, &many))))?;
    ensure!(said.contains("the launch order has 65 containers; expected at most 64"), "{said}");
    Ok(())
}

/// The message of the rejection also appears in the status of a workload.
async fn in_a_deployment(launch: &LaunchLab, namespace: &str) -> Result<()> {
    let bad = spec(vec![container("main", 1), with_priority(container("side", 1), PROPOSED, "soon")]);
    launch.create(namespace, &[workload("Deployment", "bad", 1, &bad)])?;
    let words = format!("container \\\"side\\\": {PROPOSED} is \\\"soon\\\"");
    wait::until("the message in the ReplicaSet's condition", LIMIT, async || {
        let sets = launch.get(namespace, "replicasets?labelSelector=app%3Dbad")?;
        Ok(sets["items"][0]["status"]["conditions"].to_string().contains(&words).then_some(()))
    })
    .await?;
    launch.lab.cluster().kubectl_ok(&["delete", "deployment", "bad", "-n", namespace]).map(drop)
}

/// Pods that do not take part, or have only one rank, are created unchanged.
fn nothing_is_added(launch: &LaunchLab, namespace: &str) -> Result<()> {
    let plain = spec(vec![container("a", 1), container("b", 1)]);
    let equal = spec(containers(PROPOSED, &[3, 3]));
    let mut ordered = pod("p", &spec(vec![container("a", 1)]));
    ordered["metadata"]["labels"] = json!({ ORDERED: "Ordered" });
    for asked in [pod("p", &plain), pod("p", &equal), ordered] {
        let mut made = launch.dry_run(namespace, &asked)?;
        let mut apart = launch.dry_run("kube-system", &asked)?;
        for pod in [&mut made, &mut apart] {
            for field in ["uid", "creationTimestamp", "namespace", "managedFields"] {
                pod["metadata"].as_object_mut().context("metadata")?.remove(field);
            }
            let text = pod["spec"].to_string();
            // The API server generates the name of the token's volume.
            let token = text.split("kube-api-access-").nth(1).map(|rest| rest[..5].to_owned());
            pod["spec"] = serde_json::from_str(&text.replace(&token.unwrap_or_default(), "xxxxx"))?;
        }
        ensure!(made == apart, "{made}\n{apart}");
    }
    // In excluded namespaces, even pods that request an order stay unchanged.
    let left = launch.dry_run("kube-system", &pod("p", &spec(containers(PROPOSED, &[1, 0]))))?;
    ensure!(left["spec"]["schedulingGates"].is_null(), "{left}");
    Ok(())
}

/// While the webhook is unavailable, pods that request an order are not created, other pods are not affected, and creation
/// resumes by itself.
async fn without_the_webhook(launch: &mut LaunchLab) -> Result<()> {
    // A server that accepts connections but never answers, and one that answers with unrelated data.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let silent = format!("https://{}/launch", silent.local_addr()?);
    let nonsense = format!("{}/version", launch.lab.cluster().server());
    let authority = std::fs::read(launch.lab.cluster().ca())?;
    launch.controller.kill()?;
    for (trouble, url) in [("away", None), ("silent", Some(&silent)), ("nonsense", Some(&nonsense))] {
        if let Some(url) = url {
            launch.lab.call_launch_webhook_at(url, &authority)?;
        }
        in_trouble(launch, trouble).await.with_context(|| trouble.to_owned())?;
    }
    launch.restart().await?;
    launch.lab.call_launch_webhook(launch.controller.webhook)?;
    // The pods of all three kinds of trouble are eventually created in order.
    for trouble in ["away", "silent", "nonsense"] {
        wait::until(&format!("the ordered pods of {trouble}"), LIMIT, async || {
            let pods = launch.get(trouble, "pods?labelSelector=app%3Dordered")?;
            let pods = pods["items"].as_array().cloned().unwrap_or_default();
            for pod in &pods {
                ranks_of(pod)?;
            }
            let free = pods.iter().filter(|pod| pod["spec"]["schedulingGates"].is_null());
            Ok((free.count() == 2).then_some(()))
        })
        .await?;
    }
    Ok(())
}

async fn in_trouble(launch: &LaunchLab, namespace: &str) -> Result<()> {
    launch.lab.cluster().kubectl_ok(&["create", "namespace", namespace])?;
    let ordered = workload("Deployment", "ordered", 2, &spec(containers(PROPOSED, &[1, 0])));
    launch
        .create(namespace, &[ordered, workload("Deployment", "plain", 2, &spec(vec![container("a", 1)]))])?;
    wait::until("the plain pods, and the reason why ordered pods are missing", LIMIT, async || {
        let pods = launch.get(namespace, "pods")?;
        let names = pods["items"].as_array().into_iter().flatten();
        let names = names.filter_map(|pod| pod["metadata"]["name"].as_str());
        let (plain, ordered): (Vec<&str>, Vec<&str>) = names.partition(|name| name.starts_with("plain-"));
        ensure!(ordered.is_empty(), "created without a launch order: {ordered:?}");
        let sets = launch.get(namespace, "replicasets?labelSelector=app%3Dordered")?;
        let why = sets["items"][0]["status"]["conditions"].to_string();
        let told = why.contains("failed calling webhook") && why.contains("launch.podsequence.example.com");
        Ok((plain.len() == 2 && told).then_some(()))
    })
    .await
}
