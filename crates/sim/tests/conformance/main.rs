//! One script, run against the embedded cluster and against a real Kubernetes; answers and what became of the objects are
//! compared field by field.
//!
//! - [`requests`]: single requests, in `requests/*.yaml`. [`scenario`]: whole stories, in `scenarios/*.yaml`.
//! - [`mask`], [`words`]: what is different every time, in words that are not. [`compare`]: the rest, field by field.
//! - [`differences`]: `differences.yaml`, the differences that are meant, each with its reason.
//!
//! `CONFORMANCE=scenarios/stateful` runs only what begins with that.

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

/// What the script has at least.
const REQUESTS: usize = 300;
const SCENARIOS: usize = 30;
/// What the scenarios have to be about, and those that are.
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

/// The files of a folder beside this one, by their names.
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

/// Whether only a part is wanted, and this is none of it.
pub fn left_out(what: &str) -> bool {
    std::env::var("CONFORMANCE").is_ok_and(|wanted| !what.starts_with(&wanted))
}

fn topics() -> Result<Vec<Topic>> {
    files("requests")?.iter().map(|(name, text)| Topic::parse(name, text)).collect()
}

#[test]
fn the_script_is_whole() -> Result<()> {
    let requests: usize = topics()?.iter().map(Topic::len).sum();
    ensure!(requests >= REQUESTS, "{requests} requests, {REQUESTS} are wanted");
    let stories = play::stories()?;
    ensure!(stories.len() >= SCENARIOS, "{} scenarios, {SCENARIOS} are wanted", stories.len());
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
    // The embedded clusters run on threads of their own.
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
        println!("the scenarios are over after {:?}", begun.elapsed());
        anyhow::Ok(lines)
    })?;

    let unexplained = differences::unexplained(&differences, &lines);
    ensure!(unexplained.is_empty(), "{} differences that are not meant", unexplained.len());
    if std::env::var("CONFORMANCE").is_err() {
        let outlived = differences::outlived(&differences, &lines);
        ensure!(outlived.is_empty(), "differences that are not there any more: {outlived:#?}");
    }
    Ok(())
}
