//! Starts the program and reads its output.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Time limit of every step, even on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(120);

/// A running `rollcall-node`. It is killed at the end of the test.
pub struct Program {
    child: Child,
    lines: Receiver<String>,
    pub said: Vec<String>,
}

impl Program {
    pub fn start(arguments: &[&str]) -> Program {
        Program::start_with(arguments, &[])
    }

    pub fn start_with(arguments: &[&str], environment: &[(&str, &str)]) -> Program {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rollcall-node"));
        command.args(arguments).env_remove("POD_UID").env_remove("NODE_NAME");
        command.envs(environment.iter().copied()).stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("rollcall-node");
        let stderr = BufReader::new(child.stderr.take().expect("its stderr"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            stderr.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
        });
        Program { child, lines, said: Vec::new() }
    }

    /// Waits until the program has printed a line that contains this text.
    pub fn says(&mut self, text: &str) -> String {
        let end = Instant::now() + LIMIT;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => self.said.push(line),
                Err(RecvTimeoutError::Timeout) => {
                    panic!("not printed within {LIMIT:?}: {text:?}; {:#?}", self.said)
                }
                Err(RecvTimeoutError::Disconnected) => panic!("ended without {text:?}: {:#?}", self.said),
            }
            if let Some(line) = self.said.last().filter(|line| line.contains(text)) {
                return line.clone();
            }
        }
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("its state").is_none()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn terminate(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("SIGTERM");
    }

    /// Sends SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().expect("SIGKILL");
        self.child.wait().expect("its end");
    }

    /// Waits until the program exits; returns its exit code and its output.
    pub fn ends(mut self) -> (i32, String) {
        let status = eventually("its end", || self.child.try_wait().expect("its state"));
        self.said.extend(self.lines.iter());
        (code(status), self.said.join("\n"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| panic!("terminated by signal {:?}", status.signal()))
}

/// Runs the program until it exits; returns its exit code and its output.
pub fn run(arguments: &[&str]) -> (i32, String) {
    Program::start(arguments).ends()
}

/// Polls until there is a value; fails after the time limit.
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + LIMIT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "not within {LIMIT:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

pub fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("the boot id").trim().to_owned()
}

/// Runs the rest of a test as root in a mount namespace of its own; its mounts end with it. `module_path!()` and the
/// name of the test identify the test.
pub fn in_own_mounts(module: &str, test: &str, rest: impl FnOnce()) {
    const INSIDE: &str = "ROLLCALL_TEST_INSIDE";
    if std::env::var_os(INSIDE).is_some() {
        return rest();
    }
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    let exe = std::env::current_exe().expect("this program");
    command.args(["--mount", "--propagation", "private"]).arg(exe);
    let (_, module) = module.split_once("::").expect("a module of this binary");
    let test = format!("{module}::{test}");
    let output =
        command.args(["--exact", &test, "--nocapture"]).env(INSIDE, "1").output().expect("run unshare");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    // With a misspelt name, no test would run.
    assert!(out.contains("1 passed"), "{out}\n{err}");
}
