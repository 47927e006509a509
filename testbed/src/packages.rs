//! Debian packages that tests need.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Installs what is missing of packages, each with a file by which we know that it is there.
pub fn install(packages: &[(&str, &str)]) -> Result<()> {
    let missing = || -> Vec<&str> {
        packages.iter().filter(|(_, file)| !Path::new(file).exists()).map(|(name, _)| *name).collect()
    };
    if missing().is_empty() {
        return Ok(());
    }
    // apt-get gives up where another one is at work, and test binaries run side by side.
    let path = std::env::temp_dir().join("rollcall-testbed-apt.lock");
    let alone = File::create(&path).with_context(|| format!("create {}", path.display()))?;
    alone.lock().with_context(|| format!("lock {}", path.display()))?;
    let missing = missing();
    if missing.is_empty() {
        return Ok(());
    }
    eprintln!("testbed: installing {}", missing.join(" "));
    apt_get(&["update"])?;
    let mut args = vec!["install", "--yes", "--no-install-recommends"];
    args.extend(&missing);
    apt_get(&args)?;
    for (name, file) in packages {
        ensure!(Path::new(file).exists(), "package {name} has no {file}");
    }
    Ok(())
}

fn apt_get(args: &[&str]) -> Result<()> {
    let output = Command::new("apt-get")
        .args(args)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .output()
        .context("run apt-get: this needs Debian and root")?;
    ensure!(
        output.status.success(),
        "apt-get {} ended with {}: {}",
        args.join(" "),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
