//! Runs the same requests and scenarios against the embedded cluster and a real Kubernetes cluster, and compares the
//! answers and the resulting objects field by field.
//!
//! - [`requests`]: single requests, in `requests/*.yaml`. [`scenario`]: sequences of steps, in `scenarios/*.yaml`.
//! - [`mask`], [`words`]: replace values that differ in every run. [`compare`]: compares the rest.
//! - [`differences`]: `differences.yaml`, the expected differences with their reasons.
//!
//! `CONFORMANCE=scenarios/stateful` runs only the parts whose names start with this prefix.

mod clusters;
mod compare;
mod differences;
mod mask;
mod objects;
mod play;
mod recorder;
mod requests;
mod scenario;
mod side;
mod snapshot;
mod trail;
mod words;

use anyhow::{Context, Result, ensure};
use compare::Line;
use requests::Topic;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Minimum numbers of requests and scenarios.
const REQUESTS: usize = 300;
const SCENARIOS: usize = 30;
/// The required topics, with the scenarios that cover them.
const TOPICS: [(&str, &[&str]); 12] = [
    (
        "the examples of the first README",
        &["sequence-three-pods", "sequence-groups", "sequence-database-init", "sequence-node-scope"],
    ),
    ("a DaemonSet when a node joins", &["node-joins"]),
    (
        "a StatefulSet that starts, grows and shrinks",
        &["stateful-start", "stateful-scaled-up", "stateful-scaled-down"],
    ),
    (
        "the updates of a StatefulSet",
        &["stateful-updated", "stateful-updated-with-a-partition", "stateful-stuck-update"],
    ),
    ("the claims of a StatefulSet", &["stateful-claims-kept", "stateful-claims-deleted-when-scaled"]),
    ("budgets", &["budget-forbids-eviction", "budget-one-at-a-time"]),
    (
        "the patterns of Jobs",
        &["job-single", "job-fixed-count", "job-parallel", "job-work-queue", "job-work-queue-of-one"],
    ),
    ("the policies of CronJobs", &["cron-allow", "cron-forbid", "cron-replace", "cron-suspended"]),
    ("preemption", &["preemption", "preemption-of-the-least"]),
    ("taints", &["node-tainted", "node-no-execute", "node-cordoned", "node-not-ready"]),
    ("priorities", &["priority-never-preempts"]),
    ("probes", &["kubelet-probes", "kubelet-startup-probe", "kubelet-liveness-probe"]),
];

/// The files of a directory beside this file, sorted by name.
pub fn files(folder: &str) -> Result<Vec<(String, String)>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance").join(folder);
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(&folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    paths.sort();
    let read = |path: &PathBuf| {
        let name = path.file_stem().context("a file has a name")?.to_string_lossy().into_owned();
        Ok((name, std::fs::read_to_string(path)?))
    };
    paths.iter().map(read).collect()
}

/// Whether `CONFORMANCE` excludes this part.
pub fn left_out(what: &str) -> bool {
    std::env::var("CONFORMANCE").is_ok_and(|wanted| !what.starts_with(&wanted))
}

fn topics() -> Result<Vec<Topic>> {
    files("requests")?.iter().map(|(name, text)| Topic::parse(name, text)).collect()
}

#[test]
fn the_script_is_whole() -> Result<()> {
    let requests: usize = topics()?.iter().map(Topic::len).sum();
    ensure!(requests >= REQUESTS, "{requests} requests, at least {REQUESTS} are required");
    let stories = play::stories()?;
    ensure!(stories.len() >= SCENARIOS, "{} scenarios, at least {SCENARIOS} are required", stories.len());
    for (topic, names) in TOPICS {
        for name in names {
            ensure!(stories.iter().any(|story| story.name == *name), "{topic}: no scenario {name}");
        }
    }
    let differences = differences::load();
    ensure!(differences.len() <= differences::AT_MOST, "{} differences", differences.len());
    ensure!(differences.iter().all(|one| !one.reason.trim().is_empty()), "each difference has a reason");
    println!("{requests} requests, {} scenarios, {} differences", stories.len(), differences.len());
    Ok(())
}

#[test]
fn both_clusters_do_the_same() -> Result<()> {
    let topics = topics()?;
    // The embedded clusters run on separate threads.
    let stories: &'static [play::Story] = Vec::leak(play::stories()?);
    let differences = differences::load();

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let lines: Vec<Line> = runtime.block_on(async {
        let begun = Instant::now();
        let cluster = clusters::real().await?;
        println!("the cluster is up after {:?}", begun.elapsed());
        let mut lines = play::requests(&topics, &differences, &cluster).await?;
        println!("the requests are answered after {:?}", begun.elapsed());
        lines.extend(play::scenarios(stories, &differences, &cluster).await?);
        println!("the scenarios have ended after {:?}", begun.elapsed());
        anyhow::Ok(lines)
    })?;

    let unexplained = differences::unexplained(&differences, &lines);
    ensure!(unexplained.is_empty(), "{} unexpected differences", unexplained.len());
    if std::env::var("CONFORMANCE").is_err() {
        let outlived = differences::outlived(&differences, &lines);
        ensure!(outlived.is_empty(), "expected differences that no longer occur: {outlived:#?}");
    }
    Ok(())
}
