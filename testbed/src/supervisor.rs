//! The process that outlives a test and cleans up behind it.
//!
//! A test process may end in any way, SIGKILL included. So a cluster is guarded by a second process,
//! `rollcall-testbed supervise DIR`, whose standard input is a pipe from the test process. When the pipe closes,
//! the kernel says that the test is gone; the supervisor then ends every process of the cluster and removes its
//! directory.
//!
//! The pipe's write end is close-on-exec, so between fork and exec a new component keeps it open: when it closes,
//! every component already carries the mark that [`kill_marked`] looks for.

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

/// The supervisor's first words. A binary that says something else is from another build.
const HELLO: &str = "rollcall-testbed supervisor 1";
/// Asks the supervisor to take the lock for the one real node of a machine and to hold it past the clean-up.
const NODE_LOCK: &str = "node";

/// The name of every cluster's directory begins so.
pub const PREFIX: &str = "rollcall-testbed-";
/// A file in it that the supervisor keeps locked.
const ALIVE: &str = "supervisor.lock";
/// A supervisor that has just made the file may not have locked it yet.
const SWEEP_AGE: Duration = Duration::from_secs(10);

/// Set to keep a cluster's directory (logs, audit log) after its end.
const KEEP: &str = "ROLLCALL_TESTBED_KEEP";

/// How long the end of a cluster may take; a real node with pods needs a few seconds.
const TEARDOWN_LIMIT: Duration = Duration::from_secs(60);

/// The test's side.
#[derive(Debug)]
pub struct Supervisor {
    child: Mutex<Child>,
    /// Apart from the rest: it is closed while somebody still waits for an answer.
    pipe: Mutex<Option<ChildStdin>>,
    answers: Mutex<BufReader<ChildStdout>>,
    dir: PathBuf,
}

impl Supervisor {
    /// Starts the supervisor of a cluster directory and waits until it watches.
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
            // Inherited, it would keep a pipe of the test runner open after the test.
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

    /// Waits until this cluster is the only one on the machine with a real node. Blocks.
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

    /// Closes the pipe and waits until everything is gone. Does the work itself if the supervisor died.
    pub fn finish(&self) -> Result<()> {
        drop(lock(&self.pipe).take());
        let status = lock(&self.child).wait()?;
        if status.success() {
            return Ok(());
        }
        tear_down(&self.dir).with_context(|| format!("the supervisor ended with {status}"))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Beside the running program: `target/debug/rollcall-testbed` for `target/debug/deps/some_test-0123`.
fn binary_path() -> Result<PathBuf> {
    let exe = std::env::current_exe()?;
    let mut dir = exe.parent().context("the running program has no directory")?;
    if dir.ends_with("deps") || dir.ends_with("examples") {
        dir = dir.parent().context("no directory above deps")?;
    }
    Ok(dir.join("rollcall-testbed"))
}

/// `cargo test -p another-crate` does not build our binary, so this does.
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

/// The supervisor's side: watches standard input until it closes, then cleans up.
pub fn run(dir: &Path) -> Result<()> {
    ensure!(dir.is_absolute(), "{} is not an absolute path", dir.display());
    // Held as long as this process lives; see `sweep`.
    let alive = File::create(dir.join(ALIVE))?;
    alive.lock()?;
    println!("{HELLO}");
    for line in std::io::stdin().lines() {
        // Any trouble with the pipe means the same as its end.
        let Ok(line) = line else { break };
        if line == NODE_LOCK {
            // On a thread, so that the pipe is watched meanwhile. The lock ends with this process.
            std::thread::spawn(answer_node_lock);
        }
    }
    tear_down(dir)
}

fn answer_node_lock() -> Result<()> {
    let path = std::env::temp_dir().join("rollcall-testbed-node.lock");
    let file = File::create(&path).with_context(|| format!("create {}", path.display()))?;
    file.lock().with_context(|| format!("lock {}", path.display()))?;
    // Forgotten, not dropped: closing the file would let go of the lock.
    std::mem::forget(file);
    println!("{NODE_LOCK}");
    Ok(())
}

/// Ends clusters whose supervisor was killed: nobody holds their lock any more.
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
            eprintln!("testbed: an old cluster in {}: {error:#}", entry.path().display());
        }
    }
}

/// Ends a cluster: its real node, its processes (etcd last, so that no API server hangs on it), its directory.
pub fn tear_down(dir: &Path) -> Result<()> {
    let deadline = Instant::now() + TEARDOWN_LIMIT;
    cleanup::clean_up(dir, deadline)?;
    kill_all(dir, deadline, |program| !program.ends_with("etcd"))?;
    kill_all(dir, deadline, |_| true)?;
    if std::env::var_os(KEEP).is_some() {
        // Else the next sweep would take it.
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
