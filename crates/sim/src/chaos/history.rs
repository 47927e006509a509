//! What is checked of every commit, by rules written for this and for nothing else.

use super::world;
use crate::kinds::Kind;
use crate::store::{Author, Change, Observer};
use jiff::Timestamp;
use rollcall_api::names;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Such as `S1`.
    pub invariant: &'static str,
    pub detail: String,
}

#[derive(Default)]
pub struct State {
    pub violations: Vec<Violation>,
    hash: u64,
    /// Commits of our controllers, leases apart.
    pub writes: u64,
    /// When one of our controllers last committed something but a lease.
    pub last_write: Option<Timestamp>,
    /// Whether clocks are wrong in this run: then no time is judged.
    pub clocks_are_wrong: bool,
    arrived: BTreeSet<String>,
    complete_since: BTreeMap<usize, Timestamp>,
    generations: BTreeMap<String, i64>,
    released: u64,
    /// Whether there is a sequence at all; without one its held pods are let go.
    there: bool,
    holder: Option<(String, Timestamp)>,
}

#[derive(Clone, Default)]
pub struct History(Arc<Mutex<State>>);

impl History {
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Of everything that was committed, in order.
    pub fn hash(&self) -> u64 {
        self.state().hash
    }
}

impl Observer for History {
    fn committed(&mut self, change: &Change) {
        let mut state = self.state();
        state.mix(change.object.json());
        state.mix(&[u8::from(change.deleted)]);
        if let Author::Controller(number) = change.author {
            state.by_controller(change, number);
        }
        match change.key.kind {
            Kind::Pod => state.pod(change),
            Kind::PodSequence => state.sequence(change),
            Kind::Lease => state.lease(change),
            _ => {}
        }
    }
}

impl State {
    /// FNV-1a.
    fn mix(&mut self, bytes: &[u8]) {
        let mut hash = if self.hash == 0 { 0xcbf2_9ce4_8422_2325 } else { self.hash };
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.hash = hash;
    }

    fn broken(&mut self, invariant: &'static str, detail: impl Into<String>) {
        self.violations.push(Violation { invariant, detail: detail.into() });
    }

    fn by_controller(&mut self, change: &Change, number: usize) {
        let key = &change.key;
        if key.kind == Kind::Lease {
            return;
        }
        self.writes += 1;
        self.last_write = Some(change.at);
        if let Some((holder, since)) = &self.holder
            && *holder != identity(number)
            && *since < change.at
        {
            let detail = format!("{} wrote {}, and {holder} leads", identity(number), key.name);
            self.broken("S8", detail);
        }
        let place = (key.kind, &*key.namespace);
        match place {
            (Kind::Pod, world::NAMESPACE) => self.released(change),
            (Kind::PodSequence, world::NAMESPACE) => {
                let before = change.before.as_ref();
                if before.is_none_or(|before| before["spec"] != change.object["spec"]) {
                    self.broken("S2", "the controller changed a spec");
                }
            }
            (Kind::ConfigMap, names::OWN_NAMESPACE) | (Kind::Event, world::NAMESPACE) => {}
            (kind, namespace) => {
                self.broken("S6", format!("a write to {} {}/{}", kind.info().plural, namespace, key.name));
            }
        }
    }

    /// A pod as one of our controllers has changed it.
    fn released(&mut self, change: &Change) {
        let name = &*change.key.name;
        let Some(before) = &change.before else { return self.broken("S6", format!("created pod {name}")) };
        if change.deleted {
            return self.broken("S6", format!("deleted pod {name}"));
        }
        if without_gate(before) != without_gate(&change.object) {
            self.broken("S2", format!("more than the gate of pod {name} changed"));
        }
        if !world::is_held(before) || world::is_held(&change.object) {
            return;
        }
        self.released += 1;
        let group = world::group_of(name).filter(|group| *group > 0 && self.there);
        let Some(group) = group else { return };
        let waits_for = world::GROUPS[group - 1].0;
        match self.complete_since.get(&(group - 1)).copied() {
            None => self.broken("S1", format!("pod {name} was released before {waits_for} was complete")),
            Some(since) if group == 2 && !self.clocks_are_wrong => {
                let settled = change.at.duration_since(since).as_millis();
                if settled < i128::from(world::SETTLE_SECONDS * 1000) {
                    self.broken("S1", format!("pod {name} was released {settled} ms after {waits_for}"));
                }
            }
            Some(_) => {}
        }
    }

    /// Who has arrived, and which groups have been complete.
    fn pod(&mut self, change: &Change) {
        let name = change.key.name.to_string();
        match change.after().is_some_and(|pod| world::has_arrived(pod)) {
            true => self.arrived.insert(name.clone()),
            false => self.arrived.remove(&name),
        };
        if let Some(group) = world::group_of(&name)
            && world::GROUPS[group].1.iter().all(|pod| self.arrived.contains(*pod))
        {
            self.complete_since.entry(group).or_insert(change.at);
        }
    }

    fn sequence(&mut self, change: &Change) {
        self.there = !change.deleted;
        if change.deleted {
            return;
        }
        let status = &change.object["status"];
        let generation = status["observedGeneration"].as_i64().unwrap_or_default();
        let known = self.generations.entry(change.object.uid().to_owned()).or_default();
        let went_back = generation < *known;
        *known = generation.max(*known);
        if went_back {
            self.broken("S9", format!("observedGeneration went back to {generation}"));
        }
        let phase = |object: &Value| object["status"]["phase"].as_str().unwrap_or("Pending").to_owned();
        let before = change.before.as_ref().map(|before| phase(before)).unwrap_or("Pending".into());
        if before != "Pending" && phase(&change.object) == "Pending" && self.released > 0 {
            self.broken("S9", format!("the phase went from {before} to Pending"));
        }
        if phase(&change.object) == "Completed" && before != "Completed" {
            let late: Vec<_> =
                (0..world::GROUPS.len()).filter(|at| !self.complete_since.contains_key(at)).collect();
            if !late.is_empty() {
                self.broken("S9", format!("Completed, and groups {late:?} never were"));
            }
        }
    }

    fn lease(&mut self, change: &Change) {
        let holder = change.after().and_then(|lease| lease["spec"]["holderIdentity"].as_str());
        let holder = holder.filter(|holder| !holder.is_empty()).map(str::to_owned);
        if self.holder.as_ref().map(|(known, _)| known) != holder.as_ref() {
            self.holder = holder.map(|holder| (holder, change.at));
        }
    }
}

/// Who a controller is in its lease.
pub fn identity(number: usize) -> String {
    format!("controller-{number}")
}

/// The pod without what a release changes.
fn without_gate(pod: &Value) -> Value {
    let mut pod = pod.clone();
    if let Some(spec) = pod["spec"].as_object_mut()
        && let Some(Value::Array(gates)) = spec.get_mut("schedulingGates")
    {
        gates.retain(|gate| gate["name"] != names::SEQUENCE_GATE);
        if gates.is_empty() {
            spec.remove("schedulingGates");
        }
    }
    if let Some(metadata) = pod["metadata"].as_object_mut() {
        ["resourceVersion", "generation", "managedFields"]
            .iter()
            .for_each(|field| drop(metadata.remove(*field)));
    }
    pod
}
