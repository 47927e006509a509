//! Progress of the containers in pods with a launch order, recorded from the commits.

use super::timeline::add_span;
use crate::report::{PodState, RankReport, Span};
use rollcall_api::watch::PodObject;
use rollcall_core::facts::Pod;
use rollcall_core::launch::facts::{Launch, is_gated};
use rollcall_core::launch::ranks::Priority;
use serde::Deserialize;
use serde_json::Value;

/// The ranks of a new pod; empty if its containers have no launch order.
pub fn of_pod(pod: &Pod) -> Vec<RankReport> {
    let Some(launch) = pod.launch.as_deref() else { return Vec::new() };
    let rank = |priority: Priority| {
        let containers = launch.of_rank(priority).map(|(_, container)| container.name.to_string());
        RankReport { priority, containers: containers.collect(), spans: Vec::new() }
    };
    launch.ranks().into_iter().map(rank).collect()
}

/// Records the state of each rank after a change of the pod. `state` is the state of the whole pod.
pub fn update(ranks: &mut [RankReport], pod: &Value, state: PodState, at: u64) {
    if ranks.is_empty() {
        return;
    }
    let Ok(facts) = PodObject::deserialize(pod).map(|pod| pod.facts()) else { return };
    let Some(launch) = facts.launch.as_deref() else { return };
    for rank in ranks {
        let (state, why) = state_of(rank, launch, is_gated(&facts), state);
        add_span(&mut rank.spans, Span { from: at, state, why });
    }
}

fn state_of(rank: &RankReport, launch: &Launch, gated: bool, pod: PodState) -> (PodState, Option<String>) {
    let missing = || launch.of_rank(rank.priority).filter(|(_, container)| !container.passed);
    let was_ready = rank.spans.iter().any(|span| span.state == PodState::Ready);
    match pod {
        PodState::Terminating | PodState::Succeeded | PodState::Failed => (pod, None),
        _ if missing().next().is_none() => (PodState::Ready, None),
        _ if was_ready => (PodState::NotReady, None),
        PodState::Held | PodState::Unschedulable => (PodState::Held, None),
        _ if gated || launch.current().is_some_and(|open| rank.priority < open) => (PodState::Held, None),
        _ => {
            let troubled = missing().find_map(|(_, container)| {
                let trouble = container.trouble.as_deref().filter(|_| !container.waits_for_key)?;
                Some(format!("container {}: {trouble}", container.name))
            });
            (PodState::Starting, troubled)
        }
    }
}
