//! Long-running child processes: starts, checks and ends them.

use std::fs::{self, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, PidfdFlags, Signal};

/// The environment variable that every process of a cluster carries; its value is the cluster's directory. The
/// supervisor finds the processes by it, even if the process that started them has ended.
pub const MARK: &str = "ROLLCALL_TESTBED_DIR";

/// Time for a component to end after SIGTERM before it is killed.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// The command line of a component.
#[derive(Debug, Clone)]
pub struct Spec {
    pub name: &'static str,
    pub program: PathBuf,
    pub args: Vec<String>,
}

/// A component and its process, if it is running.
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

    /// Starts the process unless it is running. Appends to the log.
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
        // Less frequent garbage collection: on test machines, memory is cheaper than CPU time.
        command.env("GOGC", "400");
        let child = command.spawn().with_context(|| format!("start {}", self.spec.program.display()))?;
        self.child = Some(child);
        Ok(())
    }

    /// Fails with the end of the log if the process is not running.
    pub fn check(&mut self) -> Result<()> {
        let name = self.spec.name;
        match self.child.as_mut().map(Child::try_wait).transpose()? {
            Some(None) => Ok(()),
            Some(Some(status)) => bail!("{name} exited with {status}:\n{}", tail(&self.log())),
            None => bail!("{name} is not running"),
        }
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        let Some(child) = &self.child else { bail!("{} is not running", self.spec.name) };
        // The child has not been reaped, so its PID cannot have been reused.
        rustix::process::kill_process(Pid::from_child(child), signal)
            .with_context(|| format!("signal {} to {}", signal.as_raw(), self.spec.name))
    }

    /// Sends SIGTERM, and SIGKILL if the process does not end in time.
    pub async fn stop(&mut self) -> Result<()> {
        if self.child.is_none() {
            return Ok(());
        }
        self.signal(Signal::TERM)?;
        // A paused process handles SIGTERM only after it is resumed.
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

    /// Sends SIGKILL, and waits for the end of the process.
    pub fn kill(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }
}

/// Makes a process belong to the cluster in `dir`, so that the supervisor ends it with the cluster. The process has a
/// process group of its own, so that Ctrl-C in the terminal does not reach it.
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

/// Kills the processes of the cluster in `dir` whose program is `wanted`; returns their number.
pub fn kill_marked(dir: &Path, wanted: impl Fn(&Path) -> bool) -> Result<usize> {
    let needle = format!("{MARK}={}", dir.display());
    let mut killed = 0;
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse().ok()).and_then(Pid::from_raw)
        else {
            continue;
        };
        // The pidfd is opened before the check, so that the checked process is signalled even if the PID is reused.
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
