//! Converts decisions into the statuses of Orders and Tickets.

use super::status::{OrderStatus, TicketStatus};
use super::words::{Mode, Phase as Word};
use crate::time::MilliTime;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use rollcall_core::Timestamp;
use rollcall_core::reservation::reason::Reason;
use rollcall_core::reservation::spec::{self, TicketPhase, TicketRecord};
use rollcall_core::reservation::status::{self, Cause};

/// Returns the status of a ticket, as it is written to the API server.
pub fn ticket_status(record: &TicketRecord, namespace: &str) -> TicketStatus {
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let time = |time: Option<Timestamp>| time.map(MilliTime::new);
    let claim = record.claim.as_ref();
    let word = |phase: TicketPhase| match phase {
        TicketPhase::Pending => Word::Pending,
        TicketPhase::Reserved => Word::Reserved,
        TicketPhase::Claimed => Word::Claimed,
        TicketPhase::Expired => Word::Expired,
    };
    let has_clock = record.activated.is_some() || record.expires.is_some();
    let counts = matches!(record.phase, Some(TicketPhase::Pending | TicketPhase::Reserved)) && has_clock;
    let conditions =
        [("Ready", record.ready), ("GuardianReady", record.guardian_ready), ("Expiring", record.expiring)];
    TicketStatus {
        phase: record.phase.map(word),
        observed_generation: Some(record.observed_generation),
        activation_time: time(record.activated),
        expiration_time: time(record.expires),
        expires: counts
            .then(|| record.expires.map_or("never".to_owned(), |at| whole_seconds(at).to_string())),
        claimed_time: time(claim.map(|claim| claim.at)),
        node_name: record.node.as_deref().map(str::to_owned),
        pod_name: claim.map(|claim| claim.name.to_string()),
        pod_namespace: claim.map(|_| namespace.to_owned()),
        pod_uid: claim.map(|claim| claim.pod.to_string()),
        guardian_pod: record.guardian.as_deref().map(str::to_owned),
        utilization_rate: claim.map(|claim| claim.utilization),
        reason: text(&record.reason),
        message: text(&record.message),
        conditions: conditions
            .into_iter()
            .map(|(kind, condition)| of_ticket(kind, condition, record))
            .collect(),
    }
}

fn whole_seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

fn of_ticket(kind: &str, condition: spec::TimedCondition, record: &TicketRecord) -> Condition {
    let reason = match record.reason.is_empty() {
        true => "Unknown".to_owned(),
        false => record.reason.to_string(),
    };
    Condition {
        type_: kind.to_owned(),
        status: word(condition.holds),
        last_transition_time: Time(whole_seconds(condition.since.unwrap_or_default())),
        message: record.message.to_string(),
        reason,
        observed_generation: Some(record.observed_generation),
    }
}

fn word(holds: bool) -> String {
    if holds { "True" } else { "False" }.to_owned()
}

/// Returns the status of an Order. A condition whose status does not change keeps its `lastTransitionTime`.
pub fn order_status(
    wanted: &status::OrderStatus,
    written: Option<&OrderStatus>,
    now: Timestamp,
) -> OrderStatus {
    let time = |time: Option<Timestamp>| time.map(Time);
    let nodes = wanted.nodes;
    let reconciling = Cause {
        holds: wanted.progressing.holds,
        reason: wanted.progressing.reason,
        message: wanted.progressing.message.clone(),
    };
    let no = || Cause { holds: false, reason: Reason::NotStalled, message: String::new() };
    let stalled = wanted.stalled.clone().unwrap_or_else(no);
    let causes = [
        ("Ready", &wanted.ready),
        ("Progressing", &wanted.progressing),
        ("Failure", &wanted.failure),
        ("Reconciling", &reconciling),
        ("Stalled", &stalled),
    ];
    let before =
        |kind: &str| written.and_then(|written| written.conditions.iter().find(|known| known.type_ == kind));
    let condition = |(kind, cause): (&str, &Cause)| {
        let status = word(cause.holds);
        let same = before(kind).filter(|known| known.status == status);
        Condition {
            type_: kind.to_owned(),
            last_transition_time: same
                .map_or(Time(whole_seconds(now)), |known| known.last_transition_time.clone()),
            status,
            reason: cause.reason.code().to_owned(),
            message: cause.message.clone(),
            observed_generation: Some(wanted.observed_generation),
        }
    };
    OrderStatus {
        observed_generation: Some(wanted.observed_generation),
        mode: Some(if nodes.is_some() { Mode::DaemonSet } else { Mode::Replica }),
        desired_replicas: Some(wanted.desired),
        replicas: Some(wanted.replicas),
        available_replicas: Some(wanted.available),
        unavailable_replicas: Some(wanted.unavailable),
        updated_replicas: Some(wanted.updated),
        claimed_replicas: Some(wanted.claimed),
        terminal_replicas: Some(wanted.terminal),
        desired_number_scheduled: nodes.map(|nodes| nodes.desired),
        current_number_scheduled: nodes.map(|nodes| nodes.current),
        number_ready: nodes.map(|nodes| nodes.ready),
        number_misscheduled: nodes.map(|nodes| nodes.misscheduled),
        // Outside a reservation window, the time of the last one is kept.
        last_schedule_time: time(wanted.last_schedule)
            .or_else(|| written.and_then(|written| written.last_schedule_time.clone())),
        next_schedule_time: time(wanted.next_schedule),
        collision_count: written.and_then(|written| written.collision_count),
        message: Some(wanted.message.clone()).filter(|message| !message.is_empty()),
        conditions: causes.into_iter().map(condition).collect(),
    }
}
