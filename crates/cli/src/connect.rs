//! Connects to the cluster with the kubeconfig that kubectl would use, and with the caller's own permissions.

use crate::cli::Access;
use anyhow::{Context, Result, anyhow};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::{Client, Error};
use std::time::Duration;

/// Short, because a user waits for the answer: an address that does not respond at all fails early.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longer than the API server's own timeout for requests other than watches (60 s by default).
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(70);
/// Read timeout of watches, slightly longer than their requested duration; until then, silence is normal.
pub const WATCH_TIMEOUT: Duration = Duration::from_secs(295);

const ADVICE: &str = "set a kubeconfig with --kubeconfig or $KUBECONFIG";

/// A client, and the properties of its kubeconfig context.
pub struct Connection {
    pub client: Client,
    pub namespace: String,
    /// Whether the namespace differs from the default of the context, so that suggested commands must include `-n`.
    pub elsewhere: bool,
    pub server: String,
    /// Name of the user in the kubeconfig.
    pub user: Option<String>,
}

impl Connection {
    pub async fn open(
        access: &Access,
        namespace: Option<&str>,
        read_timeout: Duration,
    ) -> Result<Connection> {
        let mut config = config(access).await?;
        config.read_timeout = Some(read_timeout);
        let namespace = namespace.unwrap_or(&config.default_namespace).to_owned();
        let elsewhere = namespace != config.default_namespace;
        let server = config.cluster_url.to_string();
        let client =
            Client::try_from(config).with_context(|| format!("cannot create a client for {server}"))?;
        Ok(Connection { client, namespace, elsewhere, server, user: user(access) })
    }

    /// Converts an API error into a message that suggests the next step. `doing` reads like "list pods in namespace shop".
    pub fn explained(&self, error: Error, doing: &str) -> anyhow::Error {
        match error {
            Error::Api(status) => match status.code {
                401 => anyhow!("not logged in to {}: {}", self.server, status.message),
                403 => anyhow!("not allowed to {doing}: {}", status.message),
                _ => anyhow!("cannot {doing}: {}", status.message),
            },
            Error::Service(error) => {
                let cause = root(error.as_ref());
                anyhow!("cannot reach the cluster at {}: {cause}; is it the right --context?", self.server)
            }
            other => anyhow::Error::new(other).context(format!("cannot {doing}")),
        }
    }
}

/// Loads the client configuration. Automatic retries are off, because each caller decides whether to retry.
pub async fn config(access: &Access) -> Result<Config> {
    let Access { kubeconfig, context } = access;
    let options = KubeConfigOptions { context: context.clone(), ..Default::default() };
    // The errors of kube already include their causes, so a chain of contexts would repeat them.
    let mut config = match (kubeconfig, context) {
        (Some(file), _) => {
            let unusable = |error| anyhow!("--kubeconfig: cannot use {}: {error}", file.display());
            let read = Kubeconfig::read_from(file).map_err(unusable)?;
            Config::from_custom_kubeconfig(read, &options).await.map_err(unusable)?
        }
        (None, Some(context)) => Config::from_kubeconfig(&options)
            .await
            .map_err(|error| anyhow!("--context: cannot use {context}: {error}; {ADVICE}"))?,
        (None, None) => match Config::from_kubeconfig(&options).await {
            Ok(config) => config,
            Err(error) => {
                Config::incluster().map_err(|_| anyhow!("no cluster is configured: {error}; {ADVICE}"))?
            }
        },
    };
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    Ok(config)
}

fn user(access: &Access) -> Option<String> {
    let read = match &access.kubeconfig {
        Some(file) => Kubeconfig::read_from(file),
        None => Kubeconfig::read(),
    };
    let read = read.ok()?;
    let wanted = access.context.as_ref().or(read.current_context.as_ref())?;
    read.contexts.iter().find(|context| context.name == *wanted)?.context.as_ref()?.user.clone()
}

/// Returns the innermost cause, such as "connection refused", which is more specific than the errors that wrap it.
fn root(error: &(dyn std::error::Error + 'static)) -> String {
    std::iter::successors(Some(error), |error| error.source())
        .last()
        .map_or(String::new(), ToString::to_string)
}
