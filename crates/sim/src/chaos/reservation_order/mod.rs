//! Whose room was whose, from what was committed: at most one guardian in a place, handed over in steps that nobody gets between,
//! to one pod, which is left alone afterwards. Nothing here is computed the way the controller does it.

mod claims;
mod describe;
mod excuses;

pub use describe::{describe_pod, describe_ticket};
pub use excuses::Excuses;

use super::history::Violation;
use super::world::has_gate;
use super::world::reservation::{PRIORITY, is_guardian, place_of};
use crate::store::{Author, Change, Key};
use jiff::{SignedDuration, Timestamp};
use rollcall_api::names;
use rollcall_core::reservation::names as known;
use serde_json::Value;
use std::collections::BTreeMap;

/// A ticket that nobody has claimed for this long was there for whoever asked for it.
const SURELY_FREE: SignedDuration = SignedDuration::from_secs(2);
/// A ticket and its guardian are deleted together. If the deletion of the ticket fails, it is repeated within this time.
const DELETED_AGAIN: SignedDuration = SignedDuration::from_secs(10);

/// Tickets, guardians and pods, as they were committed so far; all by uid.
#[derive(Default)]
pub struct ReservationOrder {
    pub excuses: Excuses,
    tickets: BTreeMap<String, Ticket>,
    /// Those that are there.
    guardians: BTreeMap<String, Guardian>,
    pods: BTreeMap<String, Pod>,
    /// Guardians that went although nothing said so: their tickets have to go at the same time.
    unexplained: Vec<(Timestamp, String, String)>,
}

struct Ticket {
    key: Key,
    there: bool,
    /// Of an Order, and where; or alone.
    slot: (String, String),
    /// The only node it can be on.
    pinned: Option<String>,
    cpu: i64,
    phase: String,
    node: Option<String>,
    claimer: Option<String>,
    expires: Option<Timestamp>,
    reserved_since: Option<Timestamp>,
    /// A pod has claimed it, and is not known to run in its room.
    is_handed_over: bool,
    /// A guardian of it has run.
    has_run: bool,
    /// Its guardian was deleted by our controllers, for the pod that has claimed it.
    freed: bool,
    /// Every pod that it was claimed by, and where its room was then.
    claims: Vec<(String, String)>,
}

struct Guardian {
    name: String,
    ticket: String,
    node: Option<String>,
    over: bool,
}

struct Pod {
    there: bool,
    gates: usize,
    cpu: i64,
    /// The node of a pod of a DaemonSet.
    own_node: Option<String>,
    nominated: Option<String>,
    node: Option<String>,
    /// Somebody else took its gate away.
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

/// Thousandths of a CPU.
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

/// The node of a pod of a DaemonSet.
fn own_node(pod: &Value) -> Option<&str> {
    let required = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    required["nodeSelectorTerms"][0]["matchFields"][0]["values"][0].as_str()
}

fn gates(pod: &Value) -> usize {
    pod["spec"]["schedulingGates"].as_array().map_or(0, Vec::len)
}

impl ReservationOrder {
    /// A ticket was committed, by whomever.
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

    /// A pod was committed, by whomever.
    pub fn pod(&mut self, change: &Change) -> Vec<Violation> {
        let (pod, uid, name) = (&change.object, change.object.uid().to_owned(), &change.key.name);
        let mut found = self.unexplained_before(change.at);
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        // Everybody has the same priority here.
        if conditions.into_iter().any(|is| is["reason"] == "PreemptionByScheduler") {
            found.push(broken(format!("{name} was evicted")));
        }
        let node = text(&pod["spec"]["nodeName"]);
        let nominated = text(&pod["status"]["nominatedNodeName"]);
        if !is_guardian(pod) {
            let (there, gates, cpu) = (!change.deleted, gates(pod), cpu_of_pod(pod));
            let own_node = own_node(pod).map(str::to_owned);
            let had_gate = change.before.as_ref().is_some_and(|before| has_gate(before, names::TICKET_GATE));
            let taken = self.pods.get(&uid).is_some_and(|known| known.taken)
                || change.author == Author::User && had_gate && !has_gate(pod, names::TICKET_GATE);
            self.pods.insert(uid, Pod { there, gates, cpu, own_node, nominated, node, taken });
            return found;
        }
        if change.deleted {
            self.guardians.remove(&uid);
            return found;
        }
        if nominated.is_some() {
            found.push(broken(format!("room is made for {name}")));
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

    /// Of two guardians in one place, one keeps room for nobody. Those that are over keep none, nor do those without a ticket:
    /// they are about to go.
    fn second_in_slot(&self, uid: &str) -> Option<Violation> {
        let slot = |guardian: &Guardian| {
            let ticket = self.tickets.get(&guardian.ticket)?;
            let late = ticket.claimer.is_some() && (self.excuses.late || self.excuses.two_act);
            (ticket.there && !guardian.over && !late).then_some(&ticket.slot)
        };
        let one = self.guardians.get(uid)?;
        let place = slot(one)?;
        let mut others = self.guardians.iter().filter(|(other, _)| *other != uid);
        let (_, other) = others.find(|(_, other)| slot(other) == Some(place))?;
        Some(broken(format!("{} and {} are in one place", one.name, other.name)))
    }

    fn unexplained_before(&mut self, now: Timestamp) -> Vec<Violation> {
        let mut found = Vec::new();
        let Excuses { tickets_absent, writes_fail, .. } = self.excuses;
        let patience = if writes_fail { DELETED_AGAIN } else { SignedDuration::ZERO };
        self.unexplained.retain(|(at, name, ticket)| {
            let gone = self.tickets.get(ticket).is_none_or(|ticket| !ticket.there);
            // The ticket is wanted again before it could be deleted.
            let guarded = writes_fail && self.guardians.values().any(|other| other.ticket == *ticket);
            let waits = *at + patience >= now;
            if !gone && !guarded && !waits && !tickets_absent {
                found.push(broken(format!("{name} was deleted, and no pod takes its capacity")));
            }
            !gone && !guarded && waits
        });
        found
    }

    /// One of our controllers has made or deleted a pod.
    pub fn made_or_deleted_pod(&mut self, change: &Change) -> Vec<Violation> {
        let (pod, name) = (&change.object, change.key.name.to_string());
        let wrong = |invariant, what: &str| vec![Violation { invariant, detail: format!("{name} {what}") }];
        if !is_guardian(pod) {
            return wrong("S6", "was made or deleted, and is no guardian");
        }
        let uid = owner(pod).and_then(|owner| text(&owner["uid"])).unwrap_or_default();
        let Some(ticket) = self.tickets.get(&uid) else {
            return wrong("S7", "is the guardian of a ticket that there never was");
        };
        if change.object.is_terminating() || change.deleted {
            // It is said that it goes, and then it is gone.
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
            return wrong("S4", "is not what a guardian is like");
        }
        if spec["priority"] != PRIORITY || spec["preemptionPolicy"] != "Never" {
            return wrong("S4", "has another priority than those it keeps the room for, or evicts others");
        }
        if cpu_of_pod(pod) != ticket.cpu {
            return wrong("S4", "takes another room than its ticket keeps");
        }
        let keeps = ticket.there && matches!(&*ticket.phase, "Pending" | "Reserved");
        if !keeps && !self.excuses.late && !self.excuses.two_act && ticket.there {
            return wrong("S4", "was made for a ticket that keeps no room");
        }
        Vec::new()
    }

    /// Whether a guardian may be deleted now.
    fn may_go(&self, guardian: &str, ticket: &Ticket, now: Timestamp) -> bool {
        let Some(guardian) = self.guardians.get(guardian) else { return false };
        let expired = ticket.phase == "Expired"
            || ticket.expires.is_some_and(|end| end <= now)
            || ticket.expires.is_some() && self.excuses.clocks_are_wrong;
        let handed_over = ticket.claimer.as_ref().is_some_and(|claimer| {
            let pod = self.pods.get(claimer).filter(|pod| pod.there);
            // Each of two may have given the pod a ticket, and nominated it for another node.
            pod.is_none_or(|pod| pod.nominated == guardian.node || pod.node.is_some() || self.excuses.two_act)
        });
        !ticket.there || guardian.over || expired || handed_over
    }
}

/// One of our controllers has written an Order: it may say how it is.
pub fn wrote_order(change: &Change) -> Vec<Violation> {
    let same = |before: &Value| before["spec"] == change.object["spec"];
    match change.before.as_ref().is_some_and(|before| !change.deleted && same(before)) {
        true => Vec::new(),
        false => {
            vec![Violation { invariant: "S6", detail: format!("the Order {} was changed", change.key.name) }]
        }
    }
}

/// One of our controllers has made a class: of its value, and for those that evict nobody.
pub fn made_class(change: &Change) -> Vec<Violation> {
    let class = &change.object;
    let ours = *change.key.name == *known::guardian_class(class["value"].as_i64().unwrap_or_default() as i32);
    match change.before.is_none() && ours && class["preemptionPolicy"] == "Never" {
        true => Vec::new(),
        false => {
            vec![Violation { invariant: "S6", detail: format!("the PriorityClass {}", change.key.name) }]
        }
    }
}
