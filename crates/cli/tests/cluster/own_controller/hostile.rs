//! Hostile tenants with permission to create only pods and workloads. Whatever they create, the controller stays within the
//! memory limit of the shipped Deployment, and sequences of other tenants progress. `HOSTILE_OBJECTS` sets the number of
//! objects of each kind.

use std::path::PathBuf;

use crate::common::make::{deployment, named, sequence};
use crate::common::*;
use anyhow::Context;
use futures::stream;
use futures::{StreamExt, TryStreamExt};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// Memory limit of the shipped Deployment.
const MEMORY: u64 = 256 << 20;
/// Enough to kill a controller that keeps whole objects: it took 16 pods with 40,000 labels each, or a page of 20 large pods.
const OBJECTS: usize = 16;
const LABELS: usize = 40_000;
const LARGE_VARIABLE_BYTES: usize = 1_350_000;
/// Maximum number of concurrent requests of the test.
const AT_A_TIME: usize = 4;

/// Number of objects of each kind. A foreign gate holds the pods, so that they use no node.
fn objects() -> usize {
    std::env::var("HOSTILE_OBJECTS").ok().and_then(|number| number.parse().ok()).unwrap_or(OBJECTS)
}

/// Limits the memory of a process with a control group. Where that is not possible, the peak is only measured.
struct Cage {
    group: Option<PathBuf>,
    process: u32,
}

impl Cage {
    fn around(process: u32) -> Result<Cage> {
        let group = PathBuf::from(format!("/sys/fs/cgroup/memory/rollcall-test-{process}"));
        let confine = || -> std::io::Result<()> {
            std::fs::create_dir(&group)?;
            std::fs::write(group.join("memory.limit_in_bytes"), MEMORY.to_string())?;
            std::fs::write(group.join("cgroup.procs"), process.to_string())
        };
        Ok(Cage { group: confine().is_ok().then(|| group.clone()), process })
    }

    /// Peak memory use of the process.
    fn peak(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")).context("no VmHWM")?;
        Ok(kilobytes.trim().parse::<u64>()? << 10)
    }

    fn check(&self, after: &str) -> Result<()> {
        let peak = self.peak().with_context(|| format!("{after}: the controller has exited"))?;
        eprintln!("{after}: peak {} MiB, confined: {}", peak >> 20, self.group.is_some());
        anyhow::ensure!(peak < MEMORY, "{after}: {} MiB", peak >> 20);
        Ok(())
    }
}

impl Drop for Cage {
    fn drop(&mut self) {
        // The control group contains no processes, or soon will not; if removal fails, only an empty folder remains.
        self.group.take().map(std::fs::remove_dir);
    }
}

fn many_labels(offset: usize) -> Value {
    let letters = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let key = |number: usize| -> String {
        (0..4).map(|place| letters[number / 36usize.pow(place) % 36] as char).collect()
    };
    let labels = (0..LABELS).map(|number| (key(number * 7 + offset), Value::from("")));
    labels.collect::<serde_json::Map<_, _>>().into()
}

fn gated(mut pod: Value) -> Value {
    pod["spec"]["schedulingGates"] = json!([{ "name": "hostile.example/never" }]);
    pod
}

fn labelled_pod(number: usize) -> Value {
    let mut pod = gated(pod(&format!("labels-{number}")));
    pod["metadata"]["labels"] = many_labels(number);
    pod
}

/// Go's JSON encoder escapes each of these bytes as six bytes.
fn large_env() -> Value {
    json!([{ "name": "X", "value": "<".repeat(LARGE_VARIABLE_BYTES) }])
}

fn large_pod(number: usize) -> Value {
    let mut pod = gated(pod(&format!("large-{number}")));
    pod["spec"]["containers"][0]["env"] = large_env();
    pod
}

/// A pod with thousands of containers; each waits for a barrier key.
fn barrier_pod(number: usize) -> Value {
    let name = format!("barriers-{number}");
    let container = |place: usize| {
        let key = json!({ "name": format!("{name}-barrier"), "key": format!("c_{place}") });
        let variable =
            json!({ "name": "KRUISE_CONTAINER_LAUNCH_BARRIER", "valueFrom": { "configMapKeyRef": key } });
        json!({ "name": format!("c{place}"), "image": "i", "env": [variable] })
    };
    let mut pod = gated(pod(&name));
    pod["spec"]["containers"] = (0..2000).map(container).collect();
    pod
}

fn labelled_deployment(number: usize) -> Value {
    let mut deployment = deployment(&format!("labels-{number}"), 0);
    let own = deployment["spec"]["template"]["metadata"]["labels"].take();
    let mut labels = many_labels(number);
    labels.as_object_mut().expect("labels").extend(own.as_object().cloned().unwrap_or_default());
    deployment["spec"]["template"]["metadata"]["labels"] = labels;
    deployment
}

fn large_deployment(number: usize) -> Value {
    let mut deployment = deployment(&format!("large-{number}"), 0);
    deployment["spec"]["template"]["spec"]["containers"][0]["env"] = large_env();
    deployment
}

/// Checks that a new sequence of the victim completes.
async fn a_victim_goes_on(scene: &Scene<'_>, name: &str) -> Result<()> {
    let (first, second) = (format!("{name}-a"), format!("{name}-b"));
    scene.pods(&[&first, &second]).await?;
    let groups = [named("a", &[&first]), named("b", &[&second])];
    scene.create(sequence(name, &groups)).await?;
    scene.phase(name, "Completed").await?;
    Ok(())
}

/// Opens foreign connections to the ports for probes and metrics. Some send nothing, some half a header, and some a header that
/// never ends.
async fn crowd(controller: &Controller) -> Result<Vec<TcpStream>> {
    let mut crowd = Vec::new();
    for port in controller.ports() {
        for number in 0..400 {
            // Rejected connections are part of the test.
            let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)).await else { continue };
            let text = match number % 3 {
                0 => String::new(),
                1 => "GET /metrics HTTP/1.1\r\nhost".to_owned(),
                _ => format!("GET / HTTP/1.1\r\nx: {}", "y".repeat(64 << 10)),
            };
            let _ = stream.write_all(text.as_bytes()).await;
            crowd.push(stream);
        }
    }
    Ok(crowd)
}

/// Under load, the API server may answer so late that the client repeats its request, and then the object already exists.
async fn create_slowly(scene: &Scene<'_>, object: Value) -> Result<()> {
    match scene.create(object).await {
        Err(error) if format!("{error:#}").contains("AlreadyExists") => Ok(()),
        created => created.map(drop),
    }
}

#[tokio::test]
async fn giant_pods_and_workloads_kill_nobody_and_delay_nobody() -> Result<()> {
    // The test does not read the audit log, which would contain each large object several times.
    let options = rollcall_testbed::Options { audit_bodies: false, ..Default::default() };
    let lab = &Lab::own(options).await?;
    let (victim, attacker) =
        (Scene::without_controller(lab, "victim").await?, Scene::without_controller(lab, "attacker").await?);
    // Creating a pod with tens of thousands of labels takes the API server a second, so there are only a few such workloads.
    let pods = (0..objects()).flat_map(|number| [labelled_pod(number), large_pod(number)]);
    let few = objects().div_ceil(4);
    let pods = pods.chain((0..few).map(barrier_pod));
    let workloads = (0..few).flat_map(|number| [labelled_deployment(number), large_deployment(number)]);
    let creations = pods.chain(workloads).map(|object| create_slowly(&attacker, object));
    stream::iter(creations).buffer_unordered(AT_A_TIME).try_collect::<Vec<_>>().await?;
    let begin = async || -> Result<(Controller, Cage)> {
        let mut controller = Controller::spawn(lab, &Options::default()).await?;
        let cage = Cage::around(controller.id()?)?;
        controller.ready().await?;
        Ok((controller, cage))
    };
    let (mut controller, cage) = begin().await?;
    cage.check("listed")?;
    a_victim_goes_on(&victim, "one").await?;
    let crowd = crowd(&controller).await?;
    a_victim_goes_on(&victim, "beside-a-crowd").await?;
    controller.probe("/livez").await?;
    cage.check("many foreign connections")?;
    drop(crowd);

    // More of these objects while the controller runs, and a selector that matches their labels.
    let number = objects();
    for object in [labelled_pod(number), large_pod(number), labelled_deployment(number)] {
        create_slowly(&attacker, object).await?;
    }
    let of_all = json!({ "name": "of-all", "podSelector": { "matchExpressions": [
        { "key": "aaaa", "operator": "Exists" },
    ] } });
    attacker.create(sequence("greedy", &[of_all])).await?;
    // Only one of the pods has this label.
    attacker.status("greedy", "its pod", |status| status["groups"][0]["present"] == 1).await?;
    a_victim_goes_on(&victim, "two").await?;
    cage.check("after watching and relisting")?;
    assert!(controller.exited()?.is_none());

    controller.kill()?;
    drop(cage);
    let (mut controller, cage) = begin().await?;
    a_victim_goes_on(&victim, "three").await?;
    cage.check("after a restart")?;
    assert!(controller.exited()?.is_none());
    Ok(())
}
