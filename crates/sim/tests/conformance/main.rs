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

/// What the script has at least.
const REQUESTS: usize = 300;
const SCENARIOS: usize = 30;

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

#[test]
fn both_clusters_do_the_same() -> Result<()> {
    let topics = files("requests")?;
    let topics = topics.iter().map(|(name, text)| Topic::parse(name, text)).collect::<Result<Vec<_>>>()?;
    // The embedded clusters run on threads of their own.
    let stories: &'static [play::Story] = Vec::leak(play::stories()?);
    let differences = differences::load();
    let requests: usize = topics.iter().map(Topic::len).sum();
    println!("{requests} requests, {} scenarios, {} differences", stories.len(), differences.len());

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let lines: Vec<Line> = runtime.block_on(async {
        let cluster = clusters::real().await?;
        let mut lines = play::requests(&topics, &differences, &cluster).await?;
        lines.extend(play::scenarios(stories, &differences, &cluster).await?);
        anyhow::Ok(lines)
    })?;

    let unexplained = differences::unexplained(&differences, &lines);
    ensure!(unexplained.is_empty(), "{} differences that are not meant", unexplained.len());
    if std::env::var("CONFORMANCE").is_err() {
        let outlived = differences::outlived(&differences, &lines);
        ensure!(outlived.is_empty(), "differences that are not there any more: {outlived:#?}");
    }
    ensure!(requests >= REQUESTS, "{requests} requests, {REQUESTS} are wanted");
    ensure!(stories.len() >= SCENARIOS, "{} scenarios, {SCENARIOS} are wanted", stories.len());
    ensure!(differences.len() <= differences::AT_MOST, "{} differences", differences.len());
    ensure!(differences.iter().all(|one| !one.reason.trim().is_empty()), "each difference has a reason");
    Ok(())
}
