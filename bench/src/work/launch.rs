//! P11: containers that start in order, on a real kubelet. The baseline works like OpenKruise: it writes the next key
//! when a rank is ready, but does not make the kubelet sync the pod.

use crate::Arguments;
use crate::controller::Mode;
use crate::lab::{Lab, MERGE};
use crate::table::{Table, median, quantile};
use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use rollcall_testbed::{Image, RealNode, wait};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

const IMAGE: &str = "docker.io/library/busybox:latest";
const BUSYBOX: &str = "/bin/busybox";
const RANKS: usize = 5;
/// Number of concurrent pods: two cores start a few containers per second.
const AT_ONCE: usize = 5;
/// Number of pods; four steps each, so a hundred steps in all.
const PODS: usize = 25;
const LIMIT: Duration = Duration::from_secs(300);
/// Polling interval of the baseline. OpenKruise uses a watch, which is at least as fast.
const LOOK: Duration = Duration::from_millis(50);

pub async fn p11(arguments: &Arguments, table: &mut Table) -> Result<()> {
    let lab = Lab::for_a_real_node().await?;
    lab.apply("config/webhook/launch.yaml")?;
    // The pods are created with the changes of the webhook, so the webhook itself must not be called.
    let hook = ["delete", "mutatingwebhookconfiguration", "podsequence-launch-webhook"];
    lab.cluster.kubectl_ok(&hook)?;
    let node = lab.cluster.start_real_node("real").await?;
    import_image(&node, lab.cluster.dir())?;
    let pods = arguments.scaled(PODS);
    let theirs = lab.namespace().await?;
    without_nudges(&lab, &theirs, pods).await?;
    let theirs = steps(&lab, &theirs, pods)?;
    let ours = lab.namespace().await?;
    let controller = lab.controller(Mode::Full).await?;
    for first in (0..pods).step_by(AT_ONCE) {
        let batch = first..pods.min(first + AT_ONCE);
        try_join_all(batch.clone().map(|number| create(&lab, &ours, number, true))).await?;
        try_join_all(batch.map(|number| is_through(&lab, &ours, number))).await?;
    }
    drop(controller);
    let writes = writes(&lab, &ours, pods)?;
    let ours = steps(&lab, &ours, pods)?;
    let work = format!("{pods} pods × {RANKS} ranks of containers");
    let measured = format!("{writes:.2}");
    table.figure("P11", &format!("{work}: API writes per pod"), measured, writes, ("≤ 11", 11.0));
    let measured =
        format!("{:.2} s against {:.2} s without telling the kubelet", median(&ours), median(&theirs));
    table.figure(
        "P11",
        &format!("{work}: seconds per rank, median"),
        measured,
        median(&ours),
        ("< 1 s", 1.0),
    );
    let slowest = quantile(&ours, 1.0);
    let measured = format!("{slowest:.2} s of {} steps", ours.len());
    table.figure("P11", &format!("{work}: the slowest rank"), measured, slowest, ("≤ 5 s", 5.0));
    Ok(())
}

fn import_image(node: &RealNode, dir: &Path) -> Result<()> {
    rollcall_testbed::install_packages(&[("busybox-static", BUSYBOX)])?;
    let mut image = Image::new(IMAGE).file("/bin/busybox", Path::new(BUSYBOX));
    for applet in ["sh", "sleep", "cat", "echo"] {
        image = image.link(&format!("/bin/{applet}"), "busybox");
    }
    let archive = dir.join("busybox.tar");
    image.entrypoint(&["/bin/sh"]).write(&archive)?;
    node.import_image(&archive)
}

fn name(number: usize) -> String {
    format!("p-{number}")
}

/// Creates a pod with the changes of the webhook. Its containers are ready as soon as they run.
async fn create(lab: &Lab, namespace: &str, number: usize, gated: bool) -> Result<()> {
    let name = name(number);
    let container = |rank: usize| {
        let key = json!({ "name": format!("{name}-barrier"), "key": format!("c_{rank}") });
        json!({
            "name": format!("c{rank}"), "image": IMAGE, "imagePullPolicy": "Never",
            "command": ["/bin/sh", "-c", "echo $(cat /proc/uptime); exec sleep 100000"],
            "env": [{ "name": "KRUISE_CONTAINER_LAUNCH_BARRIER", "valueFrom": { "configMapKeyRef": key } }],
        })
    };
    let gates = if gated { json!([{ "name": "podsequence.example.com/launch-gate" }]) } else { json!([]) };
    let spec = json!({
        "terminationGracePeriodSeconds": 0, "schedulingGates": gates,
        "containers": (0..RANKS).map(container).collect::<Vec<Value>>(),
    });
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": spec });
    lab.create(&format!("/api/v1/namespaces/{namespace}/pods"), pod).await
}

/// The readiness of the containers of a pod.
async fn ready(lab: &Lab, namespace: &str, number: usize) -> Result<BTreeMap<String, bool>> {
    let pod = lab.get(&format!("/api/v1/namespaces/{namespace}/pods/{}", name(number))).await?;
    let statuses = pod["status"]["containerStatuses"].as_array().cloned().unwrap_or_default();
    let one = |status: &Value| Some((status["name"].as_str()?.to_owned(), status["ready"] == true));
    Ok(statuses.iter().filter_map(one).collect())
}

async fn is_through(lab: &Lab, namespace: &str, number: usize) -> Result<()> {
    wait::until("all containers", LIMIT, async || {
        let ready = ready(lab, namespace, number).await?;
        Ok((ready.len() == RANKS && ready.values().all(|ready| *ready)).then_some(()))
    })
    .await
}

/// Works like OpenKruise: creates an empty ConfigMap, and then adds keys one by one. All pods at once, because they
/// mostly wait.
async fn without_nudges(lab: &Lab, namespace: &str, pods: usize) -> Result<()> {
    let one = async |number: usize| {
        let name = format!("{}-barrier", name(number));
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        let empty = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } });
        lab.create(&path, empty).await?;
        create(lab, namespace, number, false).await?;
        for rank in (0..RANKS).rev() {
            lab.patch(&format!("{path}/{name}"), MERGE, json!({ "data": { format!("c_{rank}"): "true" } }))
                .await?;
            wait::until_every(LOOK, "a rank", LIMIT, async || {
                let ready = ready(lab, namespace, number).await?;
                Ok(ready.get(&format!("c{rank}")).copied().unwrap_or_default().then_some(()))
            })
            .await?;
        }
        anyhow::Ok(())
    };
    try_join_all((0..pods).map(one)).await.map(drop)
}

/// The times between the starts of containers of consecutive ranks, from their logs.
fn steps(lab: &Lab, namespace: &str, pods: usize) -> Result<Vec<f64>> {
    let mut steps = Vec::new();
    for number in 0..pods {
        let begun = |rank: usize| -> Result<f64> {
            let (pod, container) = (name(number), format!("c{rank}"));
            let log = lab.cluster.kubectl_ok(&["logs", "-n", namespace, &pod, "-c", &container])?;
            Ok(log.split_whitespace().next().context("no time in the log")?.parse()?)
        };
        let times: Vec<f64> = (0..RANKS).rev().map(begun).collect::<Result<_>>()?;
        steps.extend(times.windows(2).map(|pair| pair[1] - pair[0]));
    }
    ensure!(steps.iter().all(|step| *step >= 0.0), "out of order: {steps:?}");
    Ok(steps)
}

/// The number of the controller's writes per pod.
fn writes(lab: &Lab, namespace: &str, pods: usize) -> Result<f64> {
    let mut log = lab.cluster.audit();
    let by_controller = log.all()?.iter().filter(|event| {
        let of_ours = event.user == "system:serviceaccount:pod-sequence-system:pod-sequence-controller";
        of_ours && event.namespace == namespace && event.is_committed()
    });
    Ok(by_controller.count() as f64 / pods as f64)
}
