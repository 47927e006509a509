//! The agents of a DaemonSet become ready before dependent pods start, independently on each node.

use super::waiting::three;
use crate::common::*;
use anyhow::{Context, ensure};
use kube::ResourceExt;
use kube::api::DynamicObject;
use rollcall_testbed::Cluster;
use std::collections::BTreeSet;

/// Each node waits only for its own agent, and its status says so. The policies are installed: they add gates to pods, and
/// limit the writes of the controller.
#[tokio::test]
async fn each_node_waits_for_its_own_agent() -> Result<()> {
    let lab = Lab::full(three()).await?;
    lab.apply_file("config/admission")?;
    let controller = Controller::start(&lab, Options::default()).await?;
    let scene = Scene::without_controller(&lab, "one").await?;
    scene.create(nodes::unready_agents()).await?;
    scene.create(nodes::sequence("one-by-one", "Labels")).await?;
    let enabled = json!({ "metadata": { "labels": { "podsequence-enabled": "true" } } });
    scene.patch("Namespace", &scene.namespace, enabled).await?;
    nodes::gated_at_admission(&scene).await?;
    // The node affinity in the pod's spec is kept.
    let on_linux = json!([{ "key": "kubernetes.io/os", "operator": "In", "values": ["linux"] }]);
    let required = json!({ "nodeSelectorTerms": [{ "matchExpressions": on_linux }] });
    let affinity = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": required } });
    let apps = make::deployment("app", 6);
    let apps = apps.with(
        json!({ "spec": { "template": { "spec": { "schedulingGates": null, "affinity": affinity } } } }),
    );
    scene.create(apps).await?;
    let agents = nodes::until_bound(&scene, "agent", 3).await.with_context(|| controller.log())?;
    let (agent, node) = &agents[1];
    scene.make_ready(agent).await?;
    let placed = nodes::until_bound(&scene, "app", 6).await.with_context(|| controller.log())?;
    ensure!(placed.iter().all(|(_, on)| on == node), "placed on {placed:?}, but only {node} was open");
    let ours = nodes::ours(lab.cluster()).await?;
    let closed = ours.iter().filter(|line| line.ends_with("apps-blocked"));
    ensure!(closed.count() == 2, "expected two blocked nodes: {ours:?}");
    let status = scene.status("one-by-one", "one node", |status| status["nodes"]["complete"] == 1).await?;
    ensure!(status["nodeStatus"].as_array().is_some_and(|nodes| nodes.len() == 3), "{status:#}");
    ensure!(status["currentIndex"] == 0 && status["phase"] == "InProgress", "{status:#}");
    scene.done().await
}

/// Runs the samples of Node scope verbatim.
#[tokio::test]
async fn samples() -> Result<()> {
    let lab = Lab::full(three()).await?;
    let controller = Controller::start(&lab, Options::default()).await?;
    lab.cluster().kubectl_ok(&["label", "node", "node-1", "accelerator=gpu"])?;
    run("node-scoped-csi-example.yaml", "csi-driver-sequence", &lab, &controller)?;
    run("node-scoped-device-plugin-example.yaml", "daemonset-sequence", &lab, &controller)?;
    by_reference(&lab).await.with_context(|| controller.log())?;
    without_members(&lab).await.with_context(|| controller.log())?;
    run("node-scoped-registered-driver-example.yaml", "volumes-first", &lab, &controller)
}

/// A group with only `nodeReady`: each node opens when the driver is registered there, no matter how it was installed.
async fn without_members(lab: &Lab) -> Result<()> {
    let scene = Scene::without_controller(lab, "registered").await?;
    let driver = json!({ "name": "driver", "nodeReady": { "csiDriver": "csi.example.com" } });
    let groups = [driver, make::by_ref("Deployment", "app")];
    let spec = json!({ "spec": { "scope": "Node" } });
    scene.create(make::sequence("s", &groups).with(spec)).await?;
    scene.create(make::deployment("app", 2)).await?;
    let status = scene.status("s", "no node", |status| status["summary"]["ready"] == "0/3").await?;
    ensure!(status["groups"][0]["expected"] == 0, "{status:#}");
    ensure!(status["blockedBy"][0]["reason"] == "NodeLacks", "{status:#}");
    scene.pods_are("app", 2, |pod| scene::has_gate(pod, GATE)).await?;
    let all = nodes::all(lab.cluster()).await?;
    let names: Vec<&str> = all.iter().filter_map(|node| node["metadata"]["name"].as_str()).collect();
    register_on(lab, names[1]).await?;
    let placed = nodes::until_bound(&scene, "app", 2).await?;
    ensure!(
        placed.iter().all(|(_, on)| on == names[1]),
        "placed on {placed:?}, but only {} was open",
        names[1]
    );
    for name in [names[0], names[2]] {
        register_on(lab, name).await?;
    }
    scene.phase("s", "Completed").await?;
    Ok(())
}

/// Registers a CSI driver on a node, as the kubelet would.
async fn register_on(lab: &Lab, node: &str) -> Result<()> {
    let drivers = json!([{ "name": "csi.example.com", "nodeID": node, "topologyKeys": null }]);
    let object = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": { "name": node },
        "spec": { "drivers": drivers },
    });
    let request =
        http::Request::post("/apis/storage.k8s.io/v1/csinodes").header("Content-Type", "application/json");
    lab.cluster().client().request::<Value>(request.body(serde_json::to_vec(&object)?)?).await?;
    Ok(())
}

/// Members by reference: first a DaemonSet that does not exist yet, then a Deployment whose pods fit any node.
async fn by_reference(lab: &Lab) -> Result<()> {
    let scene = Scene::without_controller(lab, "by-ref").await?;
    let groups = [make::by_ref("DaemonSet", "agent"), make::by_ref("Deployment", "app")];
    let spec = json!({ "spec": { "scope": "Node" } });
    scene.create(make::sequence("s", &groups).with(spec)).await?;
    scene.create(make::deployment("app", 2)).await?;
    scene.blocked_by("s", "daemonset/agent", "WorkloadMissing").await?;
    scene.pods_are("app", 2, |pod| scene::has_gate(pod, GATE)).await?;
    scene.create(nodes::unready_agents()).await?;
    let agents = nodes::until_bound(&scene, "agent", 3).await?;
    let (agent, node) = &agents[0];
    scene.make_ready(agent).await?;
    let placed = nodes::until_bound(&scene, "app", 2).await?;
    ensure!(placed.iter().all(|(_, on)| on == node), "placed on {placed:?}, but only {node} was open");
    for (agent, _) in &agents[1..] {
        scene.make_ready(agent).await?;
    }
    scene.phase("s", "Completed").await?;
    Ok(())
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

/// Taints keep all pods away, including foreign ones, if an administrator permits them and the agents tolerate them.
#[tokio::test]
async fn taints_keep_everybody_away_until_the_agents_are_ready() -> Result<()> {
    let lab = Lab::full(three()).await?;
    let controller = Controller::start(&lab, Options::default()).await?;
    let scene = Scene::without_controller(&lab, "guarded").await?;
    let key = format!("podsequence.example.com/{}.guarded.apps-blocked", scene.namespace);
    let intolerant = json!({ "spec": { "template": { "spec": { "tolerations": null } } } });
    scene.create(nodes::unready_agents().with(intolerant)).await?;
    scene.create(nodes::sequence("guarded", "Taints")).await?;
    nodes::stalled(&scene, &controller, "guarded", "TaintsNotPermitted").await?;
    nodes::allow_taints(&scene).await?;
    nodes::stalled(&scene, &controller, "guarded", "TemplateLacksToleration").await?;
    ensure!(tainted(lab.cluster(), &key).await?.is_empty(), "a node is tainted too early");
    let tolerations = json!([{ "key": key, "operator": "Exists", "effect": "NoSchedule" }]);
    let template = json!({ "spec": { "template": { "spec": { "tolerations": tolerations } } } });
    scene.patch("DaemonSet", "agent", template).await?;
    let all = wait::until("taints", LIMIT, async || {
        Ok((tainted(lab.cluster(), &key).await?.len() == 3).then_some(()))
    });
    all.await.with_context(|| controller.log())?;
    // The controller itself can be scheduled on blocked nodes, once it has the toleration from the guide.
    docs::shell(
        lab.cluster(),
        &docs::commands("docs/guide/node-scope.md", "The controller itself must be able to start")?,
    )?;
    let own = ["-n", lab::OWN_NAMESPACE];
    let started = ["scale", "deployment", "pod-sequence-controller", "--replicas=2"];
    lab.cluster().kubectl_ok(&[&own[..], &started].concat())?;
    let rolled = ["rollout", "status", "deployment", "pod-sequence-controller", "--timeout=60s"];
    lab.cluster().kubectl_ok(&[&own[..], &rolled].concat())?;
    lab.without_pods_of_ours()?;
    ensure!(tainted(lab.cluster(), &key).await?.len() == 3, "not all nodes are blocked");
    // A member of the first group without a toleration of its own: it gets the toleration when it is released. Annotations
    // assign it to the group. With the label of the agents, the DaemonSet would adopt it as the agent of node-0.
    let word = json!({ "podsequence.example.com/name": "guarded", "podsequence.example.com/group": "0" });
    let host = json!({ "nodeSelector": { "kubernetes.io/hostname": "node-0" } });
    scene
        .create(make::pod("early").with(json!({ "metadata": { "annotations": word }, "spec": host })))
        .await?;
    let early = wait::until("an early pod on a blocked node", LIMIT, async || {
        let early = scene.api("Pod").get("early").await?;
        Ok(early.data["spec"]["nodeName"].is_string().then_some(early))
    });
    let early = early.await.with_context(|| controller.log())?;
    ensure!(early.data["spec"]["tolerations"].to_string().contains(&key), "{:#}", early.data);
    ensure!(tainted(lab.cluster(), &key).await?.contains("node-0"), "node-0 is not blocked");
    // A pod that belongs to no sequence, and two members.
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
        let is_other = |pod: &&DynamicObject| {
            pod.name_any() != "early" && pod.labels().get("app").is_none_or(|app| app != "agent")
        };
        let others = list.items.iter().filter(is_other);
        let on = others.filter_map(|pod| Some(pod.data["spec"]["nodeName"].as_str()?.to_owned()));
        let on: Vec<String> = on.collect();
        Ok((on.len() == 3).then_some(on))
    })
    .await
    .with_context(|| controller.log())?;
    ensure!(landed.iter().all(|on| *on == node), "landed on {landed:?}, but only {node} was open");
    ensure!(!tainted(lab.cluster(), &key).await?.contains(&node), "{node} is still tainted");
    scene.delete("PodSequence", "guarded").await?;
    nodes::clean(lab.cluster(), &controller).await
}

async fn tainted(cluster: &Cluster, key: &str) -> Result<BTreeSet<String>> {
    let carries = |node: &Value| {
        node["spec"]["taints"].as_array().is_some_and(|all| all.iter().any(|is| is["key"] == key))
    };
    let tainted = nodes::all(cluster).await?.into_iter().filter(carries);
    Ok(tainted.map(|node| scene::name_of(&node)).collect())
}
