//! Debian packages that tests need.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Installs missing packages. Each package is given with a file that exists if it is installed.
pub fn install(packages: &[(&str, &str)]) -> Result<()> {
    let missing = || -> Vec<&str> {
        packages.iter().filter(|(_, file)| !Path::new(file).exists()).map(|(name, _)| *name).collect()
    };
    if missing().is_empty() {
        return Ok(());
    }
    // apt-get fails while another apt-get runs, and test binaries run in parallel.
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
        "apt-get {} exited with {}: {}",
        args.join(" "),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
