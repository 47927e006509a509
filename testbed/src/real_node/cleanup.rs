//! Removes everything of a real node from the machine. Runs in the supervisor, after the test has ended.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::mount::UnmountFlags;
use rustix::process::{Pid, Signal};

use super::Claims;
use crate::process::kill_marked;

pub const CLAIMS: &str = "claims.json";
pub const IP_FORWARD: &str = "/proc/sys/net/ipv4/ip_forward";

const CGROUP_ROOT: &str = "/sys/fs/cgroup";
const CNI_RESULTS: &str = "/var/lib/cni/results";
const CONTAINER_LOGS: &str = "/var/log/containers";
const DEVICE_PLUGINS: &str = "/var/lib/kubelet/device-plugins";
/// Paths that are compiled into foreign programs; children come before their parents.
pub const FOREIGN_DIRS: [&str; 7] = [
    CNI_RESULTS,
    "/var/lib/cni",
    CONTAINER_LOGS,
    DEVICE_PLUGINS,
    "/var/lib/kubelet",
    "/run/containerd/s",
    "/run/containerd",
];

pub fn node_dir(cluster_dir: &Path) -> PathBuf {
    cluster_dir.join("node")
}

/// Removes the remains of the cluster's node. All steps are tried; the first error is returned.
pub fn clean_up(cluster_dir: &Path, deadline: Instant) -> Result<()> {
    let dir = node_dir(cluster_dir);
    let Ok(claims) = fs::read(dir.join(CLAIMS)) else { return Ok(()) };
    let claims: Claims = serde_json::from_slice(&claims).context("read the node's claims")?;
    let steps = [
        // The kubelet ends first, because it would restart containers. Then the processes in containers end, then their
        // shims.
        repeat(deadline, || kill_marked(cluster_dir, |program| program.ends_with("kubelet"))),
        repeat(deadline, || kill_containers(&claims.cgroup)),
        repeat(deadline, || kill_marked(cluster_dir, is_containerd)),
        unmount_below(&dir),
        remove_network(&claims),
        remove_cgroups(&claims.cgroup, deadline),
        remove_traces(&claims, &dir),
    ];
    steps.into_iter().collect()
}

/// Ends the processes in the node's containers and their shims. The kubelet has already ended.
pub fn end_containers(cluster_dir: &Path, node_dir: &Path, deadline: Instant) -> Result<()> {
    let claims: Claims = serde_json::from_slice(&fs::read(node_dir.join(CLAIMS))?)?;
    repeat(deadline, || kill_containers(&claims.cgroup))?;
    repeat(deadline, || kill_marked(cluster_dir, is_containerd))
}

/// Whether the program is containerd or a shim.
fn is_containerd(program: &Path) -> bool {
    program.file_name().is_some_and(|name| name.to_string_lossy().starts_with("containerd"))
}

fn repeat(deadline: Instant, mut step: impl FnMut() -> Result<usize>) -> Result<()> {
    while step()? > 0 {
        ensure!(Instant::now() < deadline, "processes of the node are still running");
        sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Our control group in every hierarchy; with cgroup v2, there is only one hierarchy.
pub fn cgroup_dirs(name: &str) -> Result<Vec<PathBuf>> {
    if Path::new(CGROUP_ROOT).join("cgroup.controllers").exists() {
        return Ok(vec![Path::new(CGROUP_ROOT).join(name)]);
    }
    let mut dirs = Vec::new();
    for entry in fs::read_dir(CGROUP_ROOT)? {
        let path = entry?.path();
        // The hierarchy `cpu,cpuacct` also has a link named `cpu`.
        if path.is_dir() && !path.is_symlink() {
            dirs.push(path.join(name));
        }
    }
    Ok(dirs)
}

/// Kills the processes in the node's containers.
fn kill_containers(cgroup: &str) -> Result<usize> {
    let mut killed = 0;
    for root in cgroup_dirs(cgroup)? {
        for dir in below(&root) {
            let Ok(list) = fs::read_to_string(dir.join("cgroup.procs")) else { continue };
            for pid in list.lines().filter_map(|line| line.parse().ok()).filter_map(Pid::from_raw) {
                // The kill fails only for a process that has already ended.
                killed += usize::from(rustix::process::kill_process(pid, Signal::KILL).is_ok());
            }
        }
    }
    Ok(killed)
}

/// A directory and its subdirectories, deepest first.
fn below(root: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut all: Vec<PathBuf> = dirs.flat_map(|entry| below(&entry.path())).collect();
    if root.is_dir() {
        all.push(root.to_owned());
    }
    all
}

/// Unmounts the mounts of containers, of their volumes and of their network namespaces. The kernel then removes the
/// veth pairs, too.
pub fn unmount_below(dir: &Path) -> Result<()> {
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    // Our paths contain no spaces, which the table escapes in octal.
    let points = table.lines().filter_map(|line| line.split(' ').nth(4));
    let mut points: Vec<&Path> = points.map(Path::new).filter(|point| point.starts_with(dir)).collect();
    // Later mounts may cover earlier ones.
    points.reverse();
    for point in points {
        rustix::mount::unmount(point, UnmountFlags::DETACH)
            .with_context(|| format!("unmount {}", point.display()))?;
    }
    Ok(())
}

fn remove_network(claims: &Claims) -> Result<()> {
    // An error means that the address or route was never added.
    for cidr in [&claims.service_cidr, &claims.pod_cidr] {
        let _ = ip(&["route", "delete", "unreachable", cidr]);
    }
    for address in [claims.service_ip, claims.node_ip] {
        let _ = ip(&["address", "delete", &format!("{address}/32"), "dev", "lo"]);
    }
    fs::write(IP_FORWARD, &claims.ip_forward).context("restore net.ipv4.ip_forward")
}

pub fn ip(args: &[&str]) -> Result<()> {
    let output = Command::new("ip").args(args).output().context("run ip")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "ip {} exited with {}: {stderr}", args.join(" "), output.status);
    Ok(())
}

/// Removes the control groups. A group can be removed only after its last process has been reaped, which takes a
/// moment.
fn remove_cgroups(cgroup: &str, deadline: Instant) -> Result<()> {
    for root in cgroup_dirs(cgroup)? {
        while root.exists() {
            for dir in below(&root) {
                let _ = fs::remove_dir(dir);
            }
            if root.exists() {
                ensure!(Instant::now() < deadline, "cannot remove {} in time", root.display());
                sleep(Duration::from_millis(20));
            }
        }
    }
    Ok(())
}

/// Removes files outside of our directory that other programs have written for our node.
fn remove_traces(claims: &Claims, dir: &Path) -> Result<()> {
    for path in entries(Path::new(CONTAINER_LOGS)) {
        if fs::read_link(&path).is_ok_and(|target| target.starts_with(dir)) {
            fs::remove_file(&path)?;
        }
    }
    for path in entries(&dir.join("state/io.containerd.runtime.v2.task/k8s.io")) {
        let id = path.file_name().unwrap_or_default().to_string_lossy();
        let results = entries(Path::new(CNI_RESULTS));
        for result in results.iter().filter(|result| result.to_string_lossy().contains(&*id)) {
            fs::remove_file(result)?;
        }
        // The directory of each container names the socket of its shim; the containers of a pod share one.
        let address = fs::read_to_string(path.join("address")).unwrap_or_default();
        if let Some(socket) = address.trim().strip_prefix("unix://") {
            let _ = fs::remove_file(socket);
        }
    }
    if claims.made.iter().any(|made| made == Path::new(DEVICE_PLUGINS)) {
        for path in entries(Path::new(DEVICE_PLUGINS)) {
            fs::remove_file(path)?;
        }
    }
    for made in &claims.made {
        // The directory is removed only if it is empty, because another program may use it.
        let _ = fs::remove_dir(made);
    }
    Ok(())
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}
