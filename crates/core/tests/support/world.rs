//! The true state of the cluster, the index as the controller sees it, and a controller that carries out its decisions.

use super::build::start;
use jiff::Timestamp;
use rollcall_core::sequence::keys::PREFIX;
use rollcall_core::{
    Uid,
    cluster::{self, Target},
    decision::{Action, Decision, Keep, NodeMarks, NodePatch, PodPatch, Report},
    dispatch::{check, decide, keep},
    facts::{Namespace, Owner, Pod},
    index::{Answer, Index, Listed, Object},
    key::{Feature, Key},
    kind::Kind,
    node::{Drivers, Node, Taint, TaintEffect},
    sequence::index::{Mode, Note},
    sequence::{Sequence, Settings, Status, spec::Recorded},
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The outcome of a release that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// Done and answered.
    Prompt,
    /// Done, but neither the answer nor the watch shows it; see [`World::catch_up`].
    Lost,
    /// Not done.
    Refused,
    /// The pod is deleted.
    Gone,
}

/// Which statuses are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writing {
    Always,
    OnlyUrgent,
}

#[derive(Default)]
pub struct Truth {
    pub pods: BTreeMap<Uid, Pod>,
    pub owners: BTreeMap<Uid, Owner>,
    pub namespaces: BTreeMap<Arc<str>, Namespace>,
    pub sequences: BTreeMap<Uid, Sequence>,
    pub notes: BTreeMap<Uid, Note>,
    pub nodes: BTreeMap<Arc<str>, Node>,
    pub drivers: BTreeMap<Arc<str>, Drivers>,
}

impl Truth {
    pub fn objects(&self) -> Vec<Object> {
        let pods = self.pods.values().cloned().map(Object::Pod);
        let owners = self.owners.values().cloned().map(Object::Owner);
        let namespaces = self.namespaces.values().cloned().map(Object::Namespace);
        let sequences = self.sequences.values().cloned().map(Object::Sequence);
        let notes = self.notes.values().cloned().map(Object::Note);
        let nodes = self.nodes.values().cloned().map(Object::Node);
        let drivers = self.drivers.values().cloned().map(Object::Drivers);
        pods.chain(owners)
            .chain(namespaces)
            .chain(sequences)
            .chain(notes)
            .chain(nodes)
            .chain(drivers)
            .collect()
    }
}

/// The decided status of a sequence; `None` for a ghost.
pub fn status_of(decision: &Decision) -> Option<&Status> {
    match decision.report.as_ref()? {
        Report::Sequence(status) => Some(&**status),
        Report::Order(_) => None,
    }
}

pub fn kind_of(object: &Object) -> Kind {
    object.kind().expect("watched")
}

#[derive(Clone, Debug)]
pub enum Change {
    Applied(Object),
    Deleted(Object),
}

pub struct World {
    full: bool,
    /// Takes effect at the next restart of the controller.
    pub taint_prefix: &'static str,
    pub now: Timestamp,
    pub truth: Truth,
    pub version: u64,
    pub index: Index,
    pub settings: Settings,
    pub budget: usize,
    pub answers: Answers,
    pub writing: Writing,
    /// Whether a controller runs.
    pub present: bool,
    /// Changes that the watch has not delivered yet.
    pub untold: Vec<Change>,
    /// Whether changes are delivered immediately.
    pub prompt: bool,
    /// The last decision about each sequence.
    pub decisions: BTreeMap<Uid, Decision>,
    pub wakes: BTreeMap<Uid, Timestamp>,
    /// Gates that were removed without an answer.
    pub in_flight: BTreeMap<Uid, Arc<str>>,
    pub done: Done,
}

/// Actions since they were last taken.
#[derive(Default)]
pub struct Done {
    pub released: Vec<Released>,
    pub notes: Vec<String>,
    /// Number of writes to nodes.
    pub marked: usize,
    /// Node labels that the released pods must avoid.
    pub avoided: BTreeMap<Arc<str>, Vec<Arc<str>>>,
    pub tolerated: BTreeMap<Arc<str>, Vec<Arc<str>>>,
    pub events: Vec<(Uid, String)>,
    pub urgent: bool,
}

#[derive(Clone, Debug)]
pub struct Released {
    pub by: Uid,
    pub pod: Uid,
    pub name: Arc<str>,
}

/// Number of rounds after which a world that has not come to rest is considered stuck.
const ROUNDS: usize = 2000;

impl World {
    pub fn new() -> World {
        World::of_mode(false)
    }

    pub fn of_mode(full: bool) -> World {
        let mut world = World {
            full,
            taint_prefix: PREFIX,
            now: start(),
            truth: Truth::default(),
            version: 100,
            index: Index::default(),
            settings: Settings { notes: true },
            budget: 1000,
            answers: Answers::Prompt,
            writing: Writing::Always,
            present: true,
            untold: Vec::new(),
            prompt: true,
            decisions: BTreeMap::new(),
            wakes: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            done: Done::default(),
        };
        world.restart();
        world
    }

    pub fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    /// Creates or changes an object.
    pub fn apply(&mut self, mut object: Object) {
        let version = self.next_version();
        match &mut object {
            Object::Pod(pod) => {
                pod.version = version;
                self.truth.pods.insert(pod.uid, pod.clone());
            }
            Object::Owner(owner) => {
                owner.version = version;
                self.truth.owners.insert(owner.uid, owner.clone());
            }
            Object::Namespace(namespace) => {
                namespace.version = version;
                self.truth.namespaces.insert(namespace.name.clone(), namespace.clone());
            }
            Object::Sequence(sequence) => {
                sequence.version = version;
                self.truth.sequences.insert(sequence.uid, sequence.clone());
            }
            Object::Note(note) => {
                note.version = version;
                self.truth.notes.insert(note.sequence, note.clone());
            }
            Object::Node(node) => {
                node.version = version;
                self.truth.nodes.insert(node.name.clone(), node.clone());
            }
            Object::Drivers(drivers) => {
                drivers.version = version;
                self.truth.drivers.insert(drivers.node.clone(), drivers.clone());
            }
            Object::Barrier(_) | Object::Order(_) | Object::Ticket(_) | Object::PriorityClass(_) => {
                unreachable!("no part of this world")
            }
        }
        self.tell(Change::Applied(object));
    }

    pub fn delete(&mut self, object: Object) {
        self.next_version();
        match &object {
            Object::Pod(pod) => drop(self.truth.pods.remove(&pod.uid)),
            Object::Owner(owner) => drop(self.truth.owners.remove(&owner.uid)),
            Object::Namespace(namespace) => drop(self.truth.namespaces.remove(&namespace.name)),
            Object::Sequence(sequence) => drop(self.truth.sequences.remove(&sequence.uid)),
            Object::Note(note) => drop(self.truth.notes.remove(&note.sequence)),
            Object::Node(node) => drop(self.truth.nodes.remove(&node.name)),
            Object::Drivers(drivers) => drop(self.truth.drivers.remove(&drivers.node)),
            Object::Barrier(_) | Object::Order(_) | Object::Ticket(_) | Object::PriorityClass(_) => {
                unreachable!("no part of this world")
            }
        }
        self.tell(Change::Deleted(object));
    }

    fn tell(&mut self, change: Change) {
        match (self.present, self.prompt) {
            (false, _) => {}
            (true, false) => self.untold.push(change),
            (true, true) => deliver(&mut self.index, change),
        }
    }

    /// Delivers all outstanding changes to the controller.
    pub fn catch_up(&mut self) {
        for change in std::mem::take(&mut self.untold) {
            deliver(&mut self.index, change);
        }
    }

    /// Restarts the controller: it knows only the objects in the cluster.
    pub fn restart(&mut self) {
        self.index =
            Index::new(Mode { full: self.full, taint_prefix: self.taint_prefix, reservations: false });
        self.untold.clear();
        self.wakes.clear();
        self.decisions.clear();
        self.present = true;
        self.relist();
    }

    /// Lists all kinds again.
    pub fn relist(&mut self) {
        self.untold.clear();
        list_all(&mut self.index, &self.truth.objects(), self.version);
    }

    /// Decides and carries out decisions until nothing remains to be done at the current time.
    pub fn settle(&mut self) {
        for _ in 0..ROUNDS {
            if !self.present || !self.round() {
                return;
            }
        }
        panic!("does not come to rest");
    }

    fn round(&mut self) -> bool {
        let mut keys = self.index.take_touched();
        let due = self.wakes.iter().filter(|(_, at)| **at <= self.now).map(|(uid, _)| Key::Sequence(*uid));
        keys.extend(due.collect::<Vec<_>>());
        if !self.index.is_synced(Feature::Sequence) {
            return false;
        }
        for key in &keys {
            self.decide(key.uid());
        }
        !keys.is_empty()
    }

    /// Makes one decision, audits it, and carries it out.
    pub fn decide(&mut self, uid: Uid) {
        self.wakes.remove(&uid);
        let key = Key::Sequence(uid);
        let decision = decide(&self.index, key, self.settings, self.now, self.budget);
        let again = decide(&self.index, key, self.settings, self.now, self.budget);
        assert_eq!(decision, again, "same facts, another decision");
        self.nothing_is_kept_wrongly(uid, &decision);
        assert_eq!(check(&self.index, key, &decision, self.now), [], "{decision:#?}");
        self.done.urgent |= decision.urgent;
        self.wakes.extend(decision.wake_at.map(|at| (uid, at)));
        for event in &decision.events {
            let title = event.message.strip_prefix('"').and_then(|rest| rest.split_once('"'));
            let about = title.map_or(String::new(), |(title, _)| format!(" {title}"));
            self.done.events.push((uid, format!("{}{about}", event.reason)));
        }
        keep(&mut self.index, key, decision.keep.clone());
        if let Keep::Sequence { recorded, .. } = decision.keep.clone() {
            self.write_status(uid, *recorded, decision.urgent);
        }
        for action in decision.actions.clone() {
            self.act(uid, action);
        }
        if decision.finished {
            self.index.remove_finished_ghost(uid);
        }
        self.decisions.insert(uid, decision);
    }

    /// Checks that a decision without cached judgements is the same.
    fn nothing_is_kept_wrongly(&mut self, uid: Uid, decision: &Decision) {
        let kept = |index: &Index, name: &str| index.sequences.get(uid)?.node_results().judged(name).cloned();
        let key = Key::Sequence(uid);
        self.index.sequences.invalidate_node_results(uid);
        let anew = decide(&self.index, key, self.settings, self.now, self.budget);
        if let (Keep::Sequence { nodes: before, .. }, Keep::Sequence { nodes: anew, .. }) =
            (&decision.keep, &anew.keep)
        {
            for (name, judged) in &anew.nodes {
                let known = before.nodes.get(name).cloned().or_else(|| kept(&self.index, name));
                assert_eq!(known.as_ref(), Some(judged), "{name}");
            }
        }
        let recorded = |decision: &Decision| match &decision.keep {
            Keep::Sequence { recorded, .. } => Some(recorded.clone()),
            Keep::Nothing
            | Keep::Launch { .. }
            | Keep::Order { .. }
            | Keep::Ticket { .. }
            | Keep::Claim { .. } => None,
        };
        assert_eq!(recorded(decision), recorded(&anew));
        assert_eq!(*decision, Decision { keep: decision.keep.clone(), ..anew });
    }

    /// Stores the status like the API: it does not contain everything that the controller remembers.
    fn write_status(&mut self, uid: Uid, recorded: Recorded, urgent: bool) {
        let Some(sequence) = self.truth.sequences.get(&uid) else { return };
        let written = Recorded { duplicates: false, ..recorded };
        let wanted = self.writing == Writing::Always || urgent;
        if wanted && sequence.recorded != written {
            let sequence = Sequence { recorded: written, ..sequence.clone() };
            self.apply(Object::Sequence(sequence));
        }
    }

    fn act(&mut self, uid: Uid, action: Action) {
        match action {
            Action::WriteNote { mut note } => {
                note.version = self.next_version();
                self.done.notes.push(format!("written {}", note.name));
                self.truth.notes.insert(uid, (*note).clone());
                self.index.note_written(*note);
            }
            Action::DropNote { sequence } => {
                let name = self.truth.notes.remove(&sequence).map_or("?".into(), |note| note.name);
                self.done.notes.push(format!("dropped {name}"));
                self.next_version();
                self.index.delete_note(sequence);
            }
            Action::PatchNode(NodePatch { node, name, parts, version: _ }) => {
                self.done.marked += 1;
                self.index.sequences.mark_sent(parts.iter().map(|part| part.sequence), &name);
                let known = self.truth.nodes.get(&name).filter(|known| known.uid == node).cloned();
                let answer = known.map(|known| self.mark(known, &parts));
                self.index.mark_answered(&name, answer);
            }
            Action::PatchPod(patch) => {
                let (target, effect) = (patch.target(), patch.effect());
                let PodPatch { uid: pod, name, drop_gate, avoid, tolerate, .. } = patch;
                let gate = drop_gate.expect("sequences only release").name;
                self.done.tolerated.insert(name.clone(), tolerate);
                self.done.avoided.insert(name.clone(), avoid);
                self.done.released.push(Released { by: uid, pod, name });
                self.index.pod_write_sent(&target, effect);
                self.release(pod, &gate);
            }
            Action::WriteBarrier(_)
            | Action::Create(_)
            | Action::Delete(_)
            | Action::WriteTicket(_)
            | Action::Nominate(_) => unreachable!("sequences do no such thing"),
        }
    }

    fn mark(&mut self, mut node: Node, parts: &[NodeMarks]) -> Node {
        let mut removed: Vec<usize> = Vec::new();
        for NodeMarks { sequence, marks } in parts {
            let kept = node.labels.iter().filter(|(key, _)| !marks.labels.contains_key(key));
            let added = marks.labels.iter().filter_map(|(key, value)| Some((key.clone(), value.clone()?)));
            node.labels = kept.cloned().chain(added).collect();
            removed.extend(marks.taints.remove.iter().map(|(place, _)| *place));
            match &marks.journal {
                None => {}
                Some(None) => drop(node.journals.remove(sequence)),
                Some(Some(journal)) => drop(node.journals.insert(*sequence, journal.clone())),
            }
        }
        removed.sort();
        for place in removed.into_iter().rev() {
            node.taints.remove(place);
        }
        for NodeMarks { sequence, marks } in parts {
            node.taints.extend(marks.taints.add.iter().map(|key| Taint {
                key: key.clone(),
                value: sequence.to_string().into(),
                effect: TaintEffect::NoSchedule,
            }));
        }
        node.version = self.next_version();
        self.truth.nodes.insert(node.name.clone(), node.clone());
        node
    }

    fn release(&mut self, uid: Uid, gate: &Arc<str>) {
        let Some(known) = self.truth.pods.get(&uid).cloned() else {
            return self.index.pod_write_answered(uid, Answer::Gone);
        };
        let mut pod = known;
        match self.answers {
            Answers::Prompt | Answers::Lost => {
                pod.gates.retain(|held| held != gate);
                pod.version = self.next_version();
                self.truth.pods.insert(uid, pod.clone());
                if self.answers == Answers::Prompt {
                    return self.index.pod_write_answered(uid, Answer::Done(Box::new(pod)));
                }
                self.in_flight.insert(uid, gate.clone());
                self.untold.push(Change::Applied(Object::Pod(pod)));
            }
            Answers::Refused => {
                // Only once; a controller would back off before the retry.
                self.answers = Answers::Prompt;
                self.index.pod_write_answered(uid, Answer::NotDone);
            }
            Answers::Gone => {
                self.truth.pods.remove(&uid);
                self.index.pod_write_answered(uid, Answer::Gone);
            }
        }
    }

    pub fn take_done(&mut self) -> Done {
        std::mem::take(&mut self.done)
    }

    pub fn pod_named(&self, namespace: &str, name: &str) -> Option<&Pod> {
        self.truth.pods.values().find(|pod| *pod.namespace == *namespace && *pod.name == *name)
    }
}

pub fn deliver(index: &mut Index, change: Change) {
    match change {
        Change::Applied(object) => index.apply(object),
        Change::Deleted(object) => index.delete(object),
    }
}

/// Records that the removal of a gate was sent and is not answered yet.
pub fn release_sent(index: &mut Index, pod: Uid, gate: &str) {
    let Some(known) = index.cluster.pod(pod) else { return };
    let target = Target::of_pod(known);
    index.pod_write_sent(
        &target,
        cluster::WriteEffect { drops_gate: Some(gate.into()), ..Default::default() },
    );
}

/// Lists every kind, as a controller does at its start or after its watches broke.
pub fn list_all(index: &mut Index, objects: &[Object], version: u64) {
    for kind in index.kinds().iter().copied() {
        let of_kind: Vec<&Object> = objects.iter().filter(|object| kind_of(object) == kind).collect();
        index.list_begins(kind, version);
        let listed: BTreeSet<Listed> = of_kind.iter().map(|object| object.listed()).collect();
        for object in of_kind {
            index.apply(object.clone());
        }
        index.list_ended(kind, &listed);
    }
}
