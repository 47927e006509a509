//! Runs the program on a pseudo-terminal and records its output byte by byte.

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::Command;

/// Runs `rollcall` on a terminal of its own, with colours, and returns everything that it wrote to the terminal.
pub fn run(kubeconfig: &Path, arguments: &[&str]) -> String {
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&controller).expect("grantpt");
    unlockpt(&controller).expect("unlockpt");
    let name = ptsname(&controller, Vec::new()).expect("its name").into_string().expect("UTF-8");
    let terminal = || File::options().read(true).write(true).open(&name).expect("open the terminal");
    let mut command = Command::new(env!("CARGO_BIN_EXE_rollcall"));
    command.args(arguments).env("KUBECONFIG", kubeconfig).env("TERM", "xterm");
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "RUST_LOG", "KUBERNETES_SERVICE_HOST"] {
        command.env_remove(name);
    }
    command.stdin(terminal()).stdout(terminal()).stderr(terminal());
    let mut child = command.spawn().expect("run rollcall");
    // Closes this process's copies of the terminal; otherwise the read below never ends.
    drop(command);
    let mut written = Vec::new();
    // When the child exits, the terminal closes, and the read ends with an error.
    let _ = File::from(controller).read_to_end(&mut written);
    child.wait().expect("wait for rollcall");
    String::from_utf8(written).expect("UTF-8")
}
