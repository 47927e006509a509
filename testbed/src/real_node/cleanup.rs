//! Taking a real node back from the machine. Runs in the supervisor, when the test is gone.

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
/// Paths that are compiled into others' programs, parents after children.
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

/// Takes back whatever there is of the cluster's node. Every step is tried; the first error is returned.
pub fn clean_up(cluster_dir: &Path, deadline: Instant) -> Result<()> {
    let dir = node_dir(cluster_dir);
    let Ok(claims) = fs::read(dir.join(CLAIMS)) else { return Ok(()) };
    let claims: Claims = serde_json::from_slice(&claims).context("read the node's claims")?;
    let steps = [
        // The kubelet first, or it starts containers again; then what runs in them; then who watches them.
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

/// Ends what runs in the containers of the node, and who watches them; the kubelet is gone already.
pub fn end_containers(cluster_dir: &Path, node_dir: &Path, deadline: Instant) -> Result<()> {
    let claims: Claims = serde_json::from_slice(&fs::read(node_dir.join(CLAIMS))?)?;
    repeat(deadline, || kill_containers(&claims.cgroup))?;
    repeat(deadline, || kill_marked(cluster_dir, is_containerd))
}

/// containerd itself and its shims.
fn is_containerd(program: &Path) -> bool {
    program.file_name().is_some_and(|name| name.to_string_lossy().starts_with("containerd"))
}

fn repeat(deadline: Instant, mut step: impl FnMut() -> Result<usize>) -> Result<()> {
    while step()? > 0 {
        ensure!(Instant::now() < deadline, "processes of the node do not end");
        sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Our control group in every hierarchy; one hierarchy when it is cgroup v2.
pub fn cgroup_dirs(name: &str) -> Result<Vec<PathBuf>> {
    if Path::new(CGROUP_ROOT).join("cgroup.controllers").exists() {
        return Ok(vec![Path::new(CGROUP_ROOT).join(name)]);
    }
    let mut dirs = Vec::new();
    for entry in fs::read_dir(CGROUP_ROOT)? {
        let path = entry?.path();
        // `cpu,cpuacct` has `cpu` as a link to it.
        if path.is_dir() && !path.is_symlink() {
            dirs.push(path.join(name));
        }
    }
    Ok(dirs)
}

/// Kills what runs in the containers of the node.
fn kill_containers(cgroup: &str) -> Result<usize> {
    let mut killed = 0;
    for root in cgroup_dirs(cgroup)? {
        for dir in below(&root) {
            let Ok(list) = fs::read_to_string(dir.join("cgroup.procs")) else { continue };
            for pid in list.lines().filter_map(|line| line.parse().ok()).filter_map(Pid::from_raw) {
                // A process that cannot be killed any more is one that has ended.
                killed += usize::from(rustix::process::kill_process(pid, Signal::KILL).is_ok());
            }
        }
    }
    Ok(killed)
}

/// A directory and all below it, the deepest first.
fn below(root: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut all: Vec<PathBuf> = dirs.flat_map(|entry| below(&entry.path())).collect();
    if root.is_dir() {
        all.push(root.to_owned());
    }
    all
}

/// Mounts of containers, of their volumes and of their network namespaces. With the last of those go the veth pairs.
pub fn unmount_below(dir: &Path) -> Result<()> {
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    // Octal escapes stand for spaces, which our paths do not have.
    let points = table.lines().filter_map(|line| line.split(' ').nth(4));
    let mut points: Vec<&Path> = points.map(Path::new).filter(|point| point.starts_with(dir)).collect();
    // Later mounts lie on earlier ones.
    points.reverse();
    for point in points {
        rustix::mount::unmount(point, UnmountFlags::DETACH)
            .with_context(|| format!("unmount {}", point.display()))?;
    }
    Ok(())
}

fn remove_network(claims: &Claims) -> Result<()> {
    // Whatever was not taken yet cannot be given back: an error here says only that.
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
    ensure!(output.status.success(), "ip {} ended with {}: {stderr}", args.join(" "), output.status);
    Ok(())
}

/// A group can go when its last process is reaped, which takes a moment.
fn remove_cgroups(cgroup: &str, deadline: Instant) -> Result<()> {
    for root in cgroup_dirs(cgroup)? {
        while root.exists() {
            for dir in below(&root) {
                let _ = fs::remove_dir(dir);
            }
            if root.exists() {
                ensure!(Instant::now() < deadline, "{} does not go", root.display());
                sleep(Duration::from_millis(20));
            }
        }
    }
    Ok(())
}

/// Files outside of our directory that others wrote for us.
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
        // Every container's directory says where its shim listened; containers of a pod share one.
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
        // Only when it is empty: somebody else may have moved in.
        let _ = fs::remove_dir(made);
    }
    Ok(())
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}
