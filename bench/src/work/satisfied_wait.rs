//! W1: the cost of an init container whose condition already holds: `rollcall-node wait` against `busybox sh`. Needs no
//! cluster.

use crate::Arguments;
use crate::table::{Table, median};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Starts of each side; a start takes a few milliseconds.
const STARTS: usize = 100;
/// Polling interval for the memory of a process; the process is kept alive for a second.
const LOOK: Duration = Duration::from_millis(10);
const BUSYBOX: &str = "/bin/busybox";

pub fn w1(arguments: &Arguments, table: &mut Table) -> Result<()> {
    rollcall_testbed::install_packages(&[("busybox-static", BUSYBOX)])?;
    let ours = program()?;
    let dir = tempfile::tempdir()?;
    let marker = dir.path().join(".ready");
    std::fs::write(
        &marker,
        format!("ready\nboot: {}", std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?),
    )?;
    let marker = marker.to_str().context("the folder's path is not UTF-8")?;
    let ours = [ours.to_str().context("the program's path is not UTF-8")?, "wait", "--marker", marker];
    let script = format!("while [ ! -f {marker} ]; do sleep 2; done");
    let shell = [BUSYBOX, "sh", "-c", &script];

    let (mut waits, mut shells) = (Vec::new(), Vec::new());
    for start in 0..=arguments.scaled(STARTS) {
        let (wait, shell) = (milliseconds(&ours)?, milliseconds(&shell)?);
        // The first start is dropped, because it reads the program from the disk.
        if start > 0 {
            waits.push(wait);
            shells.push(shell);
        }
    }
    let (wait, shell_time) = (median(&waits), median(&shells));
    let work = "a satisfied `rollcall-node wait`, beside `busybox sh`";
    let measured = format!("{wait:.1} ms against {shell_time:.1} ms");
    table.figure("W1", &format!("{work}: time"), measured, wait, ("≤ 10 ms", 10.0));
    let script = format!("{script}; sleep 1; true");
    let (wait, shell) =
        (peak(&[&ours[..], &["--settle", "1s"]].concat())?, peak(&[BUSYBOX, "sh", "-c", &script])?);
    let measured = format!("{wait:.1} MB against {shell:.1} MB");
    table.figure("W1", &format!("{work}: memory"), measured, wait, ("≤ 5 MB", 5.0));
    Ok(())
}

/// The static program, which `make bench` builds.
fn program() -> Result<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bin/rollcall-node");
    path.canonicalize().with_context(|| format!("{}: run make build first", path.display()))
}

fn milliseconds(command: &[&str]) -> Result<f64> {
    let begun = Instant::now();
    let status = Command::new(command[0]).args(&command[1..]).stderr(Stdio::null()).status()?;
    ensure!(status.success(), "{command:?} exited with {status}");
    Ok(begun.elapsed().as_secs_f64() * 1000.0)
}

/// The peak memory of a process in MB, read shortly before the process ends.
fn peak(command: &[&str]) -> Result<f64> {
    let mut child = Command::new(command[0]).args(&command[1..]).stderr(Stdio::null()).spawn()?;
    let status = format!("/proc/{}/status", child.id());
    let mut peak = None;
    while child.try_wait()?.is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        peak = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok()).or(peak);
        std::thread::sleep(LOOK);
    }
    Ok(peak.context("the process ended before its memory was read")? / 1000.0)
}
