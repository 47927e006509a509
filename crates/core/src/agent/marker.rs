//! Markers: small files that report an agent as "ready", and the check that such a file is not stale.
//!
//! ```text
//! ready
//! boot: f0f3334e-0cef-46a3-9d05-c97a0ba9c284
//! pod: 6f1c2a7e-…
//! node: node-1
//! time: 2026-11-17T08:31:18Z
//! mount: 64768:1310722
//! ```
//!
//! A shell needs only the first line. The other lines identify the boot of the machine and the mount, because a file can outlive
//! both.

use std::fmt;
use std::str::FromStr;

/// Maximum number of bytes to read from a marker. Markers of `rollcall-node` have less than 300 bytes.
pub const MAX_SIZE: usize = 4096;

/// The first line of every marker.
pub const READY: &str = "ready";

/// The contents of a marker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marker {
    /// The boot id of the machine when it was written.
    pub boot: Option<String>,
    /// The uid of the pod that wrote it.
    pub pod: Option<String>,
    /// The name of the node.
    pub node: Option<String>,
    /// The time when it was written, in RFC 3339.
    pub time: Option<String>,
    /// The folder that contains the marker, if the writer has mounted it.
    pub mount: Option<Mount>,
}

/// Identity of a mounted folder. Unlike mount ids, these numbers are the same in every mount namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mount {
    pub device: u64,
    pub inode: u64,
}

/// The machine and the folder, to compare with a marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Here {
    /// `/proc/sys/kernel/random/boot_id` of this machine.
    pub boot: String,
    /// The folder that contains the marker.
    pub folder: Mount,
}

/// Why a marker is not valid. `said` describes its origin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stale {
    #[error("stale: written in an earlier boot{said}")]
    EarlierBoot { said: String },
    #[error("stale: written for mount {wanted}, but the folder here is mount {found}{said}")]
    OtherMount { wanted: Mount, found: Mount, said: String },
    #[error("stale: invalid line {line:?}")]
    Unreadable { line: String },
}

/// Describes the time and the writer of a marker, as far as it names them.
fn written(marker: &Marker) -> String {
    let said = [
        marker.time.as_ref().map(|time| format!("at {time}")),
        marker.node.as_ref().map(|node| format!("on node {node}")),
        marker.pod.as_ref().map(|pod| format!("by the pod with uid {pod}")),
    ];
    let said: Vec<String> = said.into_iter().flatten().collect();
    if said.is_empty() { String::new() } else { format!(" ({})", said.join(" ")) }
}

impl Marker {
    /// Parses the beginning of a file. Returns a marker without identity (all fields empty) if the file does not begin like a
    /// marker, or has no known lines.
    pub fn parse(text: &str) -> Result<Marker, Stale> {
        let mut marker = Marker::default();
        let mut lines = text.lines();
        if lines.next().map(str::trim) != Some(READY) {
            return Ok(marker);
        }
        for line in lines {
            let Some((key, value)) = line.split_once(':') else { continue };
            let value = value.trim();
            let unreadable = || Stale::Unreadable { line: line.to_owned() };
            let text = || if value.is_empty() { Err(unreadable()) } else { Ok(Some(value.to_owned())) };
            match key.trim() {
                "boot" => marker.boot = text()?,
                "pod" => marker.pod = text()?,
                "node" => marker.node = text()?,
                "time" => marker.time = text()?,
                "mount" => marker.mount = Some(value.parse().map_err(|_| unreadable())?),
                // Ignore unknown keys: later versions may write them.
                _ => {}
            }
        }
        Ok(marker)
    }

    /// Checks that the marker was written in this boot and for this mount. A marker without identity is always valid, because its
    /// writer, such as a shell script, cannot provide one.
    pub fn judge(&self, here: &Here) -> Result<(), Stale> {
        if self.boot.as_ref().is_some_and(|boot| *boot != here.boot) {
            return Err(Stale::EarlierBoot { said: written(self) });
        }
        match self.mount {
            Some(wanted) if wanted != here.folder => {
                Err(Stale::OtherMount { wanted, found: here.folder, said: written(self) })
            }
            Some(_) | None => Ok(()),
        }
    }
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Marker { boot, pod, node, time, mount } = self;
        writeln!(f, "{READY}")?;
        let mount = mount.map(|mount| mount.to_string());
        for (key, value) in [("boot", boot), ("pod", pod), ("node", node), ("time", time), ("mount", &mount)]
        {
            if let Some(value) = value {
                writeln!(f, "{key}: {value}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.device, self.inode)
    }
}

impl FromStr for Mount {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Mount, Self::Err> {
        let (device, inode) = text.split_once(':').unwrap_or((text, ""));
        Ok(Mount { device: device.trim().parse()?, inode: inode.trim().parse()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> Here {
        Here { boot: "boot-2".into(), folder: Mount { device: 64768, inode: 12 } }
    }

    fn ours() -> Marker {
        Marker {
            boot: Some("boot-2".into()),
            pod: Some("uid-1".into()),
            node: Some("node-1".into()),
            time: Some("2026-11-17T08:31:18Z".into()),
            mount: Some(Mount { device: 64768, inode: 12 }),
        }
    }

    fn judged(text: &str) -> Result<(), String> {
        let judged = Marker::parse(text).and_then(|marker| marker.judge(&here()));
        judged.map_err(|stale| stale.to_string())
    }

    #[test]
    fn what_is_written_is_read() {
        let text = ours().to_string();
        assert_eq!(
            text,
            "ready\nboot: boot-2\npod: uid-1\nnode: node-1\ntime: 2026-11-17T08:31:18Z\nmount: 64768:12\n"
        );
        assert_eq!(Marker::parse(&text), Ok(ours()));
        assert_eq!(Marker::default().to_string(), "ready\n");
    }

    #[test]
    fn a_marker_of_this_boot_and_mount_is_fresh() {
        assert_eq!(judged(&ours().to_string()), Ok(()));
        assert_eq!(judged("ready\r\nboot: boot-2\r\n"), Ok(()));
        assert_eq!(judged("ready\nboot: boot-2\nlater: whatever\nand free text\n"), Ok(()));
    }

    #[test]
    fn a_file_without_identity_counts_as_it_is() {
        for text in ["", "ready\n", "ready", "done\n", "boot: boot-1\n", "\u{fffd}\0\u{1}"] {
            assert_eq!(judged(text), Ok(()), "{text:?}");
        }
    }

    #[test]
    fn another_boot_or_mount_is_stale() {
        assert_eq!(
            judged(&ours().to_string().replace("boot-2", "boot-1")).unwrap_err(),
            "stale: written in an earlier boot (at 2026-11-17T08:31:18Z on node node-1 by the pod with uid uid-1)"
        );
        assert_eq!(
            judged("ready\nboot: boot-2\nmount: 64768:13\n").unwrap_err(),
            "stale: written for mount 64768:13, but the folder here is mount 64768:12"
        );
        assert_eq!(judged("ready\nboot: boot-1\n").unwrap_err(), "stale: written in an earlier boot");
    }

    #[test]
    fn half_an_identity_does_not_count() {
        for line in ["boot:", "boot: ", "mount: 12", "mount: a:b", "mount: 1:", "mount: -1:2"] {
            let expected = format!("stale: invalid line {line:?}");
            assert_eq!(judged(&format!("ready\n{line}\n")).unwrap_err(), expected);
        }
    }
}
