//! A real browser for tests of pages: Debian's Chromium, controlled through chromedriver (W3C WebDriver, plain HTTP).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

use crate::packages;
use crate::process::{Process, Spec, tail};
use crate::supervisor::{self, Supervisor};
use crate::wait;

const CHROMIUM: &str = "/usr/bin/chromium";
const CHROMEDRIVER: &str = "/usr/bin/chromedriver";
/// Time limit for the start of a browser, on two cores that also run clusters.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Keys, in the encoding of WebDriver.
pub const TAB: &str = "\u{e004}";
pub const ENTER: &str = "\u{e007}";
pub const ESCAPE: &str = "\u{e00c}";
pub const LEFT: &str = "\u{e012}";
pub const UP: &str = "\u{e013}";
pub const RIGHT: &str = "\u{e014}";
pub const DOWN: &str = "\u{e015}";

/// Without a sandbox, because tests run as root, and without features that connect to the network.
const ARGUMENTS: [&str; 12] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
];

/// A browser window. It is closed when this value is dropped, or when the process ends.
pub struct Browser {
    client: Client<HttpConnector, Full<bytes::Bytes>>,
    /// The URL of the session.
    session: String,
    driver: Process,
    dir: PathBuf,
    supervisor: Supervisor,
}

impl Browser {
    /// Starts a browser with a new profile. Installs missing Debian packages.
    pub async fn start() -> Result<Browser> {
        let install = || packages::install(&[("chromium", CHROMIUM), ("chromium-driver", CHROMEDRIVER)]);
        tokio::task::spawn_blocking(install).await??;
        let dir = tempfile::Builder::new().prefix(supervisor::PREFIX).tempdir()?.keep();
        fs::create_dir(dir.join("logs"))?;
        let supervisor = Supervisor::start(&dir)?;
        let spec = Spec { name: "chromedriver", program: "unshare".into(), args: driver_arguments() };
        let mut driver = Process::new(spec, &dir);
        driver.start()?;
        let log = driver.log();
        let port = wait::until("chromedriver", START_LIMIT, async || {
            driver.check()?;
            Ok(port_of(&fs::read_to_string(&log)?))
        })
        .await?;
        let client = Client::builder(TokioExecutor::new()).build_http();
        let session = format!("http://127.0.0.1:{port}/session");
        let mut browser = Browser { client, session, driver, dir, supervisor };
        let id = browser.open_session().await.with_context(|| tail(&log))?;
        browser.session = format!("{}/{id}", browser.session);
        // The initial page of a new window produces log messages and requests, which are discarded here.
        browser.post("url", json!({"url": "about:blank"})).await?;
        browser.console().await?;
        browser.requests().await?;
        Ok(browser)
    }

    async fn open_session(&self) -> Result<String> {
        let mut arguments: Vec<String> = ARGUMENTS.iter().map(|argument| argument.to_string()).collect();
        arguments.push(format!("--user-data-dir={}", self.dir.join("profile").display()));
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"binary": CHROMIUM, "args": arguments},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }}});
        let answer = self.call(Method::POST, "", Some(wanted)).await?;
        Ok(answer["sessionId"].as_str().context("no session")?.to_owned())
    }

    /// Opens a file and waits until it has loaded.
    pub async fn open(&self, page: &Path) -> Result<()> {
        self.post("url", json!({"url": format!("file://{}", page.display())})).await?;
        Ok(())
    }

    /// Runs a script as the body of a function, and returns its result.
    pub async fn script(&self, body: &str) -> Result<Value> {
        self.post("execute/sync", json!({"script": body, "args": []})).await
    }

    /// Presses and releases keys, one after another.
    pub async fn press(&self, keys: &[&str]) -> Result<()> {
        let down_and_up =
            |key: &&str| [json!({"type": "keyDown", "value": key}), json!({"type": "keyUp", "value": key})];
        let actions: Vec<Value> = keys.iter().flat_map(down_and_up).collect();
        self.post("actions", json!({"actions": [{"type": "key", "id": "keyboard", "actions": actions}]}))
            .await?;
        Ok(())
    }

    /// Moves the pointer to a position in the window.
    pub async fn point(&self, x: f64, y: f64) -> Result<()> {
        let to = json!({"type": "pointerMove", "duration": 0, "x": x.round() as i64, "y": y.round() as i64});
        self.post("actions", json!({"actions": [{"type": "pointer", "id": "mouse", "actions": [to]}]}))
            .await?;
        Ok(())
    }

    /// Emulates a window size, a colour scheme (`light` or `dark`) and a medium (`screen` or `print`).
    pub async fn emulate(&self, (width, height): (u32, u32), scheme: &str, media: &str) -> Result<()> {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", metrics).await?;
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.devtools("Emulation.setEmulatedMedia", json!({"media": media, "features": features})).await?;
        Ok(())
    }

    /// A screenshot of the window as PNG; of the whole page if `all` is true.
    pub async fn screenshot(&self, all: bool) -> Result<Vec<u8>> {
        let taken = self.devtools("Page.captureScreenshot", json!({"captureBeyondViewport": all})).await?;
        use base64::Engine;
        let data = taken["data"].as_str().context("no screenshot")?;
        Ok(base64::engine::general_purpose::STANDARD.decode(data)?)
    }

    /// The printed page, as PDF.
    pub async fn print(&self) -> Result<Vec<u8>> {
        let printed = self.post("print", json!({"background": true})).await?;
        use base64::Engine;
        Ok(base64::engine::general_purpose::STANDARD.decode(printed.as_str().context("no PDF")?)?)
    }

    /// The console messages since the last call.
    pub async fn console(&self) -> Result<Vec<String>> {
        let entries = self.post("se/log", json!({"type": "browser"})).await?;
        let entries = entries.as_array().context("no log")?.iter();
        Ok(entries.map(|entry| format!("{}: {}", entry["level"], entry["message"])).collect())
    }

    /// The URLs requested since the last call, including that of the page.
    pub async fn requests(&self) -> Result<Vec<String>> {
        let entries = self.post("se/log", json!({"type": "performance"})).await?;
        let mut addresses = Vec::new();
        for entry in entries.as_array().context("no log")? {
            let message: Value = serde_json::from_str(entry["message"].as_str().unwrap_or_default())?;
            if message["message"]["method"] == "Network.requestWillBeSent" {
                let address = &message["message"]["params"]["request"]["url"];
                addresses.push(address.as_str().unwrap_or_default().to_owned());
            }
        }
        Ok(addresses)
    }

    async fn devtools(&self, command: &str, parameters: Value) -> Result<Value> {
        self.post("goog/cdp/execute", json!({"cmd": command, "params": parameters})).await
    }

    async fn post(&self, path: &str, body: Value) -> Result<Value> {
        self.call(Method::POST, &format!("/{path}"), Some(body)).await
    }

    async fn call(&self, method: Method, path: &str, body: Option<Value>) -> Result<Value> {
        let bytes = body.map(|body| body.to_string()).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.session))
            .header("content-type", "application/json")
            .body(Full::from(bytes))?;
        let response = self.client.request(request).await.context("ask chromedriver")?;
        let status = response.status();
        let bytes = response.into_body().collect().await?.to_bytes();
        let answer: Value = serde_json::from_slice(&bytes).context("chromedriver's answer")?;
        ensure!(status.is_success(), "{path}: {status}: {}", answer["value"]["message"]);
        Ok(answer["value"].clone())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The supervisor ends the process; this only waits for it.
        if let Err(error) = self.supervisor.finish().and_then(|()| self.driver.kill()) {
            eprintln!("testbed: cannot end a browser: {error:#}");
        }
    }
}

/// Starts chromedriver in a PID namespace of its own, so that Chromium's helper processes end with it. They overwrite
/// the mark that the supervisor looks for, and would still write to the profile after its removal.
fn driver_arguments() -> Vec<String> {
    let mut words = vec!["--pid", "--mount-proc", "--fork", "--kill-child"];
    if !rustix::process::geteuid().is_root() {
        words.push("--map-root-user");
    }
    // With port 0, chromedriver chooses a free port and prints it.
    words.extend([CHROMEDRIVER, "--port=0"]);
    words.into_iter().map(str::to_owned).collect()
}

/// Parses `ChromeDriver was started successfully on port 43917.`
fn port_of(log: &str) -> Option<u16> {
    let (_, rest) = log.split_once("successfully on port ")?;
    rest.split_once('.')?.0.parse().ok()
}
