//! Waiting for a condition with a deadline; there is no sleeping for luck.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

const POLL: Duration = Duration::from_millis(20);

/// Asks until the probe gives something; an error of the probe ends the wait.
pub async fn until<T>(
    what: &str,
    limit: Duration,
    mut probe: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(value) = probe().await.with_context(|| format!("wait for {what}"))? {
            return Ok(value);
        }
        if Instant::now() > deadline {
            bail!("{what}: not within {limit:?}");
        }
        tokio::time::sleep(POLL).await;
    }
}
