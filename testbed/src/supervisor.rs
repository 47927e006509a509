//! The process that outlives a test and removes its cluster.
//!
//! A test process can end in any way, including SIGKILL. So each cluster has a second process, `rollcall-testbed
//! supervise DIR`, whose standard input is a pipe from the test process. When the test process ends, the kernel closes
//! the pipe. The supervisor then ends all processes of the cluster and removes its directory.
//!
//! The write end of the pipe is close-on-exec, so between fork and exec a new component keeps it open. When the pipe
//! closes, all components therefore carry the mark that [`kill_marked`] looks for.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::process::kill_marked;
use crate::real_node::cleanup;

/// The first line that the supervisor prints. A binary that prints another line is from another build.
const HELLO: &str = "rollcall-testbed supervisor 1";
/// The request that makes the supervisor take the lock for the only real node of a machine, and hold it until the
/// clean-up is complete.
const NODE_LOCK: &str = "node";

/// Prefix of the names of cluster directories.
pub const PREFIX: &str = "rollcall-testbed-";
/// A file in the cluster's directory that the supervisor keeps locked.
const ALIVE: &str = "supervisor.lock";
/// Minimum age of a swept cluster: a supervisor may not yet have locked a file that it has just created.
const SWEEP_AGE: Duration = Duration::from_secs(10);

/// If set, the directory of a cluster (logs, audit log) is kept after its end.
const KEEP: &str = "ROLLCALL_TESTBED_KEEP";

/// Time limit for the end of a cluster; a real node with pods needs a few seconds.
const TEARDOWN_LIMIT: Duration = Duration::from_secs(60);

/// The test's end of the supervisor.
#[derive(Debug)]
pub struct Supervisor {
    child: Mutex<Child>,
    /// In a mutex of its own, so that it can be closed while another thread waits for an answer.
    pipe: Mutex<Option<ChildStdin>>,
    answers: Mutex<BufReader<ChildStdout>>,
    dir: PathBuf,
}

impl Supervisor {
    /// Starts the supervisor of a cluster directory, and waits until it is running.
    pub fn start(dir: &Path) -> Result<Supervisor> {
        let binary = binary_path()?;
        if !binary.is_file() {
            build_binary(&binary)?;
        }
        match Supervisor::launch(&binary, dir) {
            Ok(supervisor) => Ok(supervisor),
            Err(_) => {
                build_binary(&binary)?;
                Supervisor::launch(&binary, dir)
            }
        }
    }

    fn launch(binary: &Path, dir: &Path) -> Result<Supervisor> {
        let mut child = Command::new(binary)
            .arg("supervise")
            .arg(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // An inherited stderr would keep a pipe of the test runner open after the test.
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .with_context(|| format!("start {}", binary.display()))?;
        let answers = BufReader::new(child.stdout.take().context("the supervisor has no standard output")?);
        let supervisor = Supervisor {
            pipe: Mutex::new(child.stdin.take()),
            answers: Mutex::new(answers),
            child: Mutex::new(child),
            dir: dir.to_owned(),
        };
        match supervisor.answer() {
            Ok(line) if line == HELLO => Ok(supervisor),
            other => {
                let mut child = lock(&supervisor.child);
                child.kill()?;
                child.wait()?;
                bail!("{} answered {other:?} instead of {HELLO:?}", binary.display())
            }
        }
    }

    /// Waits until no other cluster on the machine has a real node. Blocks.
    pub fn lock_node(&self) -> Result<()> {
        writeln!(lock(&self.pipe).as_mut().context("the cluster has ended")?, "{NODE_LOCK}")?;
        let line = self.answer()?;
        ensure!(line == NODE_LOCK, "the supervisor answered {line:?}");
        Ok(())
    }

    fn answer(&self) -> Result<String> {
        let mut line = String::new();
        lock(&self.answers).read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }

    /// Closes the pipe and waits for the clean-up. Cleans up itself if the supervisor has died.
    pub fn finish(&self) -> Result<()> {
        drop(lock(&self.pipe).take());
        let status = lock(&self.child).wait()?;
        if status.success() {
            return Ok(());
        }
        tear_down(&self.dir).with_context(|| format!("the supervisor exited with {status}"))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The path of our binary beside the running program: `target/debug/rollcall-testbed` for
/// `target/debug/deps/some_test-0123`.
fn binary_path() -> Result<PathBuf> {
    let exe = std::env::current_exe()?;
    let mut dir = exe.parent().context("the running program has no directory")?;
    if dir.ends_with("deps") || dir.ends_with("examples") {
        dir = dir.parent().context("no directory above deps")?;
    }
    Ok(dir.join("rollcall-testbed"))
}

/// Builds our binary, because `cargo test -p another-crate` does not.
fn build_binary(binary: &Path) -> Result<()> {
    let profile_dir = binary.parent().context("no profile directory")?;
    let target_dir = profile_dir.parent().context("no target directory")?;
    let profile = match profile_dir.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    eprintln!("testbed: building the supervisor");
    let output = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()))
        .args(["build", "--package", "rollcall-testbed", "--bin", "rollcall-testbed", "--profile", profile])
        .arg("--manifest-path")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .arg("--target-dir")
        .arg(target_dir)
        .output()
        .context("run cargo build")?;
    ensure!(output.status.success(), "cargo build failed:\n{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// The supervisor process: watches standard input until it closes, then cleans up.
pub fn run(dir: &Path) -> Result<()> {
    ensure!(dir.is_absolute(), "{} is not an absolute path", dir.display());
    // Locked as long as this process runs; see `sweep`.
    let alive = File::create(dir.join(ALIVE))?;
    alive.lock()?;
    println!("{HELLO}");
    for line in std::io::stdin().lines() {
        // An error of the pipe is treated as its end.
        let Ok(line) = line else { break };
        if line == NODE_LOCK {
            // Runs on a thread, so that the pipe is still watched. The lock ends with this process.
            std::thread::spawn(answer_node_lock);
        }
    }
    tear_down(dir)
}

fn answer_node_lock() -> Result<()> {
    let path = std::env::temp_dir().join("rollcall-testbed-node.lock");
    let file = File::create(&path).with_context(|| format!("create {}", path.display()))?;
    file.lock().with_context(|| format!("lock {}", path.display()))?;
    // Not dropped, because closing the file would release the lock.
    std::mem::forget(file);
    println!("{NODE_LOCK}");
    Ok(())
}

/// Ends clusters whose supervisor was killed, so that their file is not locked.
pub fn sweep() {
    for entry in fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let Ok(alive) = File::open(entry.path().join(ALIVE)) else { continue };
        let age = alive.metadata().and_then(|meta| meta.modified()).ok().and_then(|time| time.elapsed().ok());
        if age.is_some_and(|age| age > SWEEP_AGE)
            && alive.try_lock().is_ok()
            && let Err(error) = tear_down(&entry.path())
        {
            eprintln!("testbed: cannot remove the old cluster in {}: {error:#}", entry.path().display());
        }
    }
}

/// Ends a cluster: first its real node, then its processes, then its directory. etcd ends last, because an API server
/// without etcd hangs.
pub fn tear_down(dir: &Path) -> Result<()> {
    let deadline = Instant::now() + TEARDOWN_LIMIT;
    cleanup::clean_up(dir, deadline)?;
    kill_all(dir, deadline, |program| !program.ends_with("etcd"))?;
    kill_all(dir, deadline, |_| true)?;
    if std::env::var_os(KEEP).is_some() {
        // Without the file, the next sweep leaves the directory alone.
        fs::remove_file(dir.join(ALIVE))?;
    } else if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| format!("remove {}", dir.display()))?;
    }
    Ok(())
}

fn kill_all(dir: &Path, deadline: Instant, wanted: impl Fn(&Path) -> bool) -> Result<()> {
    while kill_marked(dir, &wanted)? > 0 {
        ensure!(Instant::now() < deadline, "processes of {} do not end", dir.display());
        sleep(Duration::from_millis(10));
    }
    Ok(())
}
