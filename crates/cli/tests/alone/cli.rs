//! Tests of the program as users run it, for commands that need no cluster, and for a missing cluster.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};

/// The exit code and output of a run of the program.
#[derive(Debug)]
struct Run {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn run_as(kubeconfig: &Path, arguments: &[&str]) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rollcall"));
    // The environment of a pod must not turn this test into a client inside a cluster.
    command.env("KUBECONFIG", kubeconfig).env_remove("RUST_LOG").env_remove("KUBERNETES_SERVICE_HOST");
    let output = command.stdin(Stdio::null()).args(arguments).output().expect("run rollcall");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Run { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

#[test]
fn without_a_cluster() {
    let nowhere = std::env::temp_dir().join("rollcall-cli-no-such-kubeconfig");
    let mut answers = String::new();
    for line in [
        "controller --mode full",
        "status",
        "status --context nope",
        "doctor",
        "explain pod/web --kubeconfig /dev/null",
    ] {
        let arguments: Vec<&str> = line.split(' ').collect();
        let run = run_as(&nowhere, &arguments);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{line}: {run:?}");
        answers += &format!("$ rollcall {line}\n{}", run.stderr);
    }
    let folder = std::env::temp_dir().to_string_lossy().into_owned();
    insta::assert_snapshot!(answers.replace(folder.trim_end_matches('/'), "TMP"));
}

#[test]
fn a_cluster_that_does_not_answer() -> Result<()> {
    // No process listens on a port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let file = std::env::temp_dir().join(format!("rollcall-cli-{}.kubeconfig", std::process::id()));
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "clusters": [{"name": "x", "cluster": {"server": format!("http://127.0.0.1:{port}")}}],
        "users": [{"name": "x", "user": {}}],
    });
    std::fs::write(&file, config.to_string())?;
    for arguments in [
        &["status"][..],
        &["status", "shop", "-w"],
        &["explain", "pod/web"],
        &["release", "pod/web"],
        &["doctor"],
    ] {
        let run = run_as(&file, arguments);
        assert_eq!(run.code, Some(2), "{run:?}");
        let expected = format!("error: cannot reach the cluster at http://127.0.0.1:{port}/: ");
        assert!(run.stderr.starts_with(&expected), "{arguments:?}: {run:?}");
    }
    std::fs::remove_file(file)?;
    Ok(())
}

#[test]
fn completion_and_version_need_no_cluster() {
    let nowhere = Path::new("/dev/null");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run_as(nowhere, &["completion", shell]);
        assert_eq!(script.code, Some(0), "{shell}");
        for word in ["all-namespaces", "simulate", "ready-after", "demo", "manifests"] {
            assert!(script.stdout.contains(word), "{shell} does not complete {word}");
        }
    }
    let version = run_as(nowhere, &["version"]);
    assert!(version.stdout.starts_with("rollcall ") && version.stdout.contains("v1alpha1"), "{version:?}");
    let json: Value =
        serde_json::from_str(&run_as(nowhere, &["version", "-o", "json"]).stdout).expect("JSON");
    assert_eq!(json["podSequence"], "scheduling.example.com/v1alpha1");
    assert_eq!(run_as(nowhere, &["nope"]).code, Some(2));
}

#[test]
fn reference_pages_are_written() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("rollcall-cli-reference-{}", std::process::id()));
    let path = folder.to_str().context("UTF-8")?;
    let run = run_as(Path::new("/dev/null"), &["reference", "--dir", path]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), ""), "{run:?}");
    for page in ["commands.md", "podsequence.md", "reasons.md"] {
        assert!(std::fs::read_to_string(folder.join(page))?.starts_with("<!-- Generated"), "{page}");
    }
    std::fs::remove_dir_all(folder)?;
    Ok(())
}
