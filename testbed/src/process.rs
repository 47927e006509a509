//! Long-running children: how they are started, watched and ended.

use std::fs::{self, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, PidfdFlags, Signal};

/// Every process of a cluster carries this variable with the cluster's directory; by it the supervisor
/// finds them, whoever started them and whoever is gone.
pub const MARK: &str = "ROLLCALL_TESTBED_DIR";

/// How long a component may take to end by itself before it is killed.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// What it takes to start a component, again and again.
#[derive(Debug, Clone)]
pub struct Spec {
    pub name: &'static str,
    pub program: PathBuf,
    pub args: Vec<String>,
}

/// A component and its process, when it has one.
#[derive(Debug)]
pub struct Process {
    spec: Spec,
    dir: PathBuf,
    child: Option<Child>,
}

impl Process {
    pub fn new(spec: Spec, dir: &Path) -> Self {
        Process { spec, dir: dir.to_owned(), child: None }
    }

    pub fn log(&self) -> PathBuf {
        log_path(&self.dir, self.spec.name)
    }

    /// Starts it unless it runs. The log is appended to.
    pub fn start(&mut self) -> Result<()> {
        if let Some(child) = &mut self.child
            && child.try_wait()?.is_none()
        {
            return Ok(());
        }
        let log = OpenOptions::new().create(true).append(true).open(self.log())?;
        let mut command = Command::new(&self.spec.program);
        command.args(&self.spec.args).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        mark(&mut command, &self.dir);
        // Rarer garbage collection: where tests run, memory is free and the processor is not.
        command.env("GOGC", "400");
        let child = command.spawn().with_context(|| format!("start {}", self.spec.program.display()))?;
        self.child = Some(child);
        Ok(())
    }

    /// An error with the end of the log when the process is not running.
    pub fn check(&mut self) -> Result<()> {
        let name = self.spec.name;
        match self.child.as_mut().map(Child::try_wait).transpose()? {
            Some(None) => Ok(()),
            Some(Some(status)) => bail!("{name} ended with {status}:\n{}", tail(&self.log())),
            None => bail!("{name} is not running"),
        }
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        let Some(child) = &self.child else { bail!("{} is not running", self.spec.name) };
        // Not reaped yet, so the number is still this child's.
        rustix::process::kill_process(Pid::from_child(child), signal)
            .with_context(|| format!("signal {} to {}", signal.as_raw(), self.spec.name))
    }

    /// SIGTERM, and SIGKILL when that takes too long.
    pub async fn stop(&mut self) -> Result<()> {
        if self.child.is_none() {
            return Ok(());
        }
        self.signal(Signal::TERM)?;
        // A paused process gets the first signal only when it goes on.
        self.signal(Signal::CONT)?;
        let deadline = Instant::now() + STOP_GRACE;
        while let Some(child) = &mut self.child {
            if child.try_wait()?.is_some() {
                self.child = None;
            } else if Instant::now() > deadline {
                self.kill()?;
            } else {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        Ok(())
    }

    /// SIGKILL, and wait for the end.
    pub fn kill(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }
}

/// Makes a command's process belong to the cluster in `dir`: the supervisor ends it with the cluster.
/// The process group of its own keeps a Ctrl-C in the terminal from reaching it before its turn.
pub fn mark(command: &mut Command, dir: &Path) {
    command.env(MARK, dir).process_group(0);
}

pub fn log_path(dir: &Path, name: &str) -> PathBuf {
    dir.join("logs").join(format!("{name}.log"))
}

/// The last lines of a log, for an error message.
pub fn tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

/// Kills the processes of the cluster in `dir` for whose program `wanted` says yes; returns how many.
pub fn kill_marked(dir: &Path, wanted: impl Fn(&Path) -> bool) -> Result<usize> {
    let needle = format!("{MARK}={}", dir.display());
    let mut killed = 0;
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse().ok()).and_then(Pid::from_raw)
        else {
            continue;
        };
        // The handle first, then the look: what is signalled is then what was looked at, even if the number is reused.
        let Ok(handle) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else { continue };
        let Ok(environ) = fs::read(entry.path().join("environ")) else { continue };
        if !environ.split(|b| *b == 0).any(|var| var == needle.as_bytes()) {
            continue;
        }
        let Ok(program) = fs::read_link(entry.path().join("exe")) else { continue };
        if wanted(&program) && rustix::process::pidfd_send_signal(handle, Signal::KILL).is_ok() {
            killed += 1;
        }
    }
    Ok(killed)
}
