//! Tests of `config/samples/agent` on a real kubelet. The application never starts before the mount exists, whatever happens to
//! the agent. Every command of `docs/guide/agents.md` works as printed.

mod names;
mod node;

use crate::common::docs::{commands, shell};
use anyhow::{Context, Result, ensure};
use node::{LIMIT, Lab, NAMESPACE};
use rollcall_testbed::wait;
use std::fs;

/// Number of times that the manifests are applied together, twice in each order.
const ROUNDS: usize = 4;

/// One test with one cluster and one node: the machine supports only one real node, and starting it takes longer than most
/// scenarios.
#[tokio::test]
async fn agents_come_first() -> Result<()> {
    let lab = Lab::start().await?;
    lab.cluster.kubectl_ok(&["create", "namespace", NAMESPACE])?;
    for round in 0..ROUNDS {
        together(&lab, round).await.with_context(|| format!("round {round}"))?;
    }
    lab.apply(&lab.agent)?;
    lab.apply(&lab.application)?;
    lab.rolled_out()?;
    verification(&lab)?;
    the_agent_is_deleted_and_killed(&lab).await?;
    the_node_restarts(&lab).await?;
    nothing_is_left(&lab).await?;
    markers_that_do_not_count(&lab).await?;
    names::resolve_without_glibc(&lab).await
}

/// Applies the applications with both kinds of wait, then the agent. In every second round, the agent is applied only after the
/// waits have begun.
async fn together(lab: &Lab, round: usize) -> Result<()> {
    lab.forget_dumps()?;
    lab.apply(&lab.application)?;
    lab.apply(&lab.with_busybox)?;
    if round % 2 == 1 {
        lab.waits("memory-leak-app").await?;
        lab.waits("memory-leak-app-busybox").await?;
        if round == 1 {
            troubleshooting(lab).await?;
        }
    }
    lab.apply(&lab.agent)?;
    let pods = [lab.dumped("memory-leak-app").await?, lab.dumped("memory-leak-app-busybox").await?];
    let log = lab.log(&pods[0])?;
    ensure!(
        log.contains("waiting for marker /mnt/dump/.ready; at most 5m")
            && log.contains(": all conditions hold"),
        "{log}"
    );
    let log = lab.log(&pods[1])?;
    ensure!(log.contains("proceeding with application startup"), "{log}");
    lab.delete("deployment", &["memory-leak-app", "memory-leak-app-busybox"])?;
    lab.delete("daemonset", &["dump-volume-manager"])?;
    lab.bare_target().await
}

/// Checks the output of `explain` while the agent is missing, and the commands of the troubleshooting section.
async fn troubleshooting(lab: &Lab) -> Result<()> {
    let pod = lab.pod_of("memory-leak-app")?;
    let said = lab.explain(&pod)?;
    let marker = lab.marker().display().to_string();
    ensure!(
        said.starts_with(&format!(
            "{pod} waits in its init container wait-for-volume-manager for {marker} on real"
        )),
        "{said}"
    );
    ensure!(said.contains("no visible DaemonSet declares that it writes"), "{said}");
    let busybox = lab.explain(&lab.pod_of("memory-leak-app-busybox")?)?;
    ensure!(busybox.contains(&format!("for {marker} on real")), "{busybox}");

    let pending = lab.cluster.kubectl_ok(&["get", "pod", "-n", NAMESPACE, &pod, "--no-headers"])?;
    ensure!(pending.contains("Init:0/1"), "{pending}");
    // The agent's node selector does not match the node.
    lab.apply(
        &lab.agent.replace("priorityClassName:", "nodeSelector: {disk: none}\n      priorityClassName:"),
    )?;
    let said = lab.explain(&pod)?;
    ensure!(
        said.contains(&format!("{marker} is written by DaemonSet {NAMESPACE}/dump-volume-manager")),
        "{said}"
    );
    ensure!(said.contains("it wants no pod on real: its node selector or affinity does not match"), "{said}");
    lab.delete("daemonset", &["dump-volume-manager"])
}

/// Runs every command of the sections "Verification" and "Troubleshooting" as the guide prints them.
fn verification(lab: &Lab) -> Result<()> {
    const GUIDE: &str = "docs/guide/agents.md";
    let run = |section: &str| {
        let text = commands(GUIDE, section)?;
        let pod = lab.pod_of("memory-leak-app")?;
        let text = text.replace("<pod-name>", &pod).replace("<node-name>", "real");
        // Commands that follow output indefinitely are stopped after a few seconds.
        let lines = text.replace("\\\n", " ");
        let lines = lines.lines().map(|line| match line.ends_with(" -w") || line.ends_with(" -f") {
            true => format!("timeout 5 {line} || test $? = 124"),
            false => line.to_owned(),
        });
        shell(&lab.cluster, &lines.collect::<Vec<_>>().join("\n"))
    };
    let class = run("### Check the priority class")?;
    let rows: Vec<Vec<&str>> = class.lines().map(|line| line.split_whitespace().collect()).collect();
    ensure!(rows[0] == ["NAME", "VALUE", "GLOBAL-DEFAULT", "AGE", "PREEMPTIONPOLICY"], "{class}");
    ensure!(rows[1][..3] == ["dump-volume-critical", "1000000", "false"], "{class}");
    let name = run("### Check the priority of the agent")?;
    ensure!(name == "dump-volume-critical", "{name}");
    let watched = run("### Watch the order")?;
    ensure!(watched.matches("Running").count() >= 2, "{watched}");
    ensure!(watched.contains(": all conditions hold"), "{watched}");
    let described = run("### Check the init container")?;
    let state = described.split_once("wait-for-volume-manager:").context("no init container")?.1;
    let words: Vec<&str> = state.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "State:").context("no state")?;
    ensure!(words[at..at + 7].join(" ") == "State: Terminated Reason: Completed Exit Code: 0", "{described}");
    let stuck = run("### A pod is stuck in Init:0/1")?;
    ensure!(stuck.contains(": all conditions hold") && stuck.contains("/host/mnt/dump/.ready"), "{stuck}");
    let first = run("### The agent does not come first")?;
    ensure!(first.contains("dump-volume-critical") && first.contains("PRIORITY"), "{first}");
    ensure!(
        first.lines().any(|line| line.starts_with("dump-volume-manager") && line.ends_with("1000000")),
        "{first}"
    );
    let none = run("### A node has no agent")?;
    ensure!(none.contains("dump-volume-manager") && none.contains("Taints:"), "{none}");

    let refused = lab.cluster.apply(
        "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: dump-volume-system-critical}, value: 2000000000}",
    );
    let refused = format!("{:#}", refused.err().context("the alternative of the original was accepted")?);
    ensure!(refused.contains("1000000000"), "{refused}");
    Ok(())
}

/// The agent restores the mount, and waiting applications proceed.
async fn the_agent_is_deleted_and_killed(lab: &Lab) -> Result<()> {
    let before = fs::read_to_string(lab.marker())?;
    let pod = lab.pod_of("dump-volume-manager")?;
    lab.cluster.kubectl_ok(&["delete", "pod", "-n", NAMESPACE, &pod])?;
    let after_delete = lab.mounted_anew(&before).await?;
    ensure!(lab.mounts()? == 1, "two mounts on top of each other");
    lab.kill_agent()?;
    lab.mounted_anew(&after_delete).await?;
    ensure!(lab.mounts()? == 1, "two mounts on top of each other");
    lab.restart_application().await
}

/// All containers and the kubelet end at the same time, the mounts disappear, and everything restarts in any order.
async fn the_node_restarts(lab: &Lab) -> Result<()> {
    lab.forget_dumps()?;
    lab.node.power_cut().await?;
    ensure!(lab.mounts()? == 0 && !lab.marker().exists(), "the mounts must not survive a reboot");
    lab.node.power_on(&lab.cluster).await?;
    lab.dumped("memory-leak-app").await?;
    Ok(())
}

/// Deletes the manifests in the way that their comments describe.
async fn nothing_is_left(lab: &Lab) -> Result<()> {
    lab.cluster.kubectl_ok(&[
        "delete",
        "-f",
        &lab.file("deployment.yaml", &lab.application)?,
        "--timeout=60s",
    ])?;
    lab.cluster.kubectl_ok(&[
        "delete",
        "-f",
        &lab.file("daemonset-volume.yaml", &lab.agent)?,
        "--timeout=90s",
    ])?;
    lab.bare_target().await?;
    let left: Vec<_> = fs::read_dir(lab.storage())?.flatten().map(|entry| entry.file_name()).collect();
    ensure!(left == ["memory-leak-demo"], "the data must stay and the markers must be deleted: {left:?}");
    Ok(())
}

/// A marker of another boot, a marker of an old mount, and no marker: each cause is logged, and the exit code is 1.
async fn markers_that_do_not_count(lab: &Lab) -> Result<()> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let folder = |name: &str| lab.node.shared_folder().map(|folder| folder.join(name));
    for (name, content) in [
        ("other-boot", "ready\nboot: 00000000-0000-0000-0000-000000000000\nnode: real\n".to_owned()),
        ("other-mount", format!("ready\nboot: {boot}mount: 1:2\n")),
    ] {
        fs::create_dir_all(folder(name)?)?;
        fs::write(folder(name)?.join(".ready"), content)?;
    }
    fs::create_dir_all(folder("none")?)?;
    let expected = [
        ("other-boot", "stale: written in an earlier boot (on node real)"),
        ("other-mount", "stale: written for mount 1:2, but the folder here is mount "),
        ("none", "gave up: marker /agents/.ready: not found"),
    ];
    for (name, _) in expected {
        let args = ["wait", "--marker", "/agents/.ready", "--timeout", "2s"];
        lab.run(name, &args, Some(&folder(name)?), serde_json::json!({}))?;
    }
    for (name, cause) in expected {
        let code = wait::until(&format!("the exit of {name}"), LIMIT, async || lab.exit_code(name)).await?;
        let log = lab.cluster.kubectl_ok(&["logs", name, "-c", "wait"])?;
        ensure!(code == 1 && log.contains("gave up: ") && log.contains(cause), "{name}: {code}: {log}");
    }
    Ok(())
}

#[test]
fn every_sample_is_used_here() -> Result<()> {
    let used = [include_str!("mod.rs"), include_str!("node.rs")].concat();
    let folder = crate::common::docs::root().join("config/samples/agent");
    let names: Vec<String> = fs::read_dir(folder)?
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    ensure!(names.len() == 4, "{names:?}");
    ensure!(names.iter().all(|name| used.contains(&format!("\"{name}\""))), "{names:?}");
    Ok(())
}

/// Checks only the format of the alert, because no Prometheus is available here.
#[test]
fn the_alert_is_a_rule_file() -> Result<()> {
    let text =
        fs::read_to_string(crate::common::docs::root().join("config/samples/agent").join("alerts.yaml"))?;
    let rules: serde_json::Value = serde_saphyr::from_str(&text)?;
    let rule = &rules["groups"][0]["rules"][0];
    ensure!(rule["alert"] == "RollcallWaitsForAgent" && rule["for"] == "10m", "{rule}");
    let expression = rule["expr"].as_str().context("no expression")?;
    let open = expression.matches('(').count();
    ensure!(
        open > 0 && open == expression.matches(')').count() && !expression.contains('\n'),
        "{expression}"
    );
    Ok(())
}
