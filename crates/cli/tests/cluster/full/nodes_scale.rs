//! Node scope in a large cluster under concurrent changes, verified from the audit log.

use crate::common::order::Placed;
use crate::common::*;
use anyhow::{Context, ensure};
use kube::api::{DeleteParams, ListParams};
use rollcall_testbed::{Capacity, Cluster};
use std::ops::Range;
use std::time::Duration;

const NODES: usize = 120;
const APPS: usize = 600;
/// Polling interval, long because each poll of so many objects is expensive for the API server.
const PAUSE: Duration = Duration::from_millis(100);
/// Time limit for hundreds of pods on a busy machine.
const SCALE_LIMIT: Duration = Duration::from_secs(240);

/// A scenario for one guard. Its apps request an extended resource of their own, and each node has enough of it for six apps.
/// So the first open nodes cannot take all apps, and the scenarios do not compete.
struct Story {
    guard: &'static str,
    resource: &'static str,
    leaving: &'static str,
    replaced: &'static str,
}

const STORIES: [Story; 2] = [
    Story { guard: "Labels", resource: "cpu", leaving: "node-70", replaced: "node-80" },
    Story { guard: "Taints", resource: "memory", leaving: "node-71", replaced: "node-81" },
];

fn capacity() -> Capacity {
    Capacity { cpu: "6".into(), memory: "6".into(), ..Capacity::default() }
}

/// Nodes join and leave, agents are rolled out, and the controller is killed half-way and stays down for a while. No app is
/// bound to a node before an agent is ready there, and foreign labels, annotations and taints are kept.
#[tokio::test]
async fn nobody_lands_before_the_agents_whatever_happens() -> Result<()> {
    let options = rollcall_testbed::Options { nodes: NODES, capacity: capacity(), ..Default::default() };
    let lab = Lab::full(options).await?;
    lab.apply_file("config/admission")?;
    nodes::unseen_at_registration(lab.cluster()).await?;
    kubectl(&lab, "label", 0..30, &["example.com/pool=a"])?;
    kubectl(&lab, "taint", 0..20, &["example.com/b=1:PreferNoSchedule", "example.com/a=2:PreferNoSchedule"])?;
    let before = nodes::all_foreign(lab.cluster()).await?;

    let mut proofs = Vec::new();
    for story in STORIES {
        let scene = Scene::without_controller(&lab, "crowd").await?;
        story.run(&scene).await.with_context(|| story.guard)?;
        let proof = Placed::new(ACCOUNT, &scene.namespace, &nodes::sequence("crowd", story.guard));
        proofs.push((story.guard, proof));
    }

    let after = nodes::all_foreign(lab.cluster()).await?;
    for (name, was) in before {
        let is = after.get(&name).unwrap_or(&was);
        ensure!(*is == was, "foreign data on {name} changed from {was} to {is}");
    }
    lab.cluster().audit().pass(|event| proofs.iter_mut().for_each(|(_, proof)| proof.see(&event)))?;
    let mut found = Vec::new();
    for (guard, proof) in proofs {
        let (landed, on) = proof.landed();
        ensure!(landed >= APPS && on > NODES * 3 / 4, "{guard}: {landed} apps were bound to {on} nodes");
        found.extend(proof.violations().iter().map(|violation| format!("{guard}: {violation}")));
    }
    ensure!(found.is_empty(), "{} violations:\n{}", found.len(), found.join("\n"));
    Ok(())
}

impl Story {
    async fn run(&self, scene: &Scene<'_>) -> Result<()> {
        let (lab, cluster) = (scene.lab, scene.lab.cluster());
        let total = nodes::all(cluster).await?.len();
        nodes::allow_taints(scene).await?;
        let mut controller = Controller::start(lab, Options::default()).await?;
        scene.create(nodes::sequence("crowd", self.guard)).await?;
        scene.create(nodes::agents()).await?;
        scene.create(self.apps(APPS / 2)).await?;
        // Other clients write to nodes, and nodes join and leave, while the first nodes open. Then the controller is killed.
        let meanwhile = async {
            label(scene, "meanwhile", json!("1")).await?;
            let joined = cluster.add_nodes(10).await?;
            leaves(scene, self.leaving).await?;
            anyhow::Ok(joined)
        };
        let killed = async {
            half_open(cluster).await.with_context(|| controller.log())?;
            controller.kill()
        };
        let (joined, ()) = tokio::try_join!(meanwhile, killed)?;
        ensure!(closed(cluster).await? > 0, "all nodes were open when the controller was killed");

        // While the controller is down: more apps, new agents, other nodes, and one node replaced under its name.
        scene.patch("Deployment", "app", json!({ "spec": { "replicas": APPS } })).await?;
        scene.kubectl(&["rollout", "restart", "daemonset/agent"])?;
        kubectl(lab, "taint", 40..60, &["example.com/meanwhile=1:PreferNoSchedule"])?;
        cluster.add_nodes(10).await?;
        leaves(scene, &joined[0]).await?;
        leaves(scene, self.replaced).await?;
        cluster.add_node(self.replaced, &capacity()).await?;
        let made = |status: &Value| status["replicas"] == APPS;
        until(scene, "Deployment", "app", "all pods created", made).await?;
        let rolling = |status: &Value| status["updatedNumberScheduled"].as_u64() >= Some(10);
        until(scene, "DaemonSet", "agent", "new agents", rolling).await?;

        let controller = Controller::start(lab, Options::default()).await?;
        kubectl(lab, "taint", 40..60, &["example.com/meanwhile:PreferNoSchedule-"])?;
        label(scene, "meanwhile", Value::Null).await?;
        let run = |status: &Value| status["readyReplicas"] == APPS;
        until(scene, "Deployment", "app", "all run", run).await.with_context(|| controller.log())?;
        nodes::complete(scene, &controller, "crowd", total + 20 - 2).await?;
        let rolled = |status: &Value| {
            let number = |key: &str| status[key].as_u64();
            number("updatedNumberScheduled") == number("desiredNumberScheduled")
                && number("numberReady") == number("desiredNumberScheduled")
        };
        until(scene, "DaemonSet", "agent", "all rolled", rolled).await.with_context(|| controller.log())?;
        scene.delete("PodSequence", "crowd").await?;
        nodes::clean(cluster, &controller).await
    }

    fn apps(&self, count: usize) -> Value {
        let container = json!({ "name": "main", "image": "example", "resources": { "requests": { self.resource: "1" } } });
        let template = json!({ "spec": { "containers": [container] } });
        make::deployment("app", 0).with(json!({ "spec": { "replicas": count, "template": template } }))
    }
}

async fn closed(cluster: &Cluster) -> Result<usize> {
    Ok(nodes::ours(cluster).await?.iter().filter(|line| line.ends_with("-blocked")).count())
}

/// Waits until most nodes have been blocked and some of them are open again.
async fn half_open(cluster: &Cluster) -> Result<()> {
    let mut most = 0;
    wait::until("nodes to open", SCALE_LIMIT, async || {
        let closed = closed(cluster).await?;
        most = most.max(closed);
        Ok((most > NODES / 2 && closed < most * 9 / 10).then_some(()))
    })
    .await
}

/// Removes a node together with its pods, as if the machine disappeared.
async fn leaves(scene: &Scene<'_>, node: &str) -> Result<()> {
    let cluster = scene.lab.cluster();
    scene.patch("Node", node, json!({ "spec": { "unschedulable": true } })).await?;
    cluster.remove_node(node).await?;
    let there = ListParams::default().fields(&format!("spec.nodeName={node}"));
    wait::until_every(PAUSE, "deletion of its pods", SCALE_LIMIT, async || {
        let left = scene.api("Pod").delete_collection(&DeleteParams::default(), &there).await?;
        Ok(left.left().is_none_or(|left| left.items.is_empty()).then_some(()))
    })
    .await
}

/// Sets a foreign label on some nodes.
async fn label(scene: &Scene<'_>, key: &str, value: Value) -> Result<()> {
    let patch = json!({ "metadata": { "labels": { (format!("example.com/{key}")): value } } });
    for number in 90..110 {
        scene.patch("Node", &format!("node-{number}"), patch.clone()).await?;
    }
    Ok(())
}

/// Waits until the status of a workload satisfies `wanted`.
async fn until(
    scene: &Scene<'_>,
    kind: &str,
    name: &str,
    what: &str,
    wanted: impl Fn(&Value) -> bool,
) -> Result<()> {
    let mut last = Value::Null;
    let found = wait::until_every(PAUSE, what, SCALE_LIMIT, async || {
        let object = scene.get(kind, name).await?;
        // A status of an older spec is ignored.
        let current = object["status"]["observedGeneration"] == object["metadata"]["generation"];
        last = object["status"].clone();
        Ok((current && wanted(&last)).then_some(()))
    });
    found.await.with_context(|| format!("last seen: {last}"))
}

fn kubectl(lab: &Lab, verb: &str, nodes: Range<usize>, what: &[&str]) -> Result<()> {
    let nodes: Vec<String> = nodes.map(|number| format!("node-{number}")).collect();
    let nodes = nodes.iter().map(String::as_str);
    let args: Vec<&str> = [verb, "nodes"].into_iter().chain(nodes).chain(what.iter().copied()).collect();
    lab.cluster().kubectl_ok(&args).map(drop)
}
