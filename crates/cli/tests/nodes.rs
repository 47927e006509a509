//! Node scope on a real cluster: agents of a DaemonSet before the pods that need them, on every node by itself.

mod common;

use anyhow::{Context, ensure};
use common::*;
use futures::StreamExt;
use kube::ResourceExt;
use kube::api::{DynamicObject, WatchEvent, WatchParams};
use rollcall_testbed::Cluster;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use tokio::task::JoinHandle;

const NODES: usize = 30;
const APPS: u32 = 150;
const KEY: &str = "apps-blocked";

fn options() -> rollcall_testbed::Options {
    rollcall_testbed::Options { nodes: NODES, ..rollcall_testbed::Options::default() }
}

/// What was committed of pods, in the order of the API server: a watch of one kind tells nothing twice and nothing late.
#[derive(Default)]
struct Record {
    /// Nodes on which an agent has been ready.
    reached: BTreeSet<String>,
    /// Where apps were bound, and whether the node had been reached.
    landed: Vec<(String, String, bool)>,
    bound: BTreeMap<String, String>,
}

impl Record {
    fn see(&mut self, pod: &Value) {
        let text = |at: &str| pod.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (node, uid) = (text("/spec/nodeName"), text("/metadata/uid"));
        if node.is_empty() {
            return;
        }
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let ready = conditions.filter(|is| is["type"] == "Ready").any(|is| is["status"] == "True");
        match text("/metadata/labels/app").as_str() {
            "agent" if ready => drop(self.reached.insert(node)),
            "app" if self.bound.insert(uid, node.clone()).is_none() => {
                let reached = self.reached.contains(&node);
                self.landed.push((text("/metadata/name"), node, reached));
            }
            _ => {}
        }
    }

    fn too_early(&self) -> Vec<String> {
        let early = self.landed.iter().filter(|(_, _, reached)| !reached);
        early.map(|(pod, node, _)| format!("{pod} on {node}")).collect()
    }
}

/// Watches the pods of a namespace from the beginning.
async fn record(scene: &Scene<'_>) -> Result<(Arc<Mutex<Record>>, JoinHandle<()>)> {
    let record = Arc::new(Mutex::new(Record::default()));
    let (api, seen) = (scene.api("Pod"), record.clone());
    let list = api.list(&Default::default()).await?;
    let mut version = list.metadata.resource_version.context("a list has a version")?;
    let task = tokio::spawn(async move {
        loop {
            let Ok(stream) = api.watch(&WatchParams::default(), &version).await else { continue };
            let mut stream = stream.boxed();
            while let Some(Ok(event)) = stream.next().await {
                if let WatchEvent::Added(pod) | WatchEvent::Modified(pod) | WatchEvent::Deleted(pod) = event {
                    version = pod.metadata.resource_version.clone().unwrap_or(version);
                    let pod = serde_json::to_value(pod).unwrap_or_default();
                    seen.lock().expect("nobody panics here").see(&pod);
                }
            }
        }
    });
    Ok((record, task))
}

fn agents() -> Value {
    let slow = json!({ "testbed.rollcall.dev/ready-after": "700ms" });
    let rolling = json!({ "rollingUpdate": { "maxUnavailable": "50%" } });
    let template = json!({ "metadata": { "annotations": slow } });
    make::daemon_set("agent").with(json!({ "spec": { "updateStrategy": rolling, "template": template } }))
}

fn node_scoped(name: &str) -> Value {
    let groups = [
        json!({ "name": "agents", "podSelector": { "matchLabels": { "app": "agent" } } }),
        json!({ "name": "apps", "podSelector": { "matchLabels": { "app": "app" } } }),
    ];
    make::sequence(name, &groups).with(json!({ "spec": { "scope": "Node" } }))
}

async fn nodes(cluster: &Cluster) -> Result<Vec<Value>> {
    let client = cluster.client();
    let list = client.request::<Value>(http::Request::get("/api/v1/nodes").body(Vec::new())?).await?;
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}

/// Labels and annotations of all nodes that are ours, as `node key`.
async fn ours(cluster: &Cluster) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for node in nodes(cluster).await? {
        for part in ["labels", "annotations"] {
            let keys = node["metadata"][part].as_object().into_iter().flatten().map(|(key, _)| key);
            let keys = keys.filter(|key| key.starts_with("podsequence.example.com/"));
            found.extend(keys.map(|key| format!("{} {key}", node["metadata"]["name"])));
        }
    }
    Ok(found)
}

/// What is not ours of every node: must never change.
async fn foreign(cluster: &Cluster) -> Result<BTreeMap<String, Value>> {
    let each = nodes(cluster).await?.into_iter().map(|node| {
        let ours = |key: &String| key.starts_with("podsequence.example.com/");
        let labels =
            node["metadata"]["labels"].as_object().into_iter().flatten().filter(|(key, _)| !ours(key));
        let labels: BTreeMap<&String, &Value> = labels.collect();
        (node["metadata"]["name"].to_string(), json!({ "labels": labels, "taints": node["spec"]["taints"] }))
    });
    Ok(each.collect())
}

/// Waits until the policies work: a dry run gets its gate.
async fn gated_at_admission(scene: &Scene<'_>) -> Result<()> {
    let pod = make::pod("probe").label("app", "app").gates(&[]);
    let pod: DynamicObject = serde_json::from_value(pod)?;
    let dry = kube::api::PostParams { dry_run: true, ..Default::default() };
    wait::until("gates at admission", LIMIT, async || {
        let answer = scene.api("Pod").create(&dry, &pod).await?;
        Ok(answer.data["spec"]["schedulingGates"].is_array().then_some(()))
    })
    .await
}

async fn complete(scene: &Scene<'_>, controller: &Controller, name: &str, total: usize) -> Result<()> {
    let done = wait::until("every node", LIMIT, async || {
        let sequence = serde_json::to_value(scene.api("PodSequence").get(name).await?)?;
        let status = &sequence["status"];
        let all = status["nodes"] == json!({ "total": total, "complete": total, "waiting": 0 });
        Ok((all && status["phase"] == "Completed").then_some(()))
    });
    done.await.with_context(|| controller.log())
}

async fn all_apps_run(scene: &Scene<'_>, controller: &Controller) -> Result<()> {
    let run = wait::until("all apps", LIMIT, async || {
        let list = scene.api("Pod").list(&kube::api::ListParams::default().labels("app=app")).await?;
        let bound = list.items.iter().filter(|pod| pod.data["spec"]["nodeName"].is_string()).count();
        Ok((bound == APPS as usize).then_some(()))
    });
    run.await.with_context(|| controller.log())
}

/// Everything at once: nodes that join and leave, agents that are replaced, a controller that is away for a while.
#[tokio::test]
async fn no_pod_lands_on_a_node_before_its_agents_are_ready() -> Result<()> {
    let lab = Lab::full(options()).await?;
    let cluster = lab.cluster();
    let before = foreign(cluster).await?;
    let mut controller = Controller::start(&lab, Options::default()).await?;
    let scene = Scene::without_controller(&lab, "agents").await?;
    let (record, task) = record(&scene).await?;
    scene.create(node_scoped("agents-first")).await?;
    scene.create(make::deployment("app", APPS)).await?;
    scene.create(agents()).await?;
    let joined = cluster.add_nodes(5).await?;
    complete(&scene, &controller, "agents-first", NODES + 5).await?;
    all_apps_run(&scene, &controller).await?;
    // Away, and meanwhile a node goes, another comes, agents and apps are rolled.
    controller.kill()?;
    cluster.remove_node(&joined[0]).await?;
    cluster.kubectl_ok(&[
        "-n",
        &scene.namespace,
        "rollout",
        "restart",
        "deployment/app",
        "daemonset/agent",
    ])?;
    cluster.add_nodes(3).await?;
    let controller = Controller::start(&lab, Options::default()).await?;
    complete(&scene, &controller, "agents-first", NODES + 7).await?;
    all_apps_run(&scene, &controller).await?;
    for workload in ["daemonset/agent", "deployment/app"] {
        let rolled = ["-n", &scene.namespace, "rollout", "status", workload, "--timeout=90s"];
        cluster.kubectl_ok(&rolled).with_context(|| controller.log())?;
    }
    {
        let record = record.lock().expect("nobody panics here");
        ensure!(record.landed.len() >= APPS as usize, "{} apps were bound", record.landed.len());
        ensure!(record.too_early().is_empty(), "{:?}\n{}", record.too_early(), controller.log());
    }
    // Nothing of ours is left when the sequence is gone, and nothing else was touched.
    scene.delete("PodSequence", "agents-first").await?;
    let clean = wait::until("clean nodes", LIMIT, async || Ok(ours(cluster).await?.is_empty().then_some(())));
    clean.await.with_context(|| controller.log())?;
    let after = foreign(cluster).await?;
    let changed = before.iter().filter(|(name, was)| after.get(*name).is_some_and(|is| is != *was));
    ensure!(changed.count() == 0, "labels or taints of others were touched");
    task.abort();
    scene.done().await
}

/// A node waits for its own agent alone, and says so. With the policies in place, which give the pods their gate and hold the
/// controller to what it may write.
#[tokio::test]
async fn each_node_waits_for_its_own_agent() -> Result<()> {
    let lab = Lab::full(rollcall_testbed::Options { nodes: 3, ..options() }).await?;
    let cluster = lab.cluster();
    lab.apply_file("config/admission")?;
    let controller = Controller::start(&lab, Options::default()).await?;
    let scene = Scene::without_controller(&lab, "one").await?;
    let never = json!({ "testbed.rollcall.dev/never-ready": "true" });
    let agents = agents().with(json!({ "spec": { "template": { "metadata": { "annotations": never } } } }));
    scene.create(agents).await?;
    scene.create(node_scoped("one-by-one")).await?;
    let enabled = json!({ "metadata": { "labels": { "podsequence-enabled": "true" } } });
    scene.patch("Namespace", &scene.namespace, enabled).await?;
    gated_at_admission(&scene).await?;
    // Whatever a pod asks of its node itself stays.
    let on_linux = json!([{ "key": "kubernetes.io/os", "operator": "In", "values": ["linux"] }]);
    let required = json!({ "nodeSelectorTerms": [{ "matchExpressions": on_linux }] });
    let affinity = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": required } });
    let apps = make::deployment("app", 6);
    let apps = apps.with(
        json!({ "spec": { "template": { "spec": { "schedulingGates": null, "affinity": affinity } } } }),
    );
    scene.create(apps).await?;
    let agents: Vec<(String, String)> = wait::until("agents", LIMIT, async || {
        let list = scene.api("Pod").list(&kube::api::ListParams::default().labels("app=agent")).await?;
        let text = |pod: &DynamicObject| {
            let node = pod.data["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
            (pod.metadata.name.clone().unwrap_or_default(), node)
        };
        let bound: Vec<_> = list.items.iter().map(text).filter(|(_, node)| !node.is_empty()).collect();
        Ok((bound.len() == 3).then_some(bound))
    })
    .await
    .with_context(|| controller.log())?;
    let (agent, node) = &agents[1];
    scene.make_ready(agent).await?;
    let placed = wait::until("apps on the first node", LIMIT, async || {
        let list = scene.api("Pod").list(&kube::api::ListParams::default().labels("app=app")).await?;
        let on: Vec<String> = list
            .items
            .iter()
            .filter_map(|pod| Some(pod.data["spec"]["nodeName"].as_str()?.to_owned()))
            .collect();
        Ok((on.len() == 6).then_some(on))
    })
    .await
    .with_context(|| controller.log())?;
    ensure!(placed.iter().all(|on| on == node), "{placed:?}, and only {node} was open");
    let closed = ours(cluster).await?.into_iter().filter(|line| line.ends_with(KEY));
    ensure!(closed.count() == 2, "two nodes are closed: {:?}", ours(cluster).await?);
    let status = wait::until("status", LIMIT, async || {
        let sequence = serde_json::to_value(scene.api("PodSequence").get("one-by-one").await?)?;
        Ok((sequence["status"]["nodes"]["complete"] == 1).then(|| sequence["status"].clone()))
    })
    .await?;
    ensure!(status["nodeStatus"].as_array().is_some_and(|nodes| nodes.len() == 3), "{status:#}");
    ensure!(status["currentIndex"] == 0 && status["phase"] == "InProgress", "{status:#}");
    scene.done().await
}

/// The samples of Node scope, word by word.
#[tokio::test]
async fn samples() -> Result<()> {
    let lab = Lab::full(rollcall_testbed::Options { nodes: 3, ..options() }).await?;
    let controller = Controller::start(&lab, Options::default()).await?;
    lab.cluster().kubectl_ok(&["label", "node", "node-1", "accelerator=gpu"])?;
    run("node-scoped-csi-example.yaml", "csi-driver-sequence", &lab, &controller)?;
    run("node-scoped-device-plugin-example.yaml", "daemonset-sequence", &lab, &controller)
}

fn run(file: &str, sequence: &str, lab: &Lab, controller: &Controller) -> Result<()> {
    let cluster = lab.cluster();
    lab.apply_file(&format!("config/samples/{file}"))?;
    let waited = ["wait", "--for=condition=Ready", &format!("podseq/{sequence}"), "--timeout=90s"];
    cluster.kubectl_ok(&waited).with_context(|| controller.log())?;
    let path = lab::repository("config/samples").join(file);
    cluster.kubectl_ok(&["delete", "-f", path.to_str().context("UTF-8")?, "--wait"])?;
    Ok(())
}

/// With taints everybody is kept away, where an administrator allows it and the agents tolerate it.
#[tokio::test]
async fn taints_keep_everybody_away_until_the_agents_are_ready() -> Result<()> {
    let lab = Lab::full(rollcall_testbed::Options { nodes: 3, ..options() }).await?;
    let controller = Controller::start(&lab, Options::default()).await?;
    let scene = Scene::without_controller(&lab, "guarded").await?;
    let key = format!("podsequence.example.com/{}.guarded.apps-blocked", scene.namespace);
    let never = json!({ "testbed.rollcall.dev/never-ready": "true" });
    scene
        .create(agents().with(json!({ "spec": { "template": { "metadata": { "annotations": never } } } })))
        .await?;
    scene.create(node_scoped("guarded").with(json!({ "spec": { "nodeGuard": "Taints" } }))).await?;
    stalled(&scene, &controller, "TaintsNotPermitted").await?;
    let allowed = json!({ "podsequence.example.com/allow-node-taints": "true" });
    scene.patch("Namespace", &scene.namespace, json!({ "metadata": { "annotations": allowed } })).await?;
    stalled(&scene, &controller, "TemplateLacksToleration").await?;
    ensure!(tainted(lab.cluster(), &key).await?.is_empty(), "no node is tainted");
    let tolerations = json!([{ "key": key, "operator": "Exists", "effect": "NoSchedule" }]);
    let template = json!({ "spec": { "template": { "spec": { "tolerations": tolerations } } } });
    scene.patch("DaemonSet", "agent", template).await?;
    let all = wait::until("taints", LIMIT, async || {
        Ok((tainted(lab.cluster(), &key).await?.len() == 3).then_some(()))
    });
    all.await.with_context(|| controller.log())?;
    // Of the first group, and without a toleration of its own: it gets one with its release.
    let host = json!({ "spec": { "nodeSelector": { "kubernetes.io/hostname": "node-0" } } });
    scene.create(make::pod("early").label("app", "agent").with(host)).await?;
    let early = wait::until("an early pod on a closed node", LIMIT, async || {
        let early = scene.api("Pod").get("early").await?;
        Ok(early.data["spec"]["nodeName"].is_string().then_some(early))
    });
    let early = early.await.with_context(|| controller.log())?;
    ensure!(early.data["spec"]["tolerations"].to_string().contains(&key), "{:#}", early.data);
    ensure!(tainted(lab.cluster(), &key).await?.contains("node-0"), "node-0 is closed");
    // A pod that has nothing to do with it, and two that have.
    scene.create(make::pod("stranger").gates(&[])).await?;
    scene.create(make::deployment("app", 2)).await?;
    let agent = wait::until("an agent of the new template", LIMIT, async || {
        let list = scene.api("Pod").list(&kube::api::ListParams::default().labels("app=agent")).await?;
        let mut bound = list.items.iter().filter(|pod| pod.data["spec"]["nodeName"].is_string());
        let owned = |pod: &&DynamicObject| !pod.owner_references().is_empty();
        let tolerates =
            |pod: &&DynamicObject| owned(pod) && pod.data["spec"]["tolerations"].to_string().contains(&key);
        Ok(bound.find(tolerates).cloned())
    })
    .await
    .with_context(|| controller.log())?;
    let node = agent.data["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
    scene.make_ready(agent.metadata.name.as_deref().unwrap_or_default()).await?;
    let landed = wait::until("all three", LIMIT, async || {
        let list = scene.api("Pod").list(&Default::default()).await?;
        let others = list.items.iter().filter(|pod| pod.labels().get("app").is_none_or(|app| app != "agent"));
        let on = others.filter_map(|pod| Some(pod.data["spec"]["nodeName"].as_str()?.to_owned()));
        let on: Vec<String> = on.collect();
        Ok((on.len() == 3).then_some(on))
    })
    .await
    .with_context(|| controller.log())?;
    ensure!(landed.iter().all(|on| *on == node), "{landed:?}, and only {node} was open");
    ensure!(!tainted(lab.cluster(), &key).await?.contains(&node), "{node} is open");
    scene.delete("PodSequence", "guarded").await?;
    let clean = wait::until("clean nodes", LIMIT, async || {
        let taints = tainted(lab.cluster(), &key).await?;
        Ok((taints.is_empty() && ours(lab.cluster()).await?.is_empty()).then_some(()))
    });
    clean.await.with_context(|| controller.log())
}

async fn tainted(cluster: &Cluster, key: &str) -> Result<BTreeSet<String>> {
    let carries = |node: &Value| {
        node["spec"]["taints"].as_array().is_some_and(|all| all.iter().any(|is| is["key"] == key))
    };
    let nodes = nodes(cluster).await?.into_iter().filter(carries);
    Ok(nodes.filter_map(|node| node["metadata"]["name"].as_str().map(str::to_owned)).collect())
}

async fn stalled(scene: &Scene<'_>, controller: &Controller, reason: &str) -> Result<()> {
    let told = wait::until(reason, LIMIT, async || {
        let sequence = serde_json::to_value(scene.api("PodSequence").get("guarded").await?)?;
        let conditions = sequence["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let stalled = conditions.iter().any(|is| is["type"] == "Stalled" && is["reason"] == reason);
        Ok((stalled && sequence["status"]["phase"] == "Failed").then_some(()))
    });
    told.await.with_context(|| controller.log())
}
