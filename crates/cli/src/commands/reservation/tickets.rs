//! The columns of `kubectl get tickets`, and the reasons why some tickets reserve no capacity.

use super::{Arguments, Columns, Question};
use crate::cli::Access;
use crate::load::reservation::tickets;
use crate::outcome::Outcome;
use crate::output::{age, table};
use crate::shown::Shown;
use anyhow::Result;
use jiff::Timestamp;
use rollcall_api::reservation::{Phase, TicketObject, TicketStatus};
use rollcall_core::reservation::spec::amounts;
use serde::Serialize;

pub async fn run(access: Access, arguments: Arguments) -> Result<Outcome> {
    let question = Question::open(&access, arguments).await?;
    let tickets = tickets(&question.connection, question.namespace()).await?;
    let views: Vec<TicketView> = tickets.iter().map(TicketView::new).collect();
    question.answer("tickets", &views, text)
}

/// The data shown for a ticket.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct TicketView {
    namespace: String,
    name: String,
    created: Timestamp,
    generation: i64,
    status: TicketStatus,
    /// The reason why it reserves no capacity; empty if it is Reserved or Claimed.
    waits: String,
    #[serde(skip)]
    requests: String,
}

impl TicketView {
    fn new(object: &TicketObject) -> TicketView {
        let meta = &object.metadata;
        let status = object.status().unwrap_or_default();
        let requests = object.facts().spec.map(|spec| amounts(&spec.requests)).unwrap_or_default();
        TicketView {
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            created: meta.created(),
            generation: meta.generation.unwrap_or_default(),
            waits: waits(&status),
            status,
            requests,
        }
    }
}

fn waits(status: &TicketStatus) -> String {
    match status.phase {
        None => "no controller has processed it yet".into(),
        Some(Phase::Reserved | Phase::Claimed) => String::new(),
        Some(Phase::Pending | Phase::Expired) => {
            let said = [&status.reason, &status.message].into_iter().flatten().cloned();
            said.collect::<Vec<String>>().join(": ")
        }
    }
}

fn text(views: &[TicketView], columns: Columns, now: Timestamp) -> Shown {
    let Columns { namespace, wide } = columns;
    let mut head = vec!["NAME", "PHASE", "NODE", "CLAIMED-BY", "EXPIRES", "AGE"];
    if wide {
        head.extend(["REQUESTS", "USED", "GUARDIAN"]);
    }
    head.push("WHY");
    if namespace {
        head.insert(0, "NAMESPACE");
    }
    let row = |view: &TicketView| {
        let TicketStatus { phase, node_name, pod_name, guardian_pod, utilization_rate, .. } = &view.status;
        let mut row = vec![
            view.name.clone(),
            phase.map(|phase| phase.as_str().to_owned()).unwrap_or_default(),
            node_name.clone().unwrap_or_default(),
            pod_name.clone().unwrap_or_default(),
            expires(&view.status, now),
            age(view.created, now),
        ];
        if wide {
            let used = utilization_rate.map(|rate| format!("{rate}%")).unwrap_or_default();
            row.extend([view.requests.clone(), used, guardian_pod.clone().unwrap_or_default()]);
        }
        row.push(view.waits.clone());
        if namespace {
            row.insert(0, view.namespace.clone());
        }
        row
    };
    table(&head, &views.iter().map(row).collect::<Vec<_>>())
}

/// The time until expiry as in `in 5m`; if no expiry time counts down, the text of `status.expires`.
fn expires(status: &TicketStatus, now: Timestamp) -> String {
    let counts = status.expires.is_some();
    match status.expiration_time.map(|time| time.get()).filter(|_| counts) {
        Some(at) => format!("in {}", age(now, at)),
        None => status.expires.clone().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use serde_json::json;

    #[test]
    fn as_kubectl_prints_it_and_why_it_keeps_no_room() {
        let views: Vec<TicketView> = testing::tickets()
            .iter()
            .map(|ticket| TicketView::new(&serde_json::from_value(ticket.clone()).expect("a ticket")))
            .collect();
        let shown = |all_namespaces, wide| {
            text(&views, Columns { namespace: all_namespaces, wide }, testing::now()).as_str().to_owned()
        };
        insta::assert_snapshot!(shown(false, false));
        insta::assert_snapshot!(shown(true, true));
        insta::assert_snapshot!(json!(views[1]).to_string());
    }
}
