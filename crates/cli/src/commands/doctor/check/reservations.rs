//! Reservations: whether this version of Kubernetes protects a hand-over, and leftovers that no controller removes.

use super::held::{Gate, held_by};
use super::{Case, number, some};
use crate::commands::doctor::fetched::{DEFINITIONS_OF_RESERVATIONS, Fetched};
use crate::commands::doctor::finding::{Check, DoctorFinding};
use rollcall_api::names;
use rollcall_api::reservation::{PriorityClassObject, TicketObject};
use rollcall_api::watch::PodObject;
use rollcall_core::Uid;
use rollcall_core::reservation::names::guardian_class;
use std::collections::{BTreeMap, BTreeSet};

/// First minor version whose scheduler honours the nomination of a gated pod.
const NOMINATIONS: u32 = 35;
/// Limit of names in one command; the next run of `doctor` prints the others.
const AT_ONCE: usize = 50;

pub fn check(case: &Case<'_>) -> Vec<DoctorFinding> {
    let defined = DEFINITIONS_OF_RESERVATIONS.iter().all(|id| case.seen.has(id));
    let mut findings = Vec::new();
    if let Some(version) = case.seen.version.value().filter(|version| version.minor < NOMINATIONS && defined)
    {
        findings.push(Check::Reservations.note(format!(
            "Kubernetes {} does not honour the nomination of a gated pod (1.{NOMINATIONS} does): another pod may take reserved capacity during a hand-over",
            version.text
        )));
    }
    findings
}

/// Guardians without a ticket, PriorityClasses without the CRDs, and pods whose gate no controller removes.
pub fn leftovers(case: &Case<'_>) -> Vec<DoctorFinding> {
    let missing: Vec<&str> = DEFINITIONS_OF_RESERVATIONS
        .into_iter()
        .filter(|id| matches!(case.seen.object(id), Fetched::Absent))
        .collect();
    let gone = (!missing.is_empty()).then(|| {
        let why = "a CRD of reservations is missing".to_owned();
        (why, case.command_line.restore(&case.installed, &missing))
    });
    let gate =
        Gate { name: names::TICKET_GATE, feature: "reserve capacity", last: true, missing: gone.clone() };
    let mut findings = held_by(case, &gate);
    findings.extend(guardians(case));
    findings.extend(classes(case).filter(|_| gone.is_some()));
    findings
}

/// Guardians without a ticket, which still occupy capacity.
fn guardians(case: &Case<'_>) -> Vec<DoctorFinding> {
    let tickets: BTreeSet<Uid> = match &case.seen.tickets {
        Fetched::Found(tickets) => {
            tickets.iter().map(|ticket: &TicketObject| ticket.metadata.uid()).collect()
        }
        Fetched::Absent => BTreeSet::new(),
        Fetched::Forbidden(why) => return vec![Check::Leftovers.unknown("guardians without a ticket", why)],
    };
    let left = |pod: &&PodObject| {
        let pod = pod.facts();
        !pod.terminating && pod.owner.is_none_or(|owner| !tickets.contains(&owner.uid))
    };
    let mut found: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for pod in case.seen.guardians.value().into_iter().flatten().filter(left) {
        found.entry(&pod.metadata.namespace).or_default().push(pod.metadata.name.clone());
    }
    let one = |(namespace, pods): (&&str, &Vec<String>)| {
        let count = number(pods.len(), "guardian");
        let text = format!(
            "{count} in namespace {namespace} without a ticket, still occupying capacity: {}",
            some(pods)
        );
        let these = pods.iter().take(AT_ONCE).map(String::as_str).collect::<Vec<_>>().join(" ");
        Check::Leftovers
            .problem(text)
            .fix(case.command_line.kubectl(format!("delete pods -n {namespace} {these}")))
    };
    found.iter().map(one).collect()
}

fn classes(case: &Case<'_>) -> Option<DoctorFinding> {
    let ours = |class: &PriorityClassObject| {
        let class = class.facts();
        (*class.name == *guardian_class(class.value)).then(|| class.name.to_string())
    };
    let left: Vec<String> = case.seen.classes.value().into_iter().flatten().filter_map(ours).collect();
    (!left.is_empty()).then(|| {
        let count = if left.len() == 1 {
            "1 PriorityClass".to_owned()
        } else {
            format!("{} PriorityClasses", left.len())
        };
        let text =
            format!("{count} of guardians, although a CRD of reservations is missing: {}", some(&left));
        let these = left.iter().take(AT_ONCE).map(String::as_str).collect::<Vec<_>>().join(" ");
        Check::Leftovers.note(text).fix(case.command_line.kubectl(format!("delete priorityclasses {these}")))
    })
}
