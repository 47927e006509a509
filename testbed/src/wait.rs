//! Waiting for a condition with a deadline; there is no sleeping for luck.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use kube::Api;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(300);

/// Probes until there is a value; an error of the probe ends the wait.
///
/// The longer a wait lasts, the longer the pauses between two probes become, an eighth of it: a dozen tests that wait for
/// one API server would otherwise keep it busy with their questions.
pub async fn until<T>(
    what: &str,
    limit: Duration,
    probe: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let pause = |waited: Duration| (waited / 8).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
    until_after(pause, what, limit, probe).await
}

/// Like [`until`], with the same pause between all probes.
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

/// Asks for an object until it is there and as wanted.
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

/// Waits until an object is gone.
pub async fn for_absence<K>(api: &Api<K>, name: &str, limit: Duration) -> Result<()>
where
    K: Clone + DeserializeOwned + Debug,
{
    until(&format!("the end of {name}"), limit, async || Ok(api.get_opt(name).await?.is_none().then_some(())))
        .await
}
