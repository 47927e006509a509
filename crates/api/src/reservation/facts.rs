//! Converts `Order`, `Ticket` and `PriorityClass` objects into the facts that decisions use.

use super::spec::{self, OrderSpec, TicketSpec};
use super::status::{OrderStatus, TicketStatus};
use super::words::{CleanupPolicy, Phase as Word, RefreshPolicy, StrategyType};
use super::{parse_order, parse_ticket};
use crate::selector::selector_facts;
use crate::time::MilliTime;
use crate::watch::{LabelText, Meta, placement_of};
use jiff::SignedDuration;
use jiff::tz::TimeZone;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition as ConditionObject;
use rollcall_core::hash::fnv1a64;
use rollcall_core::reservation::names;
use rollcall_core::reservation::spec as facts;
use rollcall_core::reservation::timetable::Timetable;
use rollcall_core::schedule::Schedule;
use rollcall_core::{Timestamp, Uid};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;

/// Maximum number of labels kept per ticket. Pods can request a ticket by its labels.
const MOST_LABELS: usize = 64;

#[derive(Clone, Debug, Deserialize)]
pub struct OrderObject {
    pub metadata: Meta,
    #[serde(default)]
    spec: Value,
    #[serde(default)]
    status: Option<OrderStatus>,
}

impl OrderObject {
    pub fn status(&self) -> Option<OrderStatus> {
        self.status.clone()
    }

    pub fn facts(&self) -> facts::Order {
        let spec = parse_order(&self.spec).map_err(|wrong| wrong.to_string());
        facts::Order {
            uid: self.metadata.uid(),
            namespace: self.metadata.namespace.as_str().into(),
            name: self.metadata.name.as_str().into(),
            version: self.metadata.version(),
            generation: self.metadata.generation.unwrap_or_default(),
            created: self.metadata.created(),
            terminating: self.metadata.deletion_timestamp.is_some(),
            last_tick: self.status.as_ref().and_then(|status| Some(status.last_schedule_time.as_ref()?.0)),
            spec: spec.and_then(|spec| order(&spec)).map(Arc::new).map_err(Into::into),
        }
    }
}

fn order(spec: &OrderSpec) -> Result<facts::OrderSpec, String> {
    let metadata = serde_json::to_string(&spec.template.metadata).map_err(|error| error.to_string())?;
    let ticket = ticket(&spec.template.spec)?;
    let hash = format!("{:016x}", fnv1a64(format!("{metadata}{}", ticket.text).as_bytes()));
    Ok(facts::OrderSpec {
        paused: spec.paused,
        places: match spec.daemon_set {
            true => facts::Places::EachNode,
            false => facts::Places::Number(spec.replicas),
        },
        strategy: strategy(&spec.strategy)?,
        refresh: match spec.strategy.refresh_policy {
            RefreshPolicy::Always => facts::Refresh::Always,
            RefreshPolicy::OnClaim => facts::Refresh::OnClaim,
            RefreshPolicy::Never => facts::Refresh::Never,
        },
        selector: spec.selector.as_ref().map(selector_facts),
        min_ready: SignedDuration::from_secs(i64::from(spec.min_ready_seconds)),
        template: facts::Template { spec: Arc::new(ticket), hash: hash.into(), metadata: metadata.into() },
    })
}

fn strategy(strategy: &spec::Strategy) -> Result<facts::Strategy, String> {
    let timetable = || {
        let text = strategy.schedule.as_deref().unwrap_or_default();
        let schedule =
            Schedule::parse(text).map_err(|invalid| format!("spec.strategy.schedule: {invalid}"))?;
        let zone =
            TimeZone::get(&strategy.time_zone).map_err(|error| format!("spec.strategy.timeZone: {error}"))?;
        Ok::<_, String>(Timetable { schedule, zone })
    };
    Ok(match strategy.type_ {
        StrategyType::OneTime => facts::Strategy::OneTime,
        StrategyType::Scheduled => facts::Strategy::Scheduled(timetable()?),
        StrategyType::Recurring => facts::Strategy::Recurring(timetable()?),
    })
}

fn ticket(spec: &TicketSpec) -> Result<facts::TicketSpec, String> {
    // The node name differs between the tickets of one Order, so it is not part of the template hash.
    let elsewhere = TicketSpec { node_name: None, ..spec.clone() };
    let value = serde_json::to_value(&elsewhere).map_err(|error| error.to_string())?;
    let resources = &spec.resources;
    let mut requests: facts::Resources =
        resources.requests.iter().map(|(name, amount)| (Arc::from(name.as_str()), amount.0)).collect();
    // As for pods: a limit without a request is also the request.
    for (name, amount) in &resources.limits {
        requests.entry(name.as_str().into()).or_insert(amount.0);
    }
    Ok(facts::TicketSpec {
        ttl: SignedDuration::from_secs(i64::from(spec.lifecycle.ttl_seconds_after_finished)),
        retain: spec.lifecycle.cleanup_policy == CleanupPolicy::Retain,
        start: spec.start_time.map(MilliTime::get),
        duration: spec
            .duration
            .map(|duration| SignedDuration::try_from(duration.get()).unwrap_or(SignedDuration::MAX)),
        priority_class: spec.priority_class_name.as_deref().map(Into::into),
        requests,
        placement: placement_of(&value),
        text: value.to_string().into(),
    })
}

#[derive(Clone, Debug, Deserialize)]
pub struct TicketObject {
    pub metadata: Meta,
    #[serde(default)]
    spec: Value,
    #[serde(default)]
    status: Option<TicketStatus>,
}

impl TicketObject {
    pub fn status(&self) -> Option<TicketStatus> {
        self.status.clone()
    }

    pub fn facts(&self) -> facts::Ticket {
        let spec = parse_ticket(&self.spec).map_err(|wrong| wrong.to_string());
        let node = spec.as_ref().ok().and_then(|spec| spec.node_name.as_deref()).map(Into::into);
        let label = |key: &str| self.metadata.labels.as_ref().and_then(|labels| labels.get(key));
        facts::Ticket {
            uid: self.metadata.uid(),
            namespace: self.metadata.namespace.as_str().into(),
            name: self.metadata.name.as_str().into(),
            version: self.metadata.version(),
            generation: self.metadata.generation.unwrap_or_default(),
            created: self.metadata.created(),
            terminating: self.metadata.deletion_timestamp.is_some(),
            labels: self.metadata.labels.iter().flat_map(LabelText::pairs).take(MOST_LABELS).collect(),
            order: self.order(),
            index: label(names::INDEX).and_then(|index| index.parse().ok()),
            template: label(names::TEMPLATE_HASH).map(Into::into),
            tick: self.metadata.annotation(names::TICK).and_then(|tick| tick.parse().ok()),
            node,
            spec: spec.and_then(|spec| ticket(&spec)).map(Arc::new).map_err(Into::into),
            record: self.status.as_ref().map(record).unwrap_or_default(),
        }
    }

    /// The Order that controls the ticket.
    pub fn order(&self) -> Option<Uid> {
        let owners = self.metadata.owner_references.as_deref().unwrap_or_default();
        let ours = owners.iter().find(|owner| {
            owner.controller == Some(true)
                && owner.kind == crate::names::ORDER_KIND
                && owner.api_version == crate::names::KORDER_API_VERSION
        });
        ours.map(|owner| Uid::new(&owner.uid))
    }
}

fn record(status: &TicketStatus) -> facts::TicketRecord {
    let time = |time: Option<MilliTime>| time.map(MilliTime::get);
    let text = |text: &Option<String>| Arc::from(text.as_deref().unwrap_or_default());
    let name = |name: &Option<String>| name.as_deref().map(Arc::from);
    let condition = |kind: &str| {
        let found = status.conditions.iter().find(|condition| condition.type_ == kind);
        found
            .map(|found| facts::TimedCondition { holds: found.status == "True", since: since(found) })
            .unwrap_or_default()
    };
    let claim = status.pod_uid.as_deref().map(|uid| facts::TicketClaim {
        pod: Uid::new(uid),
        name: text(&status.pod_name),
        at: time(status.claimed_time).unwrap_or_default(),
        utilization: status.utilization_rate.unwrap_or_default(),
    });
    facts::TicketRecord {
        phase: status.phase.map(phase),
        observed_generation: status.observed_generation.unwrap_or_default(),
        activated: time(status.activation_time),
        expires: time(status.expiration_time),
        node: name(&status.node_name),
        guardian: name(&status.guardian_pod),
        claim,
        reason: text(&status.reason),
        message: text(&status.message),
        ready: condition("Ready"),
        guardian_ready: condition("GuardianReady"),
        expiring: condition("Expiring"),
    }
}

fn since(condition: &ConditionObject) -> Option<Timestamp> {
    Some(condition.last_transition_time.0)
}

fn phase(word: Word) -> facts::TicketPhase {
    match word {
        Word::Pending => facts::TicketPhase::Pending,
        Word::Reserved => facts::TicketPhase::Reserved,
        Word::Claimed => facts::TicketPhase::Claimed,
        Word::Expired => facts::TicketPhase::Expired,
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PriorityClassObject {
    pub metadata: Meta,
    #[serde(default)]
    value: i32,
    #[serde(default)]
    global_default: bool,
    #[serde(default)]
    preemption_policy: Option<String>,
}

impl PriorityClassObject {
    pub fn facts(&self) -> facts::PriorityClass {
        facts::PriorityClass {
            uid: self.metadata.uid(),
            name: self.metadata.name.as_str().into(),
            version: self.metadata.version(),
            value: self.value,
            global_default: self.global_default,
            never_preempts: self.preemption_policy.as_deref() == Some("Never"),
        }
    }
}
