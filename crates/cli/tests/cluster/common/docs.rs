//! Runs the commands that documents contain.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rollcall_testbed::Cluster;

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the first block of commands in a section of a document.
pub fn commands(document: &str, section: &str) -> Result<String> {
    let text = std::fs::read_to_string(root().join(document))?;
    let (_, text) = text.split_once(section).with_context(|| format!("{document} has no {section:?}"))?;
    let (_, text) = text.split_once("```bash\n").context("no commands")?;
    let (commands, _) = text.split_once("```").context("no end")?;
    Ok(commands.to_owned())
}

/// Runs commands in a shell in the repository, and returns their output.
pub fn shell(cluster: &Cluster, commands: &str) -> Result<String> {
    let path = format!("{}:{}", cluster.bin_dir().display(), std::env::var("PATH")?);
    let mut shell = Command::new("sh");
    shell.args(["-ec", commands]).current_dir(root());
    let output = shell.env("PATH", path).env("KUBECONFIG", cluster.kubeconfig()).output()?;
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{commands}\nended with {}:\n{stdout}\n{stderr}", output.status);
    Ok(stdout.into_owned())
}
