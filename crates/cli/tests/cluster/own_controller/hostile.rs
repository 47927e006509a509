//! Tenants who want the controller dead: whatever somebody may create who may create pods and workloads and nothing else, it
//! lives in the memory that the shipped Deployment gives it, and the sequences of others go on. `HOSTILE_OBJECTS` says how many
//! there are of each sort.

use std::path::PathBuf;

use crate::common::make::{deployment, named, sequence};
use crate::common::*;
use anyhow::Context;
use futures::stream;
use futures::{StreamExt, TryStreamExt};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// What the shipped Deployment allows.
const MEMORY: u64 = 256 << 20;
/// Enough to kill a controller that keeps everything: it took 16 pods of 40,000 labels, or a page of 20 large pods.
const OBJECTS: usize = 16;
const LABELS: usize = 40_000;
const LARGE: usize = 1_350_000;
/// Requests of the test at a time.
const AT_A_TIME: usize = 4;

/// Objects of each sort. Gated by somebody else, so that they cost no node anything.
fn objects() -> usize {
    std::env::var("HOSTILE_OBJECTS").ok().and_then(|number| number.parse().ok()).unwrap_or(OBJECTS)
}

/// Bounds the memory of a process: by a control group where there is one, else only looks at it.
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

    /// The most that it has ever used.
    fn peak(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")).context("no VmHWM")?;
        Ok(kilobytes.trim().parse::<u64>()? << 10)
    }

    fn check(&self, after: &str) -> Result<()> {
        let peak = self.peak().with_context(|| format!("{after}: the controller is gone"))?;
        eprintln!("{after}: peak {} MiB, confined: {}", peak >> 20, self.group.is_some());
        anyhow::ensure!(peak < MEMORY, "{after}: {} MiB", peak >> 20);
        Ok(())
    }
}

impl Drop for Cage {
    fn drop(&mut self) {
        // Empty by now, or soon; what is left of it is a folder without a process.
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

/// Go writes each of these bytes as six.
fn large_env() -> Value {
    json!([{ "name": "X", "value": "<".repeat(LARGE) }])
}

fn large_pod(number: usize) -> Value {
    let mut pod = gated(pod(&format!("large-{number}")));
    pod["spec"]["containers"][0]["env"] = large_env();
    pod
}

/// Containers by the thousand, each of which waits for a key of ours.
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

/// A victim's sequence goes through its groups.
async fn a_victim_goes_on(scene: &Scene<'_>, name: &str) -> Result<()> {
    let (first, second) = (format!("{name}-a"), format!("{name}-b"));
    scene.pods(&[&first, &second]).await?;
    let groups = [named("a", &[&first]), named("b", &[&second])];
    scene.create(sequence(name, &groups)).await?;
    scene.phase(name, "Completed").await?;
    Ok(())
}

/// Strangers at the ports for probes and metrics: some are silent, some have sent half a header, some one that never ends.
async fn crowd(controller: &Controller) -> Result<Vec<TcpStream>> {
    let mut crowd = Vec::new();
    for port in controller.ports() {
        for number in 0..400 {
            // Who is turned away has come all the same.
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

/// An API server under load may take so long for a giant that the client repeats its request; then the object exists.
async fn create_slowly(scene: &Scene<'_>, object: Value) -> Result<()> {
    match scene.create(object).await {
        Err(error) if format!("{error:#}").contains("AlreadyExists") => Ok(()),
        created => created.map(drop),
    }
}

#[tokio::test]
async fn giant_pods_and_workloads_kill_nobody_and_delay_nobody() -> Result<()> {
    // Nobody reads the audit log, and every giant would be in it several times.
    let options = rollcall_testbed::Options { audit_bodies: false, ..Default::default() };
    let lab = &Lab::own(options).await?;
    let (victim, attacker) =
        (Scene::without_controller(lab, "victim").await?, Scene::without_controller(lab, "attacker").await?);
    // Labels by the ten thousand cost the API server a second each; of workloads a few have to do.
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
    cage.check("a crowd at its ports")?;
    drop(crowd);

    // More of them while it runs, and a selector that asks for their labels.
    let number = objects();
    for object in [labelled_pod(number), large_pod(number), labelled_deployment(number)] {
        create_slowly(&attacker, object).await?;
    }
    let of_all = json!({ "name": "of-all", "podSelector": { "matchExpressions": [
        { "key": "aaaa", "operator": "Exists" },
    ] } });
    attacker.create(sequence("greedy", &[of_all])).await?;
    // One of the pods has this label.
    attacker.status("greedy", "its pod", |status| status["groups"][0]["present"] == 1).await?;
    a_victim_goes_on(&victim, "two").await?;
    cage.check("watched and read again")?;
    assert!(controller.exited()?.is_none());

    controller.kill()?;
    drop(cage);
    let (mut controller, cage) = begin().await?;
    a_victim_goes_on(&victim, "three").await?;
    cage.check("started again")?;
    assert!(controller.exited()?.is_none());
    Ok(())
}
