//! `rollcall simulate` as a person calls it: every sample, and manifests that go wrong. No cluster is needed.

use std::path::PathBuf;
use std::process::Command;

fn simulate(arguments: &[&str]) -> String {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new(env!("CARGO_BIN_EXE_rollcall"))
        .current_dir(root)
        .arg("simulate")
        .args(arguments)
        .env_remove("KUBECONFIG")
        .output()
        .expect("it starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!(
        "$ rollcall simulate {}\n{}{}exit code {}\n",
        arguments.join(" "),
        text(&output.stdout),
        text(&output.stderr),
        output.status.code().unwrap_or(-1)
    )
}

#[test]
fn every_sample() {
    for sample in [
        "database-init-example",
        "deployments-example",
        "example-podsequence",
        "migration-job-example",
        "podgroups-example",
    ] {
        insta::assert_snapshot!(sample, simulate(&[&format!("config/samples/{sample}.yaml")]));
    }
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
