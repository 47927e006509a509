//! The columns of `kubectl get orders`, and the reasons why Orders that are not Ready wait.

use super::{Arguments, Columns, Question, some};
use crate::cli::Access;
use crate::load::reservation::{orders, tickets};
use crate::outcome::Outcome;
use crate::output::{self, age, table};
use crate::shown::Shown;
use anyhow::Result;
use jiff::Timestamp;
use rollcall_api::reservation::{OrderObject, OrderStatus, Phase, TicketObject};
use rollcall_core::Uid;
use rollcall_core::reservation::spec::{OrderSpec, Refresh, Strategy, amounts};
use serde::Serialize;
use std::collections::BTreeMap;

pub async fn run(access: Access, arguments: Arguments) -> Result<Outcome> {
    let question = Question::open(&access, arguments).await?;
    let (connection, namespace) = (&question.connection, question.namespace());
    let orders = orders(connection, namespace).await?;
    let tickets = match orders.is_empty() {
        true => Vec::new(),
        false => tickets(connection, namespace).await.unwrap_or_else(|error| {
            output::note(format!("{error}: the reasons why Orders wait come only from their own statuses"));
            Vec::new()
        }),
    };
    question.answer("orders", &views(&orders, &tickets), text)
}

/// The data shown for an Order.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct OrderView {
    namespace: String,
    name: String,
    created: Timestamp,
    generation: i64,
    status: OrderStatus,
    /// The reason why it is not Ready; empty if it is Ready.
    waits: String,
    #[serde(skip)]
    strategy: String,
    #[serde(skip)]
    requests: String,
}

fn views(orders: &[OrderObject], tickets: &[TicketObject]) -> Vec<OrderView> {
    let mut pending: BTreeMap<Uid, Vec<&TicketObject>> = BTreeMap::new();
    for ticket in tickets {
        let waits =
            ticket.status().is_none_or(|status| status.phase.is_none_or(|phase| phase == Phase::Pending));
        if let Some(order) = ticket.order().filter(|_| waits) {
            pending.entry(order).or_default().push(ticket);
        }
    }
    let view = |object: &OrderObject| {
        let meta = &object.metadata;
        let status = object.status().unwrap_or_default();
        let spec = object.facts().spec.ok();
        OrderView {
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            created: meta.created(),
            generation: meta.generation.unwrap_or_default(),
            waits: waits(&status, pending.get(&meta.uid()).map_or(&[], Vec::as_slice)),
            status,
            strategy: spec.as_deref().map(strategy).unwrap_or_default(),
            requests: spec.as_deref().map(|spec| amounts(&spec.template.spec.requests)).unwrap_or_default(),
        }
    };
    orders.iter().map(view).collect()
}

/// Describes the wait, as in `2 of 3 reserved, 1 NoRoom on node-b`.
fn waits(status: &OrderStatus, pending: &[&TicketObject]) -> String {
    let condition = |kind: &str| status.conditions.iter().find(|condition| condition.type_ == kind);
    let Some(ready) = condition("Ready") else { return "no controller has processed it yet".into() };
    if let Some(wrong) =
        ["Stalled", "Progressing"].iter().filter_map(|kind| condition(kind)).find(|condition| {
            condition.status == "True" && condition.type_ == "Stalled" || condition.reason == "Paused"
        })
    {
        return format!("{}: {}", wrong.reason, wrong.message);
    }
    if ready.status == "True" {
        return String::new();
    }
    let mut by_reason: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for ticket in pending {
        let status = ticket.status().unwrap_or_default();
        let reason = status.reason.unwrap_or_else(|| "new".into());
        by_reason.entry(reason).or_default().push(status.node_name.unwrap_or_default());
    }
    if by_reason.is_empty() {
        return format!("{}: {}", ready.reason, ready.message);
    }
    let (available, desired) =
        (status.available_replicas.unwrap_or_default(), status.desired_replicas.unwrap_or_default());
    let groups = by_reason.iter().map(|(reason, nodes)| {
        let named: Vec<&str> = nodes.iter().map(String::as_str).filter(|node| !node.is_empty()).collect();
        match named.is_empty() {
            true => format!("{} {reason}", nodes.len()),
            false => format!("{} {reason} on {}", nodes.len(), some(&named)),
        }
    });
    let groups: Vec<String> = groups.collect();
    format!("{available} of {desired} reserved, {}", groups.join(", "))
}

fn strategy(spec: &OrderSpec) -> String {
    let strategy = match &spec.strategy {
        Strategy::OneTime => "OneTime",
        Strategy::Scheduled(_) => "Scheduled",
        Strategy::Recurring(_) => "Recurring",
    };
    let refresh = match spec.refresh {
        Refresh::Always => "Always",
        Refresh::OnClaim => "OnClaim",
        Refresh::Never => "Never",
    };
    format!("{strategy}/{refresh}")
}

fn text(views: &[OrderView], columns: Columns, now: Timestamp) -> Shown {
    let Columns { namespace, wide } = columns;
    let mut head = vec!["NAME", "MODE", "DESIRED", "READY", "CLAIMED", "NEXT", "AGE"];
    if wide {
        head.extend(["STRATEGY", "REQUESTS"]);
    }
    head.push("WAITS FOR");
    if namespace {
        head.insert(0, "NAMESPACE");
    }
    let row = |view: &OrderView| {
        let OrderStatus { mode, desired_replicas, available_replicas, claimed_replicas, .. } = &view.status;
        let number = |number: &Option<u32>| number.map(|number| number.to_string()).unwrap_or_default();
        let next = view.status.next_schedule_time.as_ref().map(|next| next.0);
        let mut row = vec![
            view.name.clone(),
            mode.map(|mode| mode.as_str().to_owned()).unwrap_or_default(),
            number(desired_replicas),
            number(available_replicas),
            number(claimed_replicas),
            next.map(|next| format!("in {}", age(now, next))).unwrap_or_default(),
            age(view.created, now),
        ];
        if wide {
            row.extend([view.strategy.clone(), view.requests.clone()]);
        }
        row.push(view.waits.clone());
        if namespace {
            row.insert(0, view.namespace.clone());
        }
        row
    };
    table(&head, &views.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use serde_json::Value;

    fn shown(orders: &[Value], tickets: &[Value], all_namespaces: bool, wide: bool) -> String {
        let orders: Vec<OrderObject> =
            orders.iter().map(|order| serde_json::from_value(order.clone()).expect("an Order")).collect();
        let tickets: Vec<TicketObject> =
            tickets.iter().map(|ticket| serde_json::from_value(ticket.clone()).expect("a ticket")).collect();
        let views = views(&orders, &tickets);
        text(&views, Columns { namespace: all_namespaces, wide }, testing::now()).as_str().to_owned()
    }

    #[test]
    fn as_kubectl_prints_it_and_what_is_waited_for() {
        let (orders, tickets) = (testing::orders(), testing::tickets());
        insta::assert_snapshot!(shown(&orders, &tickets, false, false));
        insta::assert_snapshot!(shown(&orders, &tickets, true, true));
        insta::assert_snapshot!(shown(&orders[..1], &[], false, false));
    }
}
