//! Log summaries of tickets and claiming pods.

use super::text;
use crate::chaos::world::has_gate;
use rollcall_api::names;
use rollcall_core::reservation::names as known;
use serde_json::Value;

/// Progress of a pod with its ticket, in a few words.
pub fn describe_pod(pod: &Value) -> String {
    let gated = if has_gate(pod, names::TICKET_GATE) { " ticket-gate" } else { "" };
    let nominated = text(&pod["status"]["nominatedNodeName"]).map(|node| format!(" nominated for {node}"));
    let claimed = text(&pod["metadata"]["annotations"][known::TICKET_CLAIMED]);
    let claimed = claimed.map(|ticket| format!(" has {ticket}"));
    format!("{gated}{}{}", nominated.unwrap_or_default(), claimed.unwrap_or_default())
}

pub fn describe_ticket(ticket: &Value) -> String {
    let status = &ticket["status"];
    format!("{} {} on {} for {}", status["phase"], status["reason"], status["nodeName"], status["podName"])
}
