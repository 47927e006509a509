//! R3: twenty pods claim tickets at once on nodes that are full but for the reserved capacity, while as many foreign pods of the same
//! priority wait for any of it. Counts foreign pods that got reserved capacity, and pods that were evicted.

use super::tickets::{clear, path};
use crate::Arguments;
use crate::controller::Mode;
use crate::lab::{Lab, NODES_PATH, pods_path};
use crate::table::{Table, quantile};
use anyhow::{Context, Result, bail};
use futures::future::try_join_all;
use jiff::Timestamp;
use rollcall_testbed::{Capacity, Component, wait};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const CLAIMS: usize = 20;
const LIMIT: Duration = Duration::from_secs(300);
/// Long enough for the scheduler to lose its view of the cluster, short enough that no claim may be given up.
const PAUSE: Duration = Duration::from_secs(12);
/// How often another foreign pod arrives, where they keep coming.
const FOREIGN_EVERY: Duration = Duration::from_millis(40);

/// What happens besides the claims.
#[derive(Clone, Copy, PartialEq)]
enum Trouble {
    None,
    ThreeNodes,
    SchedulerPaused,
    ControllerKilled,
    ForeignPodsKeepComing,
}

const TROUBLES: [(Trouble, &str); 5] = [
    (Trouble::None, "on one node"),
    (Trouble::ThreeNodes, "on three nodes"),
    (Trouble::SchedulerPaused, "the scheduler is paused for 12 s in the middle"),
    (Trouble::ControllerKilled, "the controller is killed in the middle"),
    (Trouble::ForeignPodsKeepComing, "another foreign pod every 40 ms"),
];

#[derive(Default)]
struct Tally {
    claims: usize,
    thefts: usize,
    evictions: usize,
    /// Claims that were bound outside of the reserved capacity.
    elsewhere: usize,
    /// Seconds from the creation of a claiming pod to its binding.
    bound: Vec<f64>,
}

pub async fn at_once(lab: &Lab, arguments: &Arguments, table: &mut Table) -> Result<()> {
    let _busy = Busy::start();
    for (trouble, name) in TROUBLES {
        let mut tally = Tally::default();
        for round in 0..arguments.rounds {
            one_round(lab, trouble, &mut tally).await?;
            let Tally { claims, thefts, evictions, elsewhere, .. } = tally;
            eprintln!(
                "R3 {name}, round {round}: {claims} claims, {thefts} thefts, {evictions} evictions, {elsewhere} elsewhere"
            );
        }
        let Tally { claims, thefts, evictions, elsewhere, bound } = tally;
        let times = format!("p50 {:.2} s, p99 {:.2} s", quantile(&bound, 0.5), quantile(&bound, 0.99));
        let measured = format!(
            "{thefts} thefts, {evictions} evictions, {elsewhere} bound elsewhere in {claims} claims; created → bound {times}"
        );
        let work = format!("{CLAIMS} claims at once against {CLAIMS} foreign pods, a busy machine: {name}");
        table.figure("R3", &work, measured, (thefts + evictions + elsewhere) as f64, ("0 thefts", 0.0));
    }
    Ok(())
}

async fn one_round(lab: &Lab, trouble: Trouble, tally: &mut Tally) -> Result<()> {
    let namespace = lab.namespace().await?;
    let sizes: &[usize] = if trouble == Trouble::ThreeNodes { &[7, 7, 6] } else { &[CLAIMS] };
    let nodes: Vec<String> = (0..sizes.len()).map(|number| format!("{namespace}-{number}")).collect();
    for (node, cpu) in nodes.iter().zip(sizes) {
        let capacity = Capacity { cpu: cpu.to_string(), ..Capacity::default() };
        lab.create(NODES_PATH, rollcall_testbed::node(node, &capacity, Timestamp::now())).await?;
    }
    let mut controller = lab.controller(Mode::Full).await?;
    reserve(lab, &namespace, &nodes).await?;
    let pods = pods_path(&namespace);
    create(lab, &pods, (0..CLAIMS).map(|number| pod(&format!("foreign-{number:05}"), &nodes))).await?;
    let begun = Instant::now();
    create(lab, &pods, (0..CLAIMS).map(|number| claiming(number, &nodes))).await?;
    let (mut bound, mut troubled, mut paused_at, mut foreign) = (BTreeSet::new(), false, None, CLAIMS);
    let mut last_foreign = Instant::now();
    while bound.len() < CLAIMS {
        if begun.elapsed() > LIMIT {
            bail!("only {} of {CLAIMS} claiming pods were bound", bound.len());
        }
        let all = lab.get(&pods).await?;
        for pod in all["items"].as_array().context("pods")? {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            if name.starts_with("claiming-")
                && pod["spec"]["nodeName"].is_string()
                && bound.insert(name.to_owned())
            {
                tally.bound.push(begun.elapsed().as_secs_f64());
            }
        }
        let released = all["items"].as_array().into_iter().flatten().any(|pod| {
            pod["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("claiming-"))
                && pod["spec"]["schedulingGates"].is_null()
        });
        match trouble {
            Trouble::SchedulerPaused if !troubled && released => {
                lab.cluster.pause(Component::Scheduler).await?;
                (troubled, paused_at) = (true, Some(Instant::now()));
            }
            Trouble::SchedulerPaused if paused_at.is_some_and(|at| at.elapsed() >= PAUSE) => {
                lab.cluster.resume(Component::Scheduler).await?;
                paused_at = None;
            }
            Trouble::ControllerKilled if !troubled && released => {
                drop(controller);
                controller = lab.spawn(Mode::Full)?;
                troubled = true;
            }
            Trouble::ForeignPodsKeepComing if last_foreign.elapsed() >= FOREIGN_EVERY => {
                lab.create(&pods, pod(&format!("foreign-{foreign:05}"), &nodes)).await?;
                (foreign, last_foreign) = (foreign + 1, Instant::now());
            }
            _ => {}
        }
    }
    if paused_at.is_some() {
        lab.cluster.resume(Component::Scheduler).await?;
    }
    count(lab, &namespace, &nodes, foreign, tally).await?;
    drop(controller);
    clear(lab, &namespace).await?;
    lab.delete_all(NODES_PATH).await
}

async fn reserve(lab: &Lab, namespace: &str, nodes: &[String]) -> Result<()> {
    let order = json!({
        "apiVersion": "core.korder.dev/v1alpha1", "kind": "Order", "metadata": { "name": "capacity" },
        "spec": {
            "replicas": CLAIMS, "strategy": { "refreshPolicy": "Never" },
            "template": { "spec": {
                "resources": { "requests": { "cpu": "1" } }, "affinity": on(nodes), "tolerations": tolerations(),
            } },
        },
    });
    let orders = path(namespace, "orders");
    lab.create(&orders, order).await?;
    wait::until_every(Duration::from_millis(200), "all tickets to be reserved", LIMIT, async || {
        let order = lab.get(&format!("{orders}/capacity")).await?;
        Ok((order["status"]["availableReplicas"] == CLAIMS).then_some(()))
    })
    .await
}

async fn count(
    lab: &Lab,
    namespace: &str,
    nodes: &[String],
    foreign: usize,
    tally: &mut Tally,
) -> Result<()> {
    let all = lab.get(&pods_path(namespace)).await?;
    let all = all["items"].as_array().context("pods")?;
    let named = |prefix: &'static str| {
        all.iter().filter(move |pod| {
            pod["metadata"]["name"].as_str().is_some_and(|name| name.starts_with(prefix))
                && pod["metadata"]["deletionTimestamp"].is_null()
        })
    };
    let is_bound = |pod: &&Value| pod["spec"]["nodeName"].is_string();
    let in_place =
        |pod: &&Value| pod["spec"]["nodeName"].as_str().is_some_and(|node| nodes.iter().any(|n| n == node));
    tally.claims += CLAIMS;
    tally.thefts += named("foreign-").filter(is_bound).count();
    tally.evictions += CLAIMS + foreign - named("claiming-").count() - named("foreign-").count();
    tally.elsewhere += CLAIMS - named("claiming-").filter(in_place).count();
    Ok(())
}

async fn create(lab: &Lab, path: &str, pods: impl Iterator<Item = Value>) -> Result<()> {
    try_join_all(pods.map(|pod| lab.create(path, pod))).await.map(drop)
}

fn on(nodes: &[String]) -> Value {
    let expression = json!({ "key": "kubernetes.io/hostname", "operator": "In", "values": nodes });
    let terms = json!([{ "matchExpressions": [expression] }]);
    json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } } })
}

fn tolerations() -> Value {
    json!([{ "operator": "Exists" }])
}

fn pod(name: &str, nodes: &[String]) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
        "spec": {
            "containers": [{ "name": "main", "image": "pause", "resources": { "requests": { "cpu": "1" } } }],
            "automountServiceAccountToken": false, "affinity": on(nodes), "tolerations": tolerations(),
        },
    })
}

fn claiming(number: usize, nodes: &[String]) -> Value {
    let mut pod = pod(&format!("claiming-{number:05}"), nodes);
    pod["metadata"]["annotations"] = json!({ "korder.dev/order-request": "capacity" });
    pod["spec"]["schedulingGates"] = json!([{ "name": "korder.dev/ticket-gate" }]);
    pod
}

/// A thread that keeps a processor core busy until it is dropped.
struct Busy {
    stop: Arc<AtomicBool>,
}

impl Busy {
    fn start() -> Busy {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        Busy { stop }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
