//! What was sent to the API server and not answered, by object. It is a fact like others: nothing more is sent to an object
//! while a write to it is under way, and a pod whose gate is being removed counts as released.

use crate::{Timestamp, Uid, facts::Pod, kind::Kind};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The object of a write. One that is to be created has no uid yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub kind: Kind,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub uid: Option<Uid>,
}

/// By its uid where it has one: an object re-created under the same name is another object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identity {
    Uid(Uid),
    Name(Arc<str>, Arc<str>),
}

/// What a write does that counts before it is answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effect {
    /// The gate that it removes from a pod.
    pub drops_gate: Option<Arc<str>>,
    /// The pod that has the ticket which it writes to, once it is carried out.
    pub claims_for: Option<Uid>,
    /// It deletes the object.
    pub deletes: bool,
}

/// What the API server said when it did not want to do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// A right is missing, or a policy forbids it; else what was asked for is not valid.
    pub forbidden: bool,
    pub message: Arc<str>,
    /// When the write was rejected first.
    pub since: Timestamp,
    /// When the write was rejected last.
    pub latest: Timestamp,
}

/// A message is kept this far. What matters of one stands at its beginning.
const LONGEST_REFUSAL: usize = 300;

impl Refusal {
    pub fn new(forbidden: bool, message: &str, since: Timestamp) -> Refusal {
        let plain = message.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
        let mut short: String = plain.take(LONGEST_REFUSAL).collect();
        if message.chars().nth(LONGEST_REFUSAL).is_some() {
            short.push('…');
        }
        Refusal { forbidden, message: short.into(), since, latest: since }
    }

    /// The same, refused again.
    pub fn after(self, earlier: Option<&Refusal>) -> Refusal {
        let since = earlier.map_or(self.since, |earlier| earlier.since.min(self.since));
        Refusal { since, ..self }
    }
}

#[derive(Debug, Default)]
pub struct InFlight {
    writes: BTreeMap<(Kind, Identity), Effect>,
    /// The pods of `Effect::claims_for`.
    claiming: BTreeSet<Uid>,
    /// Pods that were not written to because the API server refused it. Hardly ever any.
    refused: BTreeMap<Uid, Refusal>,
}

impl Target {
    pub fn of_pod(pod: &Pod) -> Target {
        let (namespace, name) = (pod.namespace.clone(), pod.name.clone());
        Target { kind: Kind::Pod, namespace, name, uid: Some(pod.uid) }
    }

    fn identity(&self) -> (Kind, Identity) {
        let name = || Identity::Name(self.namespace.clone(), self.name.clone());
        (self.kind, self.uid.map_or_else(name, Identity::Uid))
    }
}

impl InFlight {
    /// Says whether nothing was under way before: two writes to one object at a time would race with each other.
    pub fn begin(&mut self, target: &Target, effect: Effect) -> bool {
        self.claiming.extend(effect.claims_for);
        self.writes.insert(target.identity(), effect).is_none()
    }

    pub fn end(&mut self, target: &Target) {
        self.forget(&target.identity());
    }

    pub fn end_of(&mut self, kind: Kind, uid: Uid) {
        self.forget(&(kind, Identity::Uid(uid)));
    }

    fn forget(&mut self, identity: &(Kind, Identity)) {
        let ended = self.writes.remove(identity);
        if let Some(pod) = ended.and_then(|effect| effect.claims_for) {
            self.claiming.remove(&pod);
        }
    }

    /// Whether a ticket is being claimed for a pod: it is the ticket that is written to, and which one is known when that is answered.
    pub fn is_claiming(&self, pod: Uid) -> bool {
        self.claiming.contains(&pod)
    }

    pub fn is_writing(&self, target: &Target) -> bool {
        self.writes.contains_key(&target.identity())
    }

    /// A write to a pod was refused.
    pub fn refuse(&mut self, pod: Uid, refusal: Refusal) {
        let refusal = refusal.after(self.refused.get(&pod));
        self.refused.insert(pod, refusal);
    }

    /// A pod was written to after all, by us or by others, or is gone.
    pub fn forgive(&mut self, pod: Uid) {
        self.refused.remove(&pod);
    }

    pub fn refusal(&self, pod: Uid) -> Option<&Refusal> {
        self.refused.get(&pod)
    }

    pub fn has_refusals(&self) -> bool {
        !self.refused.is_empty()
    }

    /// The write to an object that is under way.
    pub fn on(&self, kind: Kind, uid: Uid) -> Option<&Effect> {
        self.writes.get(&(kind, Identity::Uid(uid)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(uid: Option<&str>) -> Target {
        Target { kind: Kind::Pod, namespace: "shop".into(), name: "web".into(), uid: uid.map(Uid::digest) }
    }

    #[test]
    fn one_write_per_object_and_a_namesake_is_another_object() {
        let mut in_flight = InFlight::default();
        let (old, new, created) = (target(Some("old")), target(Some("new")), target(None));
        assert!(in_flight.begin(&old, Effect { drops_gate: Some("gate".into()), ..Effect::default() }));
        assert!(!in_flight.begin(&old, Effect::default()));
        assert!(in_flight.begin(&new, Effect::default()) && in_flight.begin(&created, Effect::default()));
        assert!(!in_flight.begin(&created, Effect::default()), "by its name while it has no uid");
        in_flight.end(&old);
        assert!(!in_flight.is_writing(&old) && in_flight.is_writing(&new) && in_flight.is_writing(&created));
        in_flight.end_of(Kind::Pod, Uid::digest("new"));
        assert!(in_flight.on(Kind::Pod, Uid::digest("new")).is_none());
    }

    #[test]
    fn a_pod_is_claiming_until_the_write_to_the_ticket_has_ended() {
        let (mut in_flight, pod, ticket) = (InFlight::default(), Uid::digest("pod"), target(Some("ticket")));
        in_flight.begin(&ticket, Effect { claims_for: Some(pod), ..Effect::default() });
        assert!(in_flight.is_claiming(pod) && !in_flight.is_claiming(Uid::digest("other")));
        in_flight.end(&ticket);
        assert!(!in_flight.is_claiming(pod));
    }
}
