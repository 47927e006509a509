//! Pods coming, changing and going, and the actions on them that are in flight.

use super::{Index, Kind, Object, PodEntry};
use crate::planted::{Bug, is};
use crate::{
    Uid,
    facts::{Pin, Pod},
};
use std::sync::Arc;

/// What became of a release that was sent.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Done; this is the pod as the API server answered it.
    Done(Box<Pod>),
    /// The pod is not there any more, or another one has its name.
    Gone,
    /// Refused without being done: something changed in between, or the server did not want to.
    NotDone,
}

impl Index {
    pub(super) fn apply_pod(&mut self, mut pod: Pod) {
        self.saw(Kind::Pod, pod.version);
        if is(Bug::NamesNotUids)
            && let Some(known) = self.pod_named(&pod.namespace, &pod.name)
        {
            pod.uid = known.uid;
        }
        let uid = pod.uid;
        if self.tombstones.contains(&uid) {
            return;
        }
        let older = self.pods.get(&uid).is_some_and(|known| known.pod.version >= pod.version);
        if older && !is(Bug::OlderPodWins) {
            return;
        }
        if !self.evict_namesake(&pod) {
            return;
        }
        self.share(&mut pod);
        self.unplace(uid);
        match self.pods.remove(&uid) {
            Some(known) => self.update_pod(known, pod),
            None => self.insert_pod(pod),
        }
        self.place(uid);
    }

    fn insert_pod(&mut self, pod: Pod) {
        let uid = pod.uid;
        self.pod_names.entry(pod.namespace.clone()).or_default().insert(pod.name.clone(), uid);
        self.pod_labels.insert(&pod.namespace, &pod.labels, uid);
        if let Some(owner) = pod.owner {
            self.pods_of.entry(owner.uid).or_default().insert(uid);
        }
        self.note_pin(&pod, true);
        let entry = PodEntry { pod, claims: Box::default(), releasing: None, root: None, current: true };
        self.pods.insert(uid, Box::new(entry));
        self.resolve_root(uid);
        if !(is(Bug::LatePodForgotten) && self.is_synced()) {
            self.resolve_claims(uid);
        }
    }

    fn update_pod(&mut self, mut entry: Box<PodEntry>, pod: Pod) {
        let uid = pod.uid;
        let relabelled = entry.pod.labels != pod.labels;
        let adopted = entry.pod.owner != pod.owner;
        if relabelled {
            self.pod_labels.remove(&pod.namespace, &entry.pod.labels, uid);
            self.pod_labels.insert(&pod.namespace, &pod.labels, uid);
        }
        if adopted {
            self.leave_owner(&entry.pod);
            if let Some(owner) = pod.owner {
                self.pods_of.entry(owner.uid).or_default().insert(uid);
            }
        }
        if entry.releasing.as_ref().is_some_and(|gate| !pod.gates.contains(gate)) {
            entry.releasing = None;
        }
        if entry.pod.pin() != pod.pin() {
            self.note_pin(&entry.pod, false);
            self.note_pin(&pod, true);
        }
        entry.pod = pod;
        self.pods.insert(uid, entry);
        if adopted {
            self.resolve_root(uid);
        }
        if relabelled {
            self.resolve_claims(uid);
        }
    }

    pub(super) fn delete_pod(&mut self, uid: Uid) {
        self.bury(uid);
        self.forget_pod(uid);
    }

    pub(super) fn forget_pod(&mut self, uid: Uid) {
        self.unplace(uid);
        let Some(PodEntry { pod, .. }) = self.pods.remove(&uid).map(|entry| *entry) else { return };
        self.pod_labels.remove(&pod.namespace, &pod.labels, uid);
        self.leave_owner(&pod);
        self.note_pin(&pod, false);
        if let Some(names) = self.pod_names.get_mut(&pod.namespace) {
            if names.get(&pod.name) == Some(&uid) {
                names.remove(&pod.name);
            }
            if names.is_empty() {
                self.pod_names.remove(&pod.namespace);
            }
        }
    }

    /// A name is free only when its pod is gone, so of two pods under one name the older view is of one that has
    /// ended, even if its deletion has not been seen. Says whether `pod` is the one that lives.
    fn evict_namesake(&mut self, pod: &Pod) -> bool {
        let holder = self.pod_named(&pod.namespace, &pod.name).filter(|holder| holder.uid != pod.uid);
        let Some((holder, version)) = holder.map(|holder| (holder.uid, holder.version)) else { return true };
        match version {
            // Of a cluster since restored: it may come again.
            0 => self.forget_pod(holder),
            _ if version > pod.version => return false,
            _ => self.delete_pod(holder),
        }
        true
    }

    fn note_pin(&mut self, pod: &Pod, there: bool) {
        let Some(Pin::Hostname(host)) = pod.pin() else { return };
        let pods = self.nodes.pinned.entry(host.clone()).or_default();
        match there {
            true => pods.insert(pod.uid),
            false => pods.remove(&pod.uid),
        };
        if pods.is_empty() {
            self.nodes.pinned.remove(host);
        }
    }

    fn leave_owner(&mut self, pod: &Pod) {
        let Some(owner) = pod.owner else { return };
        if let Some(pods) = self.pods_of.get_mut(&owner.uid) {
            pods.remove(&pod.uid);
            if pods.is_empty() {
                self.pods_of.remove(&owner.uid);
            }
        }
    }

    fn share(&mut self, pod: &mut Pod) {
        pod.namespace = self.interner.shared(&pod.namespace);
        pod.node = pod.node.as_ref().map(|node| self.interner.shared(node));
        pod.labels = self.interner.labels(&pod.labels);
        for gate in &mut pod.gates {
            *gate = self.interner.shared(gate);
        }
        pod.gates.shrink_to_fit();
        if let Some(trouble) = &mut pod.trouble {
            trouble.what = self.interner.shared(&trouble.what);
            trouble.container = trouble.container.as_ref().map(|name| self.interner.shared(name));
        }
    }

    /// A release has been sent. From now on the pod counts as released, and nothing more is sent for it.
    pub fn release_sent(&mut self, uid: Uid, gate: &Arc<str>) {
        self.unplace(uid);
        if let Some(entry) = self.pods.get_mut(&uid) {
            entry.releasing = Some(gate.clone());
        }
        self.place(uid);
    }

    /// A release has been answered. An unknown outcome is not an answer: then the pod stays in flight until
    /// the watch or a look at it tells.
    pub fn release_answered(&mut self, uid: Uid, answer: Answer) {
        match answer {
            Answer::Done(pod) => {
                self.clear_release(uid);
                // Only what is still known: an answer must not bring back a pod that was seen deleted.
                if pod.uid == uid && self.pods.contains_key(&uid) {
                    self.apply_answer(Object::Pod(*pod));
                }
            }
            Answer::Gone => self.delete_pod(uid),
            Answer::NotDone => self.clear_release(uid),
        }
    }

    fn clear_release(&mut self, uid: Uid) {
        self.unplace(uid);
        if let Some(entry) = self.pods.get_mut(&uid) {
            entry.releasing = None;
        }
        self.place(uid);
    }
}
