//! The Kubernetes binaries, built once from Go modules and kept in a cache outside of the clone.
//!
//! The module files are compiled into this crate, so a test binary does not need the sources.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};

pub const KUBERNETES_VERSION: &str = "1.36.4";
pub const ETCD_VERSION: &str = "3.6.8";
pub const KWOK_VERSION: &str = "0.8.0";

/// A Go module: its files, and the arguments of `go build`.
struct Module {
    name: &'static str,
    files: &'static [(&'static str, &'static str)],
    /// `tool` builds all `tool` lines of the go.mod file; `.` builds the module itself.
    target: &'static str,
    /// The name of the only program; `None` if each program is named after its package.
    program: Option<&'static str>,
    ldflags: &'static str,
}

const STRIPPED: &str = "-s -w";

const MODULES: [Module; 4] = [
    Module {
        name: "pause",
        files: &[
            ("go.mod", include_str!("../go/pause/go.mod")),
            ("main.go", include_str!("../go/pause/main.go")),
        ],
        target: ".",
        program: Some("pause"),
        ldflags: STRIPPED,
    },
    Module {
        name: "etcd",
        files: &[
            ("go.mod", include_str!("../go/etcd/go.mod")),
            ("go.sum", include_str!("../go/etcd/go.sum")),
        ],
        target: "tool",
        program: Some("etcd"),
        ldflags: STRIPPED,
    },
    Module {
        name: "kwok",
        files: &[
            ("go.mod", include_str!("../go/kwok/go.mod")),
            ("go.sum", include_str!("../go/kwok/go.sum")),
        ],
        target: "tool",
        program: None,
        ldflags: STRIPPED,
    },
    Module {
        name: "kubernetes",
        files: &[
            ("go.mod", include_str!("../go/kubernetes/go.mod")),
            ("go.sum", include_str!("../go/kubernetes/go.sum")),
        ],
        target: "tool",
        program: None,
        // Without the version stamps, the API server reports v0.0.0-master, and clients refuse to talk to it.
        ldflags: "-s -w -X k8s.io/component-base/version.gitVersion=v1.36.4 \
                  -X k8s.io/client-go/pkg/version.gitVersion=v1.36.4",
    },
];

const PROGRAMS: [&str; 8] = [
    "pause",
    "etcd",
    "kwok",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kubectl",
];

/// A file that every process locks while it uses a build, so that no other process removes the build.
const LOCK: &str = "lock";

/// The directory of the programs. Builds them first if they are missing, and then removes builds of other versions.
pub fn bin_dir() -> Result<PathBuf> {
    static IN_USE: Mutex<Option<File>> = Mutex::new(None);
    let mut in_use = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
    let builds = root()?.join("testbed");
    let home = builds.join(key());
    let bin = home.join("bin");
    if in_use.is_none() {
        fs::create_dir_all(&home).with_context(|| format!("create {}", home.display()))?;
        let lock = File::create(home.join(LOCK))?;
        if !bin.is_dir() {
            lock.lock().context("wait for another build")?;
            if !bin.is_dir() {
                build(&home, &bin)?;
                remove_others(&builds, &home)?;
            }
            lock.unlock()?;
        }
        lock.lock_shared().context("wait for another build")?;
        *in_use = Some(lock);
    }
    Ok(bin)
}

/// Removes builds that no process uses, except `current`. A build takes half a GiB.
fn remove_others(builds: &Path, current: &Path) -> Result<()> {
    for entry in fs::read_dir(builds)? {
        let path = entry?.path();
        // A folder without a lock file is not one of our builds.
        let Ok(lock) = File::open(path.join(LOCK)) else { continue };
        if path != current && lock.try_lock().is_ok() {
            eprintln!("testbed: removing an older build, {}", path.display());
            fs::remove_dir_all(&path).with_context(|| format!("remove {}", path.display()))?;
        }
    }
    Ok(())
}

fn root() -> Result<PathBuf> {
    if let Some(dir) = std::env::var_os("ROLLCALL_CACHE").filter(|v| !v.is_empty()) {
        return Ok(dir.into());
    }
    if let Some(dir) = std::env::var_os("XDG_CACHE_HOME").filter(|v| !v.is_empty()) {
        return Ok(PathBuf::from(dir).join("rollcall"));
    }
    let home = std::env::var_os("HOME").context("none of ROLLCALL_CACHE, XDG_CACHE_HOME and HOME is set")?;
    Ok(PathBuf::from(home).join(".cache/rollcall"))
}

/// The name of a build: readable versions, and a hash over all inputs, so that any change causes a new build.
fn key() -> String {
    let mut hash = Fnv::new();
    for module in &MODULES {
        for (name, text) in module.files {
            hash.add(name);
            hash.add(text);
        }
        hash.add(module.ldflags);
    }
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    format!(
        "kubernetes-{KUBERNETES_VERSION}-etcd-{ETCD_VERSION}-kwok-{KWOK_VERSION}-{os}-{arch}-{:016x}",
        hash.0
    )
}

/// FNV-1a. The hasher of std may change between Rust releases, which would cause unnecessary builds.
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, text: &str) {
        for byte in text.bytes().chain([0]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

fn build(home: &Path, bin: &Path) -> Result<()> {
    eprintln!(
        "testbed: building Kubernetes {KUBERNETES_VERSION}; this happens once and takes about 6 minutes"
    );
    let work = tempfile::Builder::new().prefix("build-").tempdir_in(home)?;
    let out = work.path().join("bin");
    fs::create_dir(&out)?;
    for module in &MODULES {
        eprintln!("testbed: go build {}", module.name);
        let dir = work.path().join(module.name);
        fs::create_dir(&dir)?;
        for (name, text) in module.files {
            fs::write(dir.join(name), text)?;
        }
        let target = match module.program {
            Some(program) => out.join(program),
            // With the trailing slash, `go build` writes into the directory.
            None => out.join(""),
        };
        let output = Command::new("go")
            .current_dir(&dir)
            .args(["build", "-mod=mod", "-trimpath", "-ldflags", module.ldflags, "-o"])
            .arg(target)
            .arg(module.target)
            .env("CGO_ENABLED", "0")
            .env("GOWORK", "off")
            // The go.mod files name the minimum Go version; no other toolchain is downloaded.
            .env("GOTOOLCHAIN", "local")
            .env("GOFLAGS", "")
            // The build cache of the compiler takes gigabytes, and is useless after the build.
            .env("GOCACHE", work.path().join("go-cache"))
            .output()
            .context("run `go build`; is Go installed?")?;
        if !output.status.success() {
            bail!("go build {} failed:\n{}", module.name, String::from_utf8_lossy(&output.stderr));
        }
    }
    for program in PROGRAMS {
        ensure!(out.join(program).is_file(), "go build did not create {program}");
    }
    fs::rename(&out, bin).with_context(|| format!("move to {}", bin.display()))?;
    eprintln!("testbed: built into {}", bin.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_of_other_versions_are_removed_unless_they_are_in_use() -> Result<()> {
        let builds = tempfile::tempdir()?;
        let make = |name: &str| -> Result<File> {
            let home = builds.path().join(name);
            fs::create_dir_all(home.join("bin"))?;
            Ok(File::create(home.join(LOCK))?)
        };
        let (_current, _old, used) = (make("current")?, make("old")?, make("used")?);
        used.lock_shared()?;
        fs::create_dir(builds.path().join("foreign"))?;
        remove_others(builds.path(), &builds.path().join("current"))?;
        let mut left: Vec<_> =
            fs::read_dir(builds.path())?.flatten().map(|entry| entry.file_name()).collect();
        left.sort();
        assert_eq!(left, ["current", "foreign", "used"]);
        Ok(())
    }
}
