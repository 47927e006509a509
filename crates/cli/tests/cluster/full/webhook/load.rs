//! Creates 50 pods per second.

use crate::common::server::{Server, gates};
use crate::common::*;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

const PACE: Duration = Duration::from_millis(20);
/// Maximum number of concurrent requests. If answers are slow, fewer pods are created, so that no queue builds up in the test.
const AT_ONCE: usize = 16;

/// The numbers of pods created in a period, by result.
#[derive(Debug, Default)]
pub struct Outcome {
    pub held: usize,
    pub free: usize,
    /// Error messages for pods that could not be created.
    pub refused: Vec<String>,
}

/// Creates pods until `stop` is cancelled, then waits for all answers.
pub async fn create(
    server: &Server<'_>,
    namespace: &str,
    prefix: &str,
    pod: impl Fn(&str) -> Value,
    stop: CancellationToken,
) -> Result<Outcome> {
    let (mut ticks, mut under_way, mut outcome) = (interval(PACE), JoinSet::new(), Outcome::default());
    // Missed ticks are not made up for, because that would exceed 50 pods per second.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut number = 0;
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(answer) = under_way.join_next() => count(&mut outcome, answer?),
            _ = ticks.tick(), if under_way.len() < AT_ONCE => {
                number += 1;
                let (pod, cluster) = (pod(&format!("{prefix}-{number}")), server.client());
                let path = crate::common::server::collection("pods", namespace);
                under_way.spawn(async move {
                    let request = http::Request::post(path).header("Content-Type", "application/json");
                    let request = request.body(serde_json::to_vec(&pod)?)?;
                    anyhow::Ok(cluster.request::<Value>(request).await?)
                });
            }
        }
    }
    while let Some(answer) = under_way.join_next().await {
        count(&mut outcome, answer?);
    }
    Ok(outcome)
}

fn count(outcome: &mut Outcome, answer: Result<Value>) {
    match answer {
        Ok(pod) if gates(&pod).is_empty() => outcome.free += 1,
        Ok(_) => outcome.held += 1,
        Err(error) => outcome.refused.push(format!("{error:#}")),
    }
}
