//! The controller under test: a separate process, with the permissions that the release ships.

use anyhow::{Context, Result};
use rollcall_testbed::wait;
use std::process::Child;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(600);

/// The mode of the controller.
#[derive(Clone, Copy)]
pub enum Mode {
    Lite,
    Full,
    /// Full mode, with the webhook at this port.
    Webhook(u16),
}

impl Mode {
    pub fn args(self) -> [String; 4] {
        let (mode, webhook) = match self {
            Mode::Lite => ("lite", "0".into()),
            Mode::Full => ("full", "0".into()),
            Mode::Webhook(port) => ("full", format!("127.0.0.1:{port}")),
        };
        ["--mode".into(), mode.into(), "--webhook-bind-address".into(), webhook]
    }
}

/// A running controller; it ends when this value is dropped.
pub struct Controller {
    child: Child,
    port: u16,
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Controller {
    /// A process that reports its readiness at this port.
    pub fn new(child: Child, port: u16) -> Controller {
        Controller { child, port }
    }

    pub async fn ready(&self) -> Result<()> {
        let address = format!("127.0.0.1:{}", self.port);
        wait::until_every(Duration::from_millis(2), "the controller to be ready", LIMIT, async || {
            Ok(answers_ok(&address, "/readyz").await.then_some(()))
        })
        .await
    }

    /// CPU time used so far. The kernel counts it in nanoseconds for each thread; the controller's threads live as long
    /// as its process.
    pub fn cpu(&self) -> Result<Duration> {
        let mut sum = 0;
        for task in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let line = std::fs::read_to_string(task?.path().join("schedstat"))?;
            sum += line.split(' ').next().context("time on the CPU")?.parse::<u64>()?;
        }
        Ok(Duration::from_nanos(sum))
    }

    /// Resident memory now and at its peak, in bytes.
    pub fn memory(&self) -> Result<(u64, u64)> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let field = |name: &str| -> Result<u64> {
            let line = status.lines().find(|line| line.starts_with(name)).context("no such field")?;
            let number = line.split_whitespace().nth(1).context("no number")?;
            Ok(number.parse::<u64>()? * 1024)
        };
        Ok((field("VmRSS:")?, field("VmHWM:")?))
    }
}

async fn answers_ok(address: &str, path: &str) -> bool {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let Ok(mut stream) = tokio::net::TcpStream::connect(address).await else { return false };
    let request = format!("GET {path} HTTP/1.0\r\n\r\n");
    let mut answer = [0u8; 16];
    stream.write_all(request.as_bytes()).await.is_ok()
        && stream.read(&mut answer).await.is_ok()
        && answer.starts_with(b"HTTP/1.0 200")
}
