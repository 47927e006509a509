//! However the process of a cluster ends, nothing of the cluster remains.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use crate::common::LIMIT;
use anyhow::{Context, Result};
use rollcall_testbed::wait;

/// Starts a cluster in another process; returns the process and the cluster's directory.
fn up() -> Result<(Child, PathBuf)> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_rollcall-testbed"))
        .args(["up", "--nodes", "1"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
    let kubeconfig = line.trim().strip_prefix("export KUBECONFIG=").context("no kubeconfig was printed")?;
    let dir = Path::new(kubeconfig).parent().context("no directory")?.to_owned();
    Ok((child, dir))
}

/// The command lines that contain the directory.
fn processes(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(&dir.display().to_string())).collect()
}

#[tokio::test]
async fn sigkill_leaves_nothing_behind() -> Result<()> {
    let (mut child, dir) = up()?;
    // etcd, API server, controller manager, scheduler, kwok and the supervisor.
    assert_eq!(processes(&dir).len(), 6, "{:?}", processes(&dir));
    child.kill()?;
    child.wait()?;
    let gone = async || Ok((processes(&dir).is_empty() && !dir.exists()).then_some(()));
    wait::until("the clean-up", LIMIT, gone).await
}

/// The supervisor is killed too, for example because the machine runs out of memory.
#[tokio::test]
async fn the_next_cluster_clears_up_after_a_killed_supervisor() -> Result<()> {
    let (mut child, dir) = up()?;
    let children = Command::new("pgrep").args(["-f", &format!("supervise {}", dir.display())]).output()?;
    let supervisor = String::from_utf8(children.stdout)?;
    let set_age = |seconds| {
        let then = SystemTime::now() - Duration::from_secs(seconds);
        fs::File::options().write(true).open(dir.join("supervisor.lock"))?.set_modified(then)
    };
    // Other clusters that start at the same time sweep, too.
    set_age(0)?;
    assert!(Command::new("kill").args(["-9", supervisor.trim()]).status()?.success());
    child.kill()?;
    child.wait()?;
    assert!(dir.exists() && !processes(&dir).is_empty(), "the cluster ended too early");
    // A sweep ignores young clusters, which may still be starting.
    set_age(60)?;
    // A sweep skips a cluster that another sweep is removing, and the process of that sweep may end before it is
    // complete.
    let gone = async || {
        rollcall_testbed::supervisor::sweep();
        Ok((processes(&dir).is_empty() && !dir.exists()).then_some(()))
    };
    wait::until("the clean-up", LIMIT, gone).await
}

#[tokio::test]
async fn sigterm_ends_in_order() -> Result<()> {
    let (mut child, dir) = up()?;
    Command::new("kill").arg(child.id().to_string()).status()?;
    assert!(child.wait()?.success());
    assert!(!dir.exists(), "{} is still there", dir.display());
    assert_eq!(processes(&dir), Vec::<String>::new());
    Ok(())
}
