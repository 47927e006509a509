//! The Debian packages a real node is made of.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

pub const CONTAINERD: &str = "/usr/bin/containerd";
pub const BUSYBOX: &str = "/bin/busybox";

/// A package and a file by which we know that it is there.
const PACKAGES: [(&str, &str); 5] = [
    ("containerd", CONTAINERD),
    ("runc", "/usr/sbin/runc"),
    ("containernetworking-plugins", "/usr/lib/cni/ptp"),
    ("busybox-static", BUSYBOX),
    ("iproute2", "/bin/ip"),
];

/// Installs what is missing.
pub fn install() -> Result<()> {
    let missing: Vec<&str> =
        PACKAGES.iter().filter(|(_, file)| !Path::new(file).exists()).map(|(name, _)| *name).collect();
    if missing.is_empty() {
        return Ok(());
    }
    eprintln!("testbed: installing {}", missing.join(" "));
    apt_get(&["update"])?;
    let mut args = vec!["install", "--yes", "--no-install-recommends"];
    args.extend(&missing);
    apt_get(&args)?;
    for (name, file) in PACKAGES {
        ensure!(Path::new(file).exists(), "package {name} has no {file}");
    }
    Ok(())
}

fn apt_get(args: &[&str]) -> Result<()> {
    let output = Command::new("apt-get")
        .args(args)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .output()
        .context("run apt-get: a real node needs Debian and root")?;
    ensure!(
        output.status.success(),
        "apt-get {} ended with {}: {}",
        args.join(" "),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
