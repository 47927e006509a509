//! Checks reservations on the commits. A ticket has at most one guardian, and its capacity is handed over to one pod in
//! protected steps. The pod is not changed afterwards. The checks are independent of the controller's code.

mod claims;
mod describe;
mod lifted_guarantees;

pub use describe::{describe_pod, describe_ticket};
pub use lifted_guarantees::LiftedGuarantees;

use super::history::Violation;
use super::world::has_gate;
use super::world::reservation::{PRIORITY, is_guardian, place_of};
use crate::store::{Author, Change, Key};
use jiff::{SignedDuration, Timestamp};
use rollcall_api::names;
use rollcall_core::reservation::names as known;
use serde_json::Value;
use std::collections::BTreeMap;

/// A ticket that has been unclaimed for this long was available to every pod that asked for it.
const AVAILABLE_AFTER: SignedDuration = SignedDuration::from_secs(2);
/// A ticket and its guardian are deleted together. If the deletion of the ticket fails, it is retried within this time.
const DELETED_AGAIN: SignedDuration = SignedDuration::from_secs(10);

/// Tickets, guardians and pods by uid, as committed so far.
#[derive(Default)]
pub struct HandOverOrder {
    pub lifted_guarantees: LiftedGuarantees,
    tickets: BTreeMap<String, Ticket>,
    /// The existing guardians.
    guardians: BTreeMap<String, Guardian>,
    pods: BTreeMap<String, HandOverPod>,
    /// Deletions of guardians without a reason so far. Their tickets must be deleted at the same time.
    unexplained: Vec<(Timestamp, String, String)>,
}

struct Ticket {
    key: Key,
    there: bool,
    /// The uid of its Order and the place in it; for a ticket without an Order, its own uid.
    slot: (String, String),
    /// The only node that the ticket can be on, if any.
    pinned: Option<String>,
    cpu: i64,
    phase: String,
    node: Option<String>,
    claimer: Option<String>,
    expires: Option<Timestamp>,
    reserved_since: Option<Timestamp>,
    /// Whether a pod has claimed the ticket and is not known to run yet.
    is_handed_over: bool,
    /// Whether a guardian of the ticket has run.
    has_run: bool,
    /// Whether a controller has deleted the guardian for the claiming pod.
    freed: bool,
    /// All pods that claimed the ticket, with its node at that time.
    claims: Vec<(String, String)>,
}

struct Guardian {
    name: String,
    ticket: String,
    node: Option<String>,
    over: bool,
}

struct HandOverPod {
    there: bool,
    gates: usize,
    cpu: i64,
    /// The only node of a DaemonSet pod.
    own_node: Option<String>,
    nominated: Option<String>,
    node: Option<String>,
    /// Whether a foreign actor removed its gate.
    taken: bool,
}

fn broken(detail: String) -> Violation {
    Violation { invariant: "S4", detail }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

fn owner(object: &Value) -> Option<&Value> {
    object["metadata"]["ownerReferences"].as_array()?.first()
}

/// An amount of CPU in millicores.
fn milli_cpu(amount: &Value) -> i64 {
    let amount = amount.as_str().unwrap_or("0");
    match amount.strip_suffix('m') {
        Some(milli) => milli.parse().unwrap_or_default(),
        None => amount.parse::<i64>().unwrap_or_default() * 1000,
    }
}

fn cpu_of_pod(pod: &Value) -> i64 {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    containers.map(|container| milli_cpu(&container["resources"]["requests"]["cpu"])).sum()
}

/// The only node of a DaemonSet pod.
fn own_node(pod: &Value) -> Option<&str> {
    let required = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    required["nodeSelectorTerms"][0]["matchFields"][0]["values"][0].as_str()
}

fn gates(pod: &Value) -> usize {
    pod["spec"]["schedulingGates"].as_array().map_or(0, Vec::len)
}

impl HandOverOrder {
    /// Records a change of a ticket by any author.
    pub fn ticket(&mut self, change: &Change) {
        let (object, status) = (&change.object, &change.object["status"]);
        let uid = object.uid().to_owned();
        let slot = match owner(object) {
            Some(order) => (text(&order["uid"]).unwrap_or_default(), place_of(object).to_owned()),
            None => (uid.clone(), String::new()),
        };
        let ticket = self.tickets.entry(uid).or_insert_with(|| Ticket {
            key: change.key.clone(),
            there: true,
            slot,
            pinned: text(&object["spec"]["nodeName"]),
            cpu: milli_cpu(&object["spec"]["resources"]["requests"]["cpu"]),
            phase: String::new(),
            node: None,
            claimer: None,
            expires: None,
            reserved_since: None,
            is_handed_over: false,
            has_run: false,
            freed: false,
            claims: Vec::new(),
        });
        ticket.there = !change.deleted;
        ticket.phase = text(&status["phase"]).unwrap_or_else(|| "Pending".to_owned());
        ticket.node = text(&status["nodeName"]);
        ticket.claimer = text(&status["podUID"]).filter(|_| ticket.phase == "Claimed");
        ticket.freed &= ticket.claimer.is_some();
        ticket.is_handed_over = ticket.claimer.is_some() && status["guardianPod"].is_string();
        ticket.expires = status["expirationTime"].as_str().and_then(|time| time.parse().ok());
        ticket.reserved_since = match ticket.phase == "Reserved" {
            true => ticket.reserved_since.or(Some(change.at)),
            false => None,
        };
        if let (Some(pod), Some(node)) = (ticket.claimer.clone(), ticket.node.clone()) {
            ticket.claims.push((pod, node));
            ticket.claims.dedup();
        }
    }

    /// Records and checks a change of a pod by any author.
    pub fn pod(&mut self, change: &Change) -> Vec<Violation> {
        let (pod, uid, name) = (&change.object, change.object.uid().to_owned(), &change.key.name);
        let mut found = self.unexplained_before(change.at);
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        // All pods of this world have the same priority, so none may be preempted.
        if conditions.into_iter().any(|is| is["reason"] == "PreemptionByScheduler") {
            found.push(broken(format!("{name} was preempted")));
        }
        let node = text(&pod["spec"]["nodeName"]);
        let nominated = text(&pod["status"]["nominatedNodeName"]);
        if !is_guardian(pod) {
            let (there, gates, cpu) = (!change.deleted, gates(pod), cpu_of_pod(pod));
            let own_node = own_node(pod).map(str::to_owned);
            let had_gate = change.before.as_ref().is_some_and(|before| has_gate(before, names::TICKET_GATE));
            let taken = self.pods.get(&uid).is_some_and(|known| known.taken)
                || change.author == Author::User && had_gate && !has_gate(pod, names::TICKET_GATE);
            self.pods.insert(uid, HandOverPod { there, gates, cpu, own_node, nominated, node, taken });
            return found;
        }
        if change.deleted {
            self.guardians.remove(&uid);
            return found;
        }
        if nominated.is_some() {
            found.push(broken(format!("{name} is a guardian and was nominated, which preempts other pods")));
        }
        let ticket = owner(pod).and_then(|owner| text(&owner["uid"])).unwrap_or_default();
        let over = matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded"));
        if let Some(ticket) = self.tickets.get_mut(&ticket) {
            ticket.has_run |= pod["status"]["phase"] == "Running";
            if node.is_some() && ticket.pinned.is_some() && node != ticket.pinned {
                found.push(broken(format!("{name} is not on the node of its ticket")));
            }
        }
        self.guardians.insert(uid.clone(), Guardian { name: name.to_string(), ticket, node, over });
        found.extend(self.second_in_slot(&uid));
        found
    }

    /// Reports two guardians in one place, because one of them reserves capacity for no ticket. Finished guardians and
    /// those without a ticket do not count: they are about to be deleted.
    fn second_in_slot(&self, uid: &str) -> Option<Violation> {
        let slot = |guardian: &Guardian| {
            let ticket = self.tickets.get(&guardian.ticket)?;
            let late =
                ticket.claimer.is_some() && (self.lifted_guarantees.late || self.lifted_guarantees.two_act);
            (ticket.there && !guardian.over && !late).then_some(&ticket.slot)
        };
        let one = self.guardians.get(uid)?;
        let place = slot(one)?;
        let mut others = self.guardians.iter().filter(|(other, _)| *other != uid);
        let (_, other) = others.find(|(_, other)| slot(other) == Some(place))?;
        Some(broken(format!("guardians {} and {} are in one place", one.name, other.name)))
    }

    fn unexplained_before(&mut self, now: Timestamp) -> Vec<Violation> {
        let mut found = Vec::new();
        let LiftedGuarantees { tickets_absent, writes_fail, .. } = self.lifted_guarantees;
        let patience = if writes_fail { DELETED_AGAIN } else { SignedDuration::ZERO };
        self.unexplained.retain(|(at, name, ticket)| {
            let gone = self.tickets.get(ticket).is_none_or(|ticket| !ticket.there);
            // The ticket was needed again before it could be deleted.
            let guarded = writes_fail && self.guardians.values().any(|other| other.ticket == *ticket);
            let waits = *at + patience >= now;
            if !gone && !guarded && !waits && !tickets_absent {
                found.push(broken(format!("{name} was deleted, but no pod takes its capacity")));
            }
            !gone && !guarded && waits
        });
        found
    }

    /// Checks the creation or deletion of a pod by a controller.
    pub fn made_or_deleted_pod(&mut self, change: &Change) -> Vec<Violation> {
        let (pod, name) = (&change.object, change.key.name.to_string());
        let wrong = |invariant, what: &str| vec![Violation { invariant, detail: format!("{name} {what}") }];
        if !is_guardian(pod) {
            return wrong("S6", "was created or deleted although it is not a guardian");
        }
        let uid = owner(pod).and_then(|owner| text(&owner["uid"])).unwrap_or_default();
        let Some(ticket) = self.tickets.get(&uid) else {
            return wrong("S7", "is the guardian of an unknown ticket");
        };
        if change.object.is_terminating() || change.deleted {
            // A deletion can take two commits: first the deletion timestamp, then the removal.
            let said = change.before.as_ref().is_some_and(|before| before.is_terminating());
            if !said && !self.may_go(pod.uid(), ticket, change.at) {
                self.unexplained.push((change.at, name, uid.clone()));
            }
            if let Some(ticket) = self.tickets.get_mut(&uid) {
                ticket.freed = ticket.claimer.is_some();
            }
            return Vec::new();
        }
        let spec = &pod["spec"];
        if name != known::guardian_name(&ticket.key.name) || spec["terminationGracePeriodSeconds"] != 0 {
            return wrong("S4", "does not have the name or grace period of a guardian");
        }
        if spec["priority"] != PRIORITY || spec["preemptionPolicy"] != "Never" {
            return wrong("S4", "has a different priority than its ticket, or may preempt other pods");
        }
        if cpu_of_pod(pod) != ticket.cpu {
            return wrong("S4", "has different requests than its ticket");
        }
        let keeps = ticket.there && matches!(&*ticket.phase, "Pending" | "Reserved");
        if !keeps && !self.lifted_guarantees.late && !self.lifted_guarantees.two_act && ticket.there {
            return wrong("S4", "was created for a ticket that reserves no capacity");
        }
        Vec::new()
    }

    /// Whether a guardian may be deleted now.
    fn may_go(&self, guardian: &str, ticket: &Ticket, now: Timestamp) -> bool {
        let Some(guardian) = self.guardians.get(guardian) else { return false };
        let expired = ticket.phase == "Expired"
            || ticket.expires.is_some_and(|end| end <= now)
            || ticket.expires.is_some() && self.lifted_guarantees.clocks_are_wrong;
        let handed_over = ticket.claimer.as_ref().is_some_and(|claimer| {
            let pod = self.pods.get(claimer).filter(|pod| pod.there);
            // Each of two controllers may have given the pod a ticket, and nominated it for another node.
            pod.is_none_or(|pod| {
                pod.nominated == guardian.node || pod.node.is_some() || self.lifted_guarantees.two_act
            })
        });
        !ticket.there || guardian.over || expired || handed_over
    }
}

/// Checks a write of a controller to an Order: only the status may change.
pub fn wrote_order(change: &Change) -> Vec<Violation> {
    let same = |before: &Value| before["spec"] == change.object["spec"];
    match change.before.as_ref().is_some_and(|before| !change.deleted && same(before)) {
        true => Vec::new(),
        false => {
            vec![Violation {
                invariant: "S6",
                detail: format!("Order {} was changed beyond its status", change.key.name),
            }]
        }
    }
}

/// Checks a write of a controller to a PriorityClass: it may only create its own classes, which never preempt.
pub fn made_class(change: &Change) -> Vec<Violation> {
    let class = &change.object;
    let ours = *change.key.name == *known::guardian_class(class["value"].as_i64().unwrap_or_default() as i32);
    match change.before.is_none() && ours && class["preemptionPolicy"] == "Never" {
        true => Vec::new(),
        false => {
            vec![Violation {
                invariant: "S6",
                detail: format!(
                    "PriorityClass {} was changed, or is not a class of guardians",
                    change.key.name
                ),
            }]
        }
    }
}
