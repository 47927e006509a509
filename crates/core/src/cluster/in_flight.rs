//! Unanswered writes to the API server, by object. Decisions take them into account: while a write to an object is in flight,
//! nothing more is sent to it. A pod whose gate is being removed counts as released.

use crate::{Timestamp, Uid, facts::Pod, kind::Kind};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The object of a write. An object that does not exist yet has no uid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub kind: Kind,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub uid: Option<Uid>,
}

/// The uid if there is one: an object re-created under the same name is a different object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TargetIdentity {
    Uid(Uid),
    Name(Arc<str>, Arc<str>),
}

/// Effects of a write that count before it is answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteEffect {
    /// The gate that it removes from a pod.
    pub drops_gate: Option<Arc<str>>,
    /// The pod that claims the ticket, if the write to that ticket succeeds.
    pub claims_for: Option<Uid>,
    /// Whether the write deletes the object.
    pub deletes: bool,
}

/// A rejection by the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Whether a missing permission or a policy is the cause. Otherwise the request is invalid.
    pub forbidden: bool,
    pub message: Arc<str>,
    /// Time of the first rejection.
    pub since: Timestamp,
    /// Time of the latest rejection.
    pub latest: Timestamp,
}

/// Longest message that is kept, in characters. The beginning of a message says what matters.
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

    /// Merges this rejection with an earlier one of the same write: the time of the first rejection is kept.
    pub fn after(self, earlier: Option<&Refusal>) -> Refusal {
        let since = earlier.map_or(self.since, |earlier| earlier.since.min(self.since));
        Refusal { since, ..self }
    }
}

#[derive(Debug, Default)]
pub struct InFlight {
    writes: BTreeMap<(Kind, TargetIdentity), WriteEffect>,
    /// The pods of `WriteEffect::claims_for`.
    claiming: BTreeSet<Uid>,
    /// Rejections of writes to pods, by pod. Nearly always empty.
    refused: BTreeMap<Uid, Refusal>,
}

impl Target {
    pub fn of_pod(pod: &Pod) -> Target {
        let (namespace, name) = (pod.namespace.clone(), pod.name.clone());
        Target { kind: Kind::Pod, namespace, name, uid: Some(pod.uid) }
    }

    fn identity(&self) -> (Kind, TargetIdentity) {
        let name = || TargetIdentity::Name(self.namespace.clone(), self.name.clone());
        (self.kind, self.uid.map_or_else(name, TargetIdentity::Uid))
    }
}

impl InFlight {
    /// Records a write that is sent. Returns whether no other write to the object was in flight: two would race with each
    /// other.
    pub fn begin(&mut self, target: &Target, effect: WriteEffect) -> bool {
        self.claiming.extend(effect.claims_for);
        self.writes.insert(target.identity(), effect).is_none()
    }

    pub fn end(&mut self, target: &Target) {
        self.forget(&target.identity());
    }

    pub fn end_of(&mut self, kind: Kind, uid: Uid) {
        self.forget(&(kind, TargetIdentity::Uid(uid)));
    }

    fn forget(&mut self, identity: &(Kind, TargetIdentity)) {
        let ended = self.writes.remove(identity);
        if let Some(pod) = ended.and_then(|effect| effect.claims_for) {
            self.claiming.remove(&pod);
        }
    }

    /// Whether a ticket is being claimed for the pod. The write goes to the ticket, and it may still fail.
    pub fn is_claiming(&self, pod: Uid) -> bool {
        self.claiming.contains(&pod)
    }

    pub fn is_writing(&self, target: &Target) -> bool {
        self.writes.contains_key(&target.identity())
    }

    /// Records that a write to the pod was rejected.
    pub fn refuse(&mut self, pod: Uid, refusal: Refusal) {
        let refusal = refusal.after(self.refused.get(&pod));
        self.refused.insert(pod, refusal);
    }

    /// Forgets the rejection: the gates of the pod have changed since, or the pod is deleted.
    pub fn forgive(&mut self, pod: Uid) {
        self.refused.remove(&pod);
    }

    pub fn refusal(&self, pod: Uid) -> Option<&Refusal> {
        self.refused.get(&pod)
    }

    pub fn has_refusals(&self) -> bool {
        !self.refused.is_empty()
    }

    /// The write to the object that is in flight.
    pub fn on(&self, kind: Kind, uid: Uid) -> Option<&WriteEffect> {
        self.writes.get(&(kind, TargetIdentity::Uid(uid)))
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
        assert!(
            in_flight.begin(&old, WriteEffect { drops_gate: Some("gate".into()), ..WriteEffect::default() })
        );
        assert!(!in_flight.begin(&old, WriteEffect::default()));
        assert!(
            in_flight.begin(&new, WriteEffect::default())
                && in_flight.begin(&created, WriteEffect::default())
        );
        assert!(!in_flight.begin(&created, WriteEffect::default()), "by its name while it has no uid");
        in_flight.end(&old);
        assert!(!in_flight.is_writing(&old) && in_flight.is_writing(&new) && in_flight.is_writing(&created));
        in_flight.end_of(Kind::Pod, Uid::digest("new"));
        assert!(in_flight.on(Kind::Pod, Uid::digest("new")).is_none());
    }

    #[test]
    fn a_pod_is_claiming_until_the_write_to_the_ticket_has_ended() {
        let (mut in_flight, pod, ticket) = (InFlight::default(), Uid::digest("pod"), target(Some("ticket")));
        in_flight.begin(&ticket, WriteEffect { claims_for: Some(pod), ..WriteEffect::default() });
        assert!(in_flight.is_claiming(pod) && !in_flight.is_claiming(Uid::digest("other")));
        in_flight.end(&ticket);
        assert!(!in_flight.is_claiming(pod));
    }
}
