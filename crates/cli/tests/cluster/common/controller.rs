//! Runs the built binary as a separate process, with the permissions of the shipped ServiceAccount.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rollcall_testbed::{free_port, wait};
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::OnceCell;

use super::LIMIT;
use super::lab::Lab;

/// Number of attempts: another process may take a free port before the controller listens on it.
const ATTEMPTS: usize = 5;

/// Options for running a controller.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// URL of a fault proxy to use instead of the API server.
    pub server_override: Option<String>,
    pub args: Vec<String>,
    /// `lite` or `full`; by default the installed mode of the lab.
    pub mode: Option<&'static str>,
    /// Port of the webhook; by default any free port.
    pub webhook: Option<u16>,
    pub env: Vec<(String, String)>,
}

impl Options {
    pub fn args(args: &[&str]) -> Options {
        Options { args: args.iter().map(|arg| arg.to_string()).collect(), ..Options::default() }
    }
}

/// A running controller. It is killed when dropped, and does not outlive the cluster.
pub struct Controller {
    child: Option<Child>,
    log: PathBuf,
    health: u16,
    metrics: u16,
    /// Port of the webhook, if one is configured.
    pub webhook: u16,
}

impl Controller {
    /// The controller on the shared cluster that the tests of this process share.
    pub async fn shared() -> Result<&'static Controller> {
        static CONTROLLER: OnceCell<Controller> = OnceCell::const_new();
        let start = async || Controller::start(Lab::shared().await?, Options::default()).await;
        CONTROLLER.get_or_try_init(start).await
    }

    /// Starts a controller and waits until it is ready.
    pub async fn start(lab: &Lab, options: Options) -> Result<Controller> {
        for _ in 0..ATTEMPTS {
            let mut controller = Controller::spawn(lab, &options).await?;
            match controller.ready().await {
                Err(error) if format!("{error:#}").contains("cannot listen") => continue,
                ready => return ready.map(|()| controller),
            }
        }
        bail!("no free port in {ATTEMPTS} attempts")
    }

    /// Starts a controller without waiting.
    pub async fn spawn(lab: &Lab, options: &Options) -> Result<Controller> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let kubeconfig = lab.kubeconfig(options.server_override.as_deref()).await?;
        let log = lab.cluster().dir().join(format!("logs/rollcall-{number}.log"));
        let (health, metrics) = (free_port()?, free_port()?);
        let webhook = options.webhook.map_or_else(free_port, Ok)?;
        let output = File::create(&log)?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_rollcall"));
        command
            .args(["controller", "--mode", options.mode.unwrap_or(lab.mode)])
            .arg(format!("--health-probe-bind-address=127.0.0.1:{health}"))
            .arg(format!("--metrics-bind-address=127.0.0.1:{metrics}"))
            .arg(format!("--webhook-bind-address=127.0.0.1:{webhook}"))
            .args(&options.args)
            .env("KUBECONFIG", kubeconfig)
            .env_remove("RUST_LOG")
            .env("NO_COLOR", "1")
            .envs(options.env.iter().cloned())
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        let child = lab.cluster().adopt(&mut command).spawn().context("start rollcall")?;
        Ok(Controller { child: Some(child), log, health, metrics, webhook })
    }

    /// Waits until `/readyz` succeeds. If the controller exits instead, the error contains its log.
    pub async fn ready(&mut self) -> Result<()> {
        let client = http(self.health)?;
        wait::until("/readyz", LIMIT, async || {
            if let Some(status) = self.exited()? {
                bail!("the controller ended with {status}:\n{}", self.log());
            }
            Ok(fetch(&client, "/readyz").await.ok().map(drop))
        })
        .await
        .with_context(|| self.log())
    }

    /// The process id.
    pub fn id(&self) -> Result<u32> {
        Ok(self.child.as_ref().context("the controller is not running")?.id())
    }

    /// Returns the exit status, if the controller has exited by itself.
    pub fn exited(&mut self) -> Result<Option<ExitStatus>> {
        match &mut self.child {
            Some(child) => Ok(child.try_wait()?),
            None => bail!("the controller was killed or stopped"),
        }
    }

    /// Waits until the controller exits by itself.
    pub async fn ended(&mut self) -> Result<ExitStatus> {
        let ended = wait::until("the controller's exit", LIMIT, async || self.exited()).await;
        let ended = ended.with_context(|| self.log())?;
        self.child = None;
        Ok(ended)
    }

    /// The ports that any client can reach: probes and metrics.
    pub fn ports(&self) -> [u16; 2] {
        [self.health, self.metrics]
    }

    /// Returns the answer of `/readyz` or `/livez` if it is a success.
    pub async fn probe(&self, path: &str) -> Result<String> {
        fetch(&http(self.health)?, path).await
    }

    /// Returns the values of all series, by `name{labels}`.
    pub async fn metrics(&self) -> Result<BTreeMap<String, f64>> {
        let text = fetch(&http(self.metrics)?, "/metrics").await?;
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines
            .map(|line| {
                let (name, value) = line.rsplit_once(' ').with_context(|| format!("metric line {line:?}"))?;
                Ok((name.to_owned(), value.parse()?))
            })
            .collect()
    }

    /// Returns the log so far.
    pub fn log(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        format!("log of the controller:\n{}", String::from_utf8_lossy(&text))
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        let child = self.child.as_ref().context("the controller is not running")?;
        // The process has not been reaped, so the id still belongs to this child.
        Ok(kill_process(Pid::from_child(child), signal)?)
    }

    /// Sends SIGKILL, and waits for the exit.
    pub fn kill(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Sends SIGTERM, and waits for the orderly exit.
    pub async fn stop(&mut self) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        self.ended().await
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        if let Err(error) = self.kill() {
            eprintln!("kill the controller: {error:#}");
        }
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
    }
}

fn http(port: u16) -> Result<kube::Client> {
    let mut config = kube::Config::new(format!("http://127.0.0.1:{port}").parse()?);
    config.default_retry = false;
    config.connect_timeout = Some(Duration::from_secs(5));
    config.read_timeout = Some(Duration::from_secs(5));
    Ok(kube::Client::try_from(config)?)
}

async fn fetch(client: &kube::Client, path: &str) -> Result<String> {
    let request = http::Request::get(path).body(Vec::new())?;
    Ok(client.request_text(request).await?)
}
