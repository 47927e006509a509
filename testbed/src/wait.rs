//! Waits for a condition with a deadline, instead of sleeping for a fixed time.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use kube::Api;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(300);

/// Probes until there is a value. An error of the probe ends the wait.
///
/// The pause between probes grows to an eighth of the elapsed time. Otherwise a dozen tests that wait for one API
/// server would keep it busy.
pub async fn until<T>(
    what: &str,
    limit: Duration,
    probe: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let pause = |waited: Duration| (waited / 8).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
    until_after(pause, what, limit, probe).await
}

/// Like [`until`], with a constant pause between probes.
pub async fn until_every<T>(
    pause: Duration,
    what: &str,
    limit: Duration,
    probe: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    until_after(|_| pause, what, limit, probe).await
}

async fn until_after<T>(
    pause: impl Fn(Duration) -> Duration,
    what: &str,
    limit: Duration,
    mut probe: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let begun = Instant::now();
    loop {
        if let Some(value) = probe().await.with_context(|| format!("wait for {what}"))? {
            return Ok(value);
        }
        if begun.elapsed() > limit {
            bail!("{what}: not within {limit:?}");
        }
        tokio::time::sleep(pause(begun.elapsed())).await;
    }
}

/// Waits until an object exists and is as wanted.
pub async fn for_object<K>(
    api: &Api<K>,
    name: &str,
    limit: Duration,
    wanted: impl Fn(&K) -> bool,
) -> Result<K>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut last = None;
    let result = until(name, limit, async || {
        last = api.get_opt(name).await?;
        Ok(last.clone().filter(&wanted))
    })
    .await;
    result.with_context(|| format!("last seen: {last:?}"))
}

/// Waits until an object does not exist.
pub async fn for_absence<K>(api: &Api<K>, name: &str, limit: Duration) -> Result<()>
where
    K: Clone + DeserializeOwned + Debug,
{
    until(&format!("the end of {name}"), limit, async || Ok(api.get_opt(name).await?.is_none().then_some(())))
        .await
}
