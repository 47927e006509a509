//! The built binary as a process of its own, with the shipped ServiceAccount's rights.

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

/// Between choosing a port and listening on it somebody else may take it.
const ATTEMPTS: usize = 5;

/// How to run a controller.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The URL of a fault proxy to use instead of the API server.
    pub server_override: Option<String>,
    pub args: Vec<String>,
    /// `lite` or `full`; else as the lab was installed.
    pub mode: Option<&'static str>,
    /// Where its webhook is to listen; else somewhere.
    pub webhook: Option<u16>,
    pub env: Vec<(String, String)>,
}

impl Options {
    pub fn args(args: &[&str]) -> Options {
        Options { args: args.iter().map(|arg| arg.to_string()).collect(), ..Options::default() }
    }
}

/// A running controller. Dropped, it is killed; it never outlives the cluster.
pub struct Controller {
    child: Option<Child>,
    log: PathBuf,
    health: u16,
    metrics: u16,
    /// Where its webhook listens, if one is configured.
    pub webhook: u16,
}

impl Controller {
    /// The one that the tests of this process share, on the shared cluster.
    pub async fn shared() -> Result<&'static Controller> {
        static CONTROLLER: OnceCell<Controller> = OnceCell::const_new();
        let start = async || Controller::start(Lab::shared().await?, Options::default()).await;
        CONTROLLER.get_or_try_init(start).await
    }

    /// Starts it and waits until it is ready.
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

    /// Starts it and waits for nothing.
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

    /// Waits until `/readyz` says yes; a controller that ends instead is an error with its log.
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

    /// The number of its process.
    pub fn id(&self) -> Result<u32> {
        Ok(self.child.as_ref().context("the controller does not run")?.id())
    }

    /// Its exit status, if it has ended by itself.
    pub fn exited(&mut self) -> Result<Option<ExitStatus>> {
        match &mut self.child {
            Some(child) => Ok(child.try_wait()?),
            None => bail!("the controller was killed or stopped"),
        }
    }

    /// Waits until it has ended by itself.
    pub async fn ended(&mut self) -> Result<ExitStatus> {
        let ended = wait::until("the controller's end", LIMIT, async || self.exited()).await;
        let ended = ended.with_context(|| self.log())?;
        self.child = None;
        Ok(ended)
    }

    /// Where everybody can reach it: probes and metrics.
    pub fn ports(&self) -> [u16; 2] {
        [self.health, self.metrics]
    }

    /// What `/readyz` or `/livez` answers, if it says yes.
    pub async fn probe(&self, path: &str) -> Result<String> {
        fetch(&http(self.health)?, path).await
    }

    /// All series, `name{labels}`, and their values.
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

    /// All that it has said so far.
    pub fn log(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        format!("log of the controller:\n{}", String::from_utf8_lossy(&text))
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        let child = self.child.as_ref().context("the controller does not run")?;
        // Not reaped yet, so the number is still this child's.
        Ok(kill_process(Pid::from_child(child), signal)?)
    }

    /// SIGKILL, and wait for the end.
    pub fn kill(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// SIGTERM, and wait until it has ended in order.
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
