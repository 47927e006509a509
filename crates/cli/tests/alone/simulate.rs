//! Tests of `rollcall simulate` as users call it: all samples, well-known shapes, and invalid manifests. They need no cluster.

use serde_json::{Value, json};
use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs `rollcall simulate`. With `stdin`, the argument `-` reads that file of the test manifests.
fn run(arguments: &[&str], stdin: Option<&str>) -> Output {
    let stdin = stdin.map_or(Stdio::null(), |file| File::open(manifest(file)).expect("it exists").into());
    Command::new(env!("CARGO_BIN_EXE_rollcall"))
        .current_dir(root())
        .arg("simulate")
        .args(arguments)
        .stdin(stdin)
        .env_remove("KUBECONFIG")
        .output()
        .expect("it starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

fn manifest(file: &str) -> PathBuf {
    root().join("crates/cli/tests/manifests").join(file)
}

fn said(arguments: &[&str], output: &Output) -> String {
    format!(
        "$ rollcall simulate {}\n{}{}exit code {}\n",
        arguments.join(" "),
        text(&output.stdout),
        text(&output.stderr),
        output.status.code().unwrap_or(-1)
    )
}

fn simulate(arguments: &[&str]) -> String {
    said(arguments, &run(arguments, None))
}

#[test]
fn every_sample() {
    for sample in [
        "database-init-example",
        "deployments-example",
        "example-podsequence",
        "migration-job-example",
        "node-scoped-csi-example",
        "podgroups-example",
    ] {
        insta::assert_snapshot!(sample, simulate(&[&format!("config/samples/{sample}.yaml")]));
    }
    insta::assert_snapshot!("by-reference", simulate(&["config/samples/workloads/by-reference.yaml"]));
    // The sample needs nodes with a label that the default nodes lack.
    let plugin = "node-scoped-device-plugin-example";
    let file = format!("config/samples/{plugin}.yaml");
    insta::assert_snapshot!(plugin, simulate(&[&file, "crates/cli/tests/manifests/gpu-node.yaml"]));
}

/// The samples of launch order start. Their containers start one rank after the other.
#[test]
fn every_sample_of_launch_order() {
    for sample in [
        "barrier-by-hand",
        "deployment",
        "job",
        "native-sidecar",
        "ordered",
        "priority",
        "shipped-spelling",
        "statefulset",
    ] {
        let recorded = simulate(&[&format!("config/samples/launch/{sample}.yaml")]);
        assert!(recorded.contains("\nexit code 0\n"), "{recorded}");
        insta::assert_snapshot!(format!("launch-{sample}"), recorded);
    }
    for (sample, pod, ranks) in
        [("ordered", "launch-ordered-label", 3), ("shipped-spelling", "launch-shipped", 2)]
    {
        let slow = format!("pod={pod}:10s");
        let recorded = simulate(&[&format!("config/samples/launch/{sample}.yaml"), "--ready-after", &slow]);
        // Pulling the images takes one second.
        assert!(recorded.contains(&format!("complete after {ranks}1.0s")), "{recorded}");
    }
}

/// Simulates both Orders of the getting-started samples, and agents that claim the tickets of a third Order.
#[test]
fn reservations() {
    let sample = |name: &str| format!("config/samples/reservation/{name}.yaml");
    let with = |file: &str| format!("crates/cli/tests/manifests/{file}.yaml");
    insta::assert_snapshot!("reservation-infrastructure", simulate(&[&sample("infrastructure")]));
    insta::assert_snapshot!("reservation-gpu-buffer", simulate(&[&sample("gpu-buffer"), &with("gpu-pool")]));
    insta::assert_snapshot!("reservation-gpu-buffer-without-gpu", simulate(&[&sample("gpu-buffer")]));
    insta::assert_snapshot!(
        "reservation-agents",
        simulate(&[&sample("monitoring"), &with("reserved-agents")])
    );
    // Nodes without enough free capacity for the tickets.
    let full = simulate(&[&sample("monitoring"), &with("reserved-agents"), "--nodes", "1:cpu=1"]);
    insta::assert_snapshot!("reservation-full-node", full);
}

/// The fields that a program in CI evaluates: the outcome, the progress of each group, and the pods that can never start.
fn verdict(report: &Value) -> String {
    let all = |list: &Value, line: &dyn Fn(&Value) -> Value| -> Vec<Value> {
        list.as_array().into_iter().flatten().map(line).collect()
    };
    let group = |group: &Value| json!([group["name"], group["state"], group["arrived"], group["expected"]]);
    let sequence =
        |sequence: &Value| json!([sequence["name"], sequence["phase"], all(&sequence["groups"], &group)]);
    let never = |never: &Value| json!([never["what"], never["why"]["code"]]);
    [
        format!("outcome: {} after {} ms", report["outcome"], report["ended"]),
        format!("sequences: {}", json!(all(&report["sequences"], &sequence))),
        format!("never: {}", json!(all(&report["never"], &never))),
    ]
    .join("\n")
}

/// Simulates a shape with many users, and returns its picture and its verdict.
fn shape(name: &str, arguments: &[&str]) -> String {
    shape_from(name, &[&[&*format!("crates/cli/tests/manifests/{name}.yaml")], arguments].concat(), None)
}

fn shape_from(name: &str, arguments: &[&str], stdin: Option<&str>) -> String {
    let picture = run(arguments, stdin);
    let json = run(&[arguments, &["--output", "json"]].concat(), stdin);
    assert_eq!(picture.status, json.status, "{name}");
    let report = serde_json::from_slice(&json.stdout).unwrap_or_default();
    format!("{}\n{}\n", said(arguments, &picture), verdict(&report))
}

#[test]
fn shapes_that_start() {
    for name in ["three-tiers-jobs", "database-cluster", "agents", "cronjob", "forgotten-gate"] {
        insta::assert_snapshot!(name, shape(name, &[]));
    }
    insta::assert_snapshot!("helm-output", shape_from("helm-output", &["-"], Some("helm-output.yaml")));
    let rollout = "apply crates/cli/tests/manifests/rollout-v2.yaml";
    let arguments = [TIERS, "--at", "20s", rollout, "--at", "40s", "scale deployment/web 4"];
    insta::assert_snapshot!("rollout", shape_from("rollout", &arguments, None));
}

/// In a sequence of Node scope, each node progresses independently: a node that joins later is blocked, waits for its driver,
/// and opens.
#[test]
fn shapes_that_go_by_nodes() {
    let joins = ["--at", "10s", "add-node late", "--at", "10s", "scale deployment/app 4"];
    let recorded = shape("node-ready", &joins);
    assert!(recorded.contains("on late"), "{recorded}");
    insta::assert_snapshot!("node-ready", recorded);
    // Without the DaemonSet that installs the driver, every node lacks it.
    let lacking = shape("node-ready-alone", &[]);
    assert!(lacking.contains("NodeLacks") && lacking.contains("\nexit code 1\n"), "{lacking}");
    let plugin = shape("node-ready-alone", &["crates/cli/tests/manifests/device-plugin.yaml"]);
    assert!(plugin.contains("\nexit code 0\n"), "{plugin}");
    let registered = simulate(&["config/samples/node-scoped-registered-driver-example.yaml"]);
    assert!(registered.contains("\nexit code 0\n"), "{registered}");
    // A sequence that waits for pods which no manifest creates reports that.
    let alone = shape("daemonset-sequence", &[]);
    assert!(alone.contains("NothingMatches") && alone.contains("\nexit code 1\n"), "{alone}");
    insta::assert_snapshot!("daemonset-sequence-alone", alone);
    let whole = shape("daemonset-sequence", &["crates/cli/tests/manifests/training.yaml"]);
    assert!(whole.contains("\nexit code 0\n"), "{whole}");
    insta::assert_snapshot!("daemonset-sequence", whole);
}

#[test]
fn shapes_that_never_start() {
    for name in [
        "deadlock",
        "missing-pod",
        "matches-nothing",
        "too-large",
        "quota",
        "missing-config",
        "suspended-job",
    ] {
        let recorded = shape(name, &[]);
        assert!(recorded.contains("\nexit code 1\n"), "{recorded}");
        insta::assert_snapshot!(name, recorded);
    }
    let fails = shape("three-tiers-jobs", &["--fail", "job/schema"]);
    assert!(fails.contains("\nexit code 1\n"), "{fails}");
    insta::assert_snapshot!("job-fails", fails);
}

#[test]
fn a_time_that_has_not_come_is_not_stuck() {
    let recorded = shape("cronjob-later", &[]);
    assert!(recorded.contains("\nunfinished "), "{recorded}");
    insta::assert_snapshot!("cronjob-later", recorded);
    let later = shape("cronjob-later", &["--until", "4h"]);
    assert!(later.contains("\nexit code 0\n"), "{later}");
}

const TIERS: &str = "crates/cli/tests/manifests/three-tiers.yaml";

#[test]
fn what_is_slow_what_fails_and_what_happens_meanwhile() {
    insta::assert_snapshot!("slow", simulate(&[TIERS, "--ready-after", "app=db:40s"]));
    insta::assert_snapshot!("fails", simulate(&[TIERS, "--fail", "pod=db-1"]));
    insta::assert_snapshot!("no-room", simulate(&[TIERS, "--nodes", "2:cpu=7,memory=16Gi,pods=110"]));
    insta::assert_snapshot!("scaled", simulate(&[TIERS, "--at", "30s", "scale deployment/web 4"]));
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let json = |seed: &str| simulate(&[TIERS, "--output", "json", "--seed", seed]);
    assert_eq!(json("7"), json("7"));
    assert_ne!(json("7").replace("--seed 7", ""), json("8").replace("--seed 8", ""));
}

#[test]
fn what_the_api_server_would_refuse_is_an_error_with_its_place() {
    insta::assert_snapshot!("refused", simulate(&["crates/cli/tests/manifests/refused.yaml"]));
}

/// Splits a command line into words; single quotes keep words together.
fn words(line: &str) -> Vec<String> {
    let parts = line.split('\'').enumerate();
    let words = parts.flat_map(|(number, part)| match number % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    });
    words.collect()
}

/// Simulates every workload sample with the command that its first lines name. Samples of pitfalls are simulated as they are.
#[test]
fn every_workload_sample() {
    const COMMAND: &str = "#   rollcall simulate ";
    let folder = "config/samples/workloads";
    for kind in ["statefulsets", "daemonsets", "jobs", "cronjobs", "pitfalls"] {
        let entries = std::fs::read_dir(root().join(folder).join(kind)).expect("it exists");
        let files = entries.map(|entry| entry.expect("an entry")).filter(|entry| entry.path().is_file());
        let mut names: Vec<String> =
            files.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        for name in names {
            let file = format!("{folder}/{kind}/{name}");
            let sample = std::fs::read_to_string(root().join(&file)).expect("it exists");
            let named = sample.lines().find_map(|line| line.strip_prefix(COMMAND));
            let named = named.map(words).filter(|words| words.first() == Some(&file));
            let arguments = named.unwrap_or_else(|| {
                assert_eq!(kind, "pitfalls", "{file} names no command");
                vec![file.clone()]
            });
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let name = format!("workload-{kind}-{}", name.trim_end_matches(".yaml"));
            insta::assert_snapshot!(name, simulate(&arguments));
        }
    }
}

/// Claims are kept or deleted, and pods have stable names, as the documentation of the kinds describes.
#[test]
fn claims_and_names_are_reported() {
    let report = |arguments: &[&str]| -> Value {
        let output = run(&[arguments, &["--output", "json"]].concat(), None);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(arguments, &output)))
    };
    let mysql = report(&[
        "config/samples/workloads/statefulsets/mysql.yaml",
        "--at",
        "20s",
        "scale statefulset/mysql 1",
    ]);
    let kept = |name: &str| json!({ "namespace": "default", "name": name, "deleted": null });
    assert_eq!(mysql["claims"], json!(["data-mysql-0", "data-mysql-1", "data-mysql-2"].map(kept)));
    assert_eq!(mysql["pods"][0]["dns"], json!(["mysql-0.mysql.default.svc.cluster.local"]));
    let scaled = "config/samples/workloads/pitfalls/scaled-down-data.yaml";
    let gone = report(&[scaled, "--at", "20s", "scale statefulset/db 0"]);
    assert!(gone["claims"][0]["deleted"].as_u64().is_some_and(|at| at >= 20_000), "{}", gone["claims"]);
    let no_names = report(&["config/samples/workloads/pitfalls/not-headless.yaml"]);
    assert_eq!(no_names["pods"][0]["dns"], json!([]));
}

/// A common misbelief is that new pods of a changed StatefulSet get the new claims.
#[test]
fn claim_templates_cannot_be_changed() {
    let folder = "config/samples/workloads/statefulsets";
    let change = format!("apply {folder}/updates/larger-claims.yaml");
    let said = simulate(&[&format!("{folder}/kafka.yaml"), "--at", "20s", &change]);
    assert!(said.contains("\nexit code 2\n"), "{said}");
    insta::assert_snapshot!("larger-claims", said);
}

/// Budgets block a drain: indefinitely, or until enough other pods are ready again.
#[test]
fn a_drain_asks_the_budgets() {
    let stuck = simulate(&["config/samples/workloads/pitfalls/budget.yaml", "--at", "20s", "drain node-1"]);
    assert!(stuck.contains("the drain of node-1 is stuck: pod db-0"), "{stuck}");
    insta::assert_snapshot!("drain-stuck", stuck);
    let sample = "config/samples/workloads/statefulsets/zookeeper.yaml";
    let waits = simulate(&[sample, "--at", "20s", "drain node-1", "--at", "20s", "drain node-2"]);
    assert!(!waits.contains("is stuck: pod"), "{waits}");
    insta::assert_snapshot!("drain-one-by-one", waits);
}
