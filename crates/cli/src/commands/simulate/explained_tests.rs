//! An explanation is the same whether the controller's own index gives it or an index that is loaded from the stored objects, as
//! `rollcall explain` and `simulate` do. Every sample is run, and every pod is compared at every time at which nothing moves.

use super::sources;
use rollcall_core::dispatch::explain_pod;
use rollcall_core::line::Line;
use rollcall_sim::plan::Plan;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What some samples need beside them.
const BESIDE: &[(&str, &str)] = &[
    ("node-scoped-device-plugin-example.yaml", "gpu-node.yaml"),
    ("reservation/gpu-buffer.yaml", "gpu-pool.yaml"),
    ("reservation/monitoring.yaml", "reserved-agents.yaml"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn samples(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            samples(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            found.push(path);
        }
    }
    found.sort();
}

#[derive(Default)]
struct Compared {
    pods: usize,
    codes: BTreeSet<&'static str>,
    differences: Vec<String>,
    /// Files without manifests, and pitfalls that the API server rejects.
    not_run: Vec<String>,
}

fn codes(line: &Line, into: &mut BTreeSet<&'static str>) {
    into.insert(line.code);
    line.below.iter().for_each(|below| codes(below, into));
}

fn compare(sample: &Path, compared: &Arc<Mutex<Compared>>) {
    let name = sample.file_name().expect("a name").to_string_lossy().into_owned();
    let beside = BESIDE.iter().filter(|(of, _)| sample.ends_with(of));
    let beside = beside.map(|(_, file)| root().join("crates/cli/tests/manifests").join(file));
    let files: Vec<String> =
        std::iter::once(sample.to_owned()).chain(beside).map(|file| file.display().to_string()).collect();
    let Ok(objects) = sources::read(&files, &mut std::io::empty()) else {
        return compared.lock().expect("not poisoned").not_run.push(name);
    };
    let plan = Plan {
        objects,
        nodes: Vec::new(),
        ready_after: Vec::new(),
        fail: Vec::new(),
        at: Vec::new(),
        seed: 1,
        until: Duration::from_secs(240),
    };
    let (all, label) = (compared.clone(), name.clone());
    let observe = move |snapshot: &rollcall_sim::Snapshot, index: &rollcall_core::index::Index| {
        let (loaded, mut compared) = (snapshot.index(), all.lock().expect("not poisoned"));
        for pod in snapshot.pods() {
            let (Some(known), Some(read)) = (index.cluster.pod(pod.uid), loaded.cluster.pod(pod.uid)) else {
                compared.differences.push(format!("{label}: {} is known to one of them only", pod.name));
                continue;
            };
            let told = explain_pod(index, known, snapshot.now);
            let answer = explain_pod(&loaded, read, snapshot.now);
            compared.pods += 1;
            codes(&told, &mut compared.codes);
            if told != answer {
                let at = snapshot.at.as_secs();
                compared.differences.push(format!(
                    "{label} after {at}s, pod {}:\ncontroller {told:#?}\nloader {answer:#?}",
                    pod.name
                ));
            }
        }
    };
    if rollcall_sim::simulate_observed(plan, observe).is_err() {
        compared.lock().expect("not poisoned").not_run.push(name);
    }
}

#[test]
fn the_loader_and_the_controller_explain_every_pod_of_every_sample_alike() {
    let mut files = Vec::new();
    samples(&root().join("config/samples"), &mut files);
    let compared = Arc::new(Mutex::new(Compared::default()));
    files.iter().for_each(|file| compare(file, &compared));
    let compared = compared.lock().expect("not poisoned");
    assert!(compared.differences.is_empty(), "{}", compared.differences.join("\n\n"));
    // Otherwise nothing was compared that says anything.
    for code in ["Held", "Released", "Arrived"] {
        assert!(compared.codes.contains(code), "{:?}", compared.codes);
    }
    assert_eq!(compared.not_run, ["alerts.yaml", "priority.yaml", "restart-always.yaml"]);
    assert!(compared.pods > 500, "{} pods", compared.pods);
}
