//! Changes to pods, and the writes to them that are in flight.

use super::{Index, Object};
use crate::planted::{Bug, planted};
use crate::{
    Uid,
    cluster::{Refusal, Target, WriteEffect},
    facts::Pod,
    key::Feature,
    kind::Kind,
};

/// The outcome of a write to a pod.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The write succeeded; the pod as returned by the API server.
    Done(Box<Pod>),
    /// The pod no longer exists, or its name belongs to a different pod.
    Gone,
    /// The write failed because of a conflict or an overloaded server, and may succeed on a retry.
    NotDone,
    /// The write was rejected, and a retry fails until the cause is removed.
    Refused(Refusal),
}

impl Index {
    /// Adds a pod to the counts of every feature, with its current facts.
    pub(super) fn pod_enters(&mut self, uid: Uid) {
        self.sequences.pod_enters(&self.cluster, uid, &mut self.touched);
        if let Some(pod) = self.cluster.pod(uid) {
            self.launches.pod_enters(pod, &mut self.touched);
            self.reservations.pod_enters(&self.cluster, pod, &mut self.touched);
        }
    }

    /// Removes a pod from the counts of every feature. Must run before any fact about the pod changes.
    pub(super) fn pod_leaves(&mut self, uid: Uid) {
        self.sequences.pod_leaves(&self.cluster, uid, &mut self.touched);
        if let Some(pod) = self.cluster.pod(uid) {
            self.reservations.pod_leaves(pod, &mut self.touched);
        }
    }

    pub(super) fn apply_pod(&mut self, mut pod: Pod) {
        if planted(Bug::NamesNotUids)
            && let Some(known) = self.cluster.pod_named(&pod.namespace, &pod.name)
        {
            pod.uid = known.uid;
        }
        let uid = pod.uid;
        let known = self.cluster.pod(uid).map(|known| known.version).filter(|_| !planted(Bug::OlderPodWins));
        if !self.cluster.freshness.admits(Kind::Pod, Some(uid), known, pod.version)
            || !self.evict_namesake(&pod)
        {
            return;
        }
        self.pod_leaves(uid);
        let (new, synced) = (self.cluster.pod(uid).is_none(), self.is_synced(Feature::Sequence));
        let change = self.cluster.put_pod(pod);
        if (change.labels || change.owner) && !(new && synced && planted(Bug::LatePodForgotten)) {
            self.sequences.resolve_memberships(&mut self.cluster, uid);
        }
        self.pod_enters(uid);
    }

    pub(super) fn delete_pod(&mut self, uid: Uid) {
        self.cluster.freshness.add_tombstone(uid);
        self.forget_pod(uid);
    }

    pub(super) fn forget_pod(&mut self, uid: Uid) {
        self.pod_leaves(uid);
        if let Some(pod) = self.cluster.remove_pod(uid) {
            self.reservations.pod_gone(&self.cluster, &pod, &mut self.touched);
        }
        self.launches.pod_gone(uid, &mut self.touched);
    }

    /// Resolves two pods with the same name. A name becomes free only after its pod is deleted. So the older pod no longer
    /// exists, even if its deletion has not been seen. Returns whether `pod` is the one that exists.
    fn evict_namesake(&mut self, pod: &Pod) -> bool {
        let holder = self.cluster.pod_named(&pod.namespace, &pod.name).filter(|holder| holder.uid != pod.uid);
        let Some((holder, version)) = holder.map(|holder| (holder.uid, holder.version)) else { return true };
        match version {
            // Seen before a restore from a backup: this pod may be re-created.
            0 => self.forget_pod(holder),
            _ if version > pod.version => return false,
            _ => self.delete_pod(holder),
        }
        true
    }

    /// Records that a write to a pod was sent: its effects count immediately, and nothing more is sent to the pod.
    pub fn pod_write_sent(&mut self, target: &Target, effect: WriteEffect) {
        let Some(uid) = target.uid.filter(|uid| self.cluster.pod(*uid).is_some()) else { return };
        self.pod_leaves(uid);
        self.cluster.in_flight.begin(target, effect);
        self.pod_enters(uid);
    }

    /// Records the answer to a write to a pod. An unknown outcome is not an answer: the write stays in flight until the watch
    /// or a read shows the pod.
    pub fn pod_write_answered(&mut self, uid: Uid, answer: Answer) {
        match answer {
            Answer::Done(pod) => {
                self.clear_pod_write(uid);
                self.cluster.in_flight.forgive(uid);
                self.reservations.step_succeeded(&pod);
                // Only if the pod is still known: an answer must not bring back a deleted pod.
                if pod.uid == uid && self.cluster.pod(uid).is_some() {
                    self.apply_answer(Object::Pod(*pod));
                }
            }
            Answer::Gone => self.delete_pod(uid),
            Answer::NotDone => {
                self.reservations.step_failed(&self.cluster, uid);
                self.clear_pod_write(uid);
            }
            Answer::Refused(refusal) => {
                self.reservations.step_failed(&self.cluster, uid);
                // Meanwhile the watch may have shown that the gate is already removed: then the rejection does not matter.
                if self.cluster.is_writing_pod(uid) {
                    self.cluster.in_flight.refuse(uid, refusal);
                }
                self.clear_pod_write(uid);
            }
        }
    }

    fn clear_pod_write(&mut self, uid: Uid) {
        self.pod_leaves(uid);
        self.cluster.in_flight.end_of(Kind::Pod, uid);
        self.pod_enters(uid);
    }
}
