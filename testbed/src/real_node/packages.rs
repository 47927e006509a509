//! The Debian packages of a real node.

use anyhow::Result;

pub const CONTAINERD: &str = "/usr/bin/containerd";
pub const BUSYBOX: &str = "/bin/busybox";

/// Installs missing packages.
pub fn install() -> Result<()> {
    crate::packages::install(&[
        ("containerd", CONTAINERD),
        ("runc", "/usr/sbin/runc"),
        ("containernetworking-plugins", "/usr/lib/cni/ptp"),
        ("busybox-static", BUSYBOX),
        ("iproute2", "/bin/ip"),
    ])
}
