//! Checks every commit against the invariants. The rules are implemented independently of the controller.

use super::allowed::{self, LAUNCH, RESERVATIONS, SEQUENCES};
use super::hand_over_order::{self, HandOverOrder};
use super::launch_order::{self, LaunchOrder};
use super::node_order::NodeOrder;
use super::release_order::ReleaseOrder;
use super::seen::Seen;
use super::unchanged;
use super::world::{self, World};
use crate::embedded::LEASE;
use crate::kinds::Kind;
use crate::store::{Author, Change, Observer};
use jiff::{SignedDuration, Timestamp};
use rollcall_api::names;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The name of the invariant, such as `S1`.
    pub invariant: &'static str,
    pub detail: String,
}

pub struct HistoryState {
    pub violations: Vec<Violation>,
    /// Hash of all commits in order.
    pub hash: u64,
    /// Number of all commits.
    pub commits: u64,
    /// Number of commits of the controllers, without leases.
    pub written: u64,
    /// Number of commits of users. Each is a disturbance.
    pub disturbed: u64,
    /// Time of the last commit of a controller, without leases.
    pub last_write: Option<Timestamp>,
    pub release_order: ReleaseOrder,
    pub node_order: NodeOrder,
    pub launch_order: LaunchOrder,
    pub hand_over_order: HandOverOrder,
    /// Whether writes may be carried out long after they were sent. A node may then temporarily get an old journal.
    pub writes_come_late: bool,
    /// One line per commit, if logging is enabled.
    pub log: Option<Vec<String>>,
    world: &'static World,
    seen: Seen,
    generations: BTreeMap<String, i64>,
    /// The leader, and the value of [`Seen::moment`] when it became leader.
    holder: Option<(String, u64)>,
    /// A leader whose lease was deleted, and until when it may still believe that it leads. Another process can become
    /// leader immediately, because it finds no lease.
    unaware: Option<(String, Timestamp)>,
}

#[derive(Clone)]
pub struct History(Arc<Mutex<HistoryState>>);

impl History {
    pub fn new(world: &'static World, seen: Seen) -> History {
        History(Arc::new(Mutex::new(HistoryState {
            violations: Vec::new(),
            hash: 0,
            commits: 0,
            written: 0,
            disturbed: 0,
            last_write: None,
            release_order: ReleaseOrder::new(world, seen.clone()),
            node_order: NodeOrder::new(world, seen.clone()),
            launch_order: LaunchOrder::new(world, seen.clone()),
            hand_over_order: HandOverOrder::default(),
            writes_come_late: false,
            world,
            log: None,
            seen,
            generations: BTreeMap::new(),
            holder: None,
            unaware: None,
        })))
    }

    pub fn state(&self) -> MutexGuard<'_, HistoryState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for History {
    fn committed(&mut self, change: &Change) {
        let mut state = self.state();
        state.commits += 1;
        state.add_to_hash(change.object.json());
        state.add_to_hash(&[u8::from(change.deleted)]);
        if let Some(log) = &mut state.log {
            log.push(log_line(change));
        }
        match change.author {
            Author::Controller(number) => state.check_write(change, number),
            Author::User => state.disturbed += 1,
            Author::Cluster => {}
        }
        match change.key.kind {
            Kind::Pod => {
                state.release_order.pod(change);
                let found = state.node_order.pod(change);
                state.violations.extend(found);
                let found = state.launch_order.pod(change);
                state.violations.extend(found);
                let found = state.hand_over_order.pod(change);
                state.violations.extend(found);
            }
            Kind::ConfigMap => state.launch_order.config_map(change),
            Kind::Node => state.node_order.node(change),
            Kind::CsiNode => state.node_order.csi_node(change),
            Kind::Job => state.release_order.job(change),
            Kind::PodSequence => state.sequence(change),
            Kind::Ticket => {
                state.hand_over_order.ticket(change);
                state.generation(change);
            }
            Kind::Order => state.generation(change),
            Kind::Lease => state.lease(change),
            _ => {}
        }
    }
}

impl HistoryState {
    /// FNV-1a, eight bytes at a time.
    fn add_to_hash(&mut self, bytes: &[u8]) {
        let mut hash = if self.hash == 0 { 0xcbf2_9ce4_8422_2325 } else { self.hash };
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            hash = (hash ^ u64::from_le_bytes(*word)).wrapping_mul(0x0100_0000_01b3);
            hash ^= hash >> 29;
        }
        for byte in rest {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.hash = hash;
    }

    fn broken(&mut self, invariant: &'static str, detail: impl Into<String>) {
        self.violations.push(Violation { invariant, detail: detail.into() });
    }

    fn check_write(&mut self, change: &Change, number: usize) {
        let key = &change.key;
        if key.kind == Kind::Lease {
            return;
        }
        self.written += 1;
        self.last_write = Some(change.at);
        if let Some((holder, since)) = &self.holder
            && *holder != identity(number)
            && *since < self.seen.sent()
            && !self
                .unaware
                .as_ref()
                .is_some_and(|(who, until)| *who == identity(number) && change.at < *until)
        {
            let detail = format!("{} wrote {} although {holder} leads", identity(number), key.name);
            self.broken("S8", detail);
        }
        if !allowed::may_write(self.world, change) {
            let (plural, namespace) = (key.kind.info().plural, &key.namespace);
            return self.broken("S6", format!("a write to {plural} {namespace}/{}", key.name));
        }
        match key.kind {
            Kind::Pod => self.check_pod_write(change, number),
            Kind::PodSequence => self.check_report(change, number),
            Kind::ConfigMap if &*key.namespace != names::OWN_NAMESPACE => {
                let found = self.launch_order.wrote_barrier(change, number);
                self.violations.extend(found);
            }
            Kind::Node => self.check_node_write(change, number),
            Kind::Order | Kind::Ticket | Kind::PriorityClass => self.check_reservation_write(change, number),
            _ => {}
        }
    }

    /// Checks a commit of a controller to a pod.
    fn check_pod_write(&mut self, change: &Change, number: usize) {
        let name = &*change.key.name;
        let goes = change.deleted || change.object.is_terminating();
        let Some(before) = change.before.as_ref().filter(|_| !goes) else {
            if goes && !self.seen.knew(number, change.object.uid()) {
                self.broken("S7", format!("{} has not seen this pod {name}", identity(number)));
            }
            let found = self.hand_over_order.made_or_deleted_pod(change);
            return self.violations.extend(found);
        };
        let unchanged_except =
            |feature| unchanged::unchanged_except(before, &change.object, feature, self.world.full);
        let (by_launch, in_bounds) =
            (self.world.full && unchanged_except(&LAUNCH), unchanged_except(&SEQUENCES));
        let by_reservation = self.world.reservation && unchanged_except(&RESERVATIONS);
        if !by_launch && !in_bounds && !by_reservation {
            self.broken("S2", format!("fields of pod {name} changed that no feature may change"));
        }
        if !self.seen.knew(number, change.object.uid()) {
            self.broken("S7", format!("{} has not seen this pod {name}", identity(number)));
        }
        if world::is_held(before) && !world::is_held(&change.object) {
            let found = self.release_order.released(change, number);
            self.violations.extend(found);
            let found = self.node_order.released(change, number);
            self.violations.extend(found);
        } else if by_launch {
            let found = self.launch_order.wrote_pod(before, change);
            self.violations.extend(found);
        } else if by_reservation {
            let found = self.hand_over_order.wrote_pod(before, change);
            self.violations.extend(found);
        } else {
            self.broken("S2", format!("pod {name} was changed but not released"));
        }
    }

    /// Checks a commit of a controller to a node.
    fn check_node_write(&mut self, change: &Change, number: usize) {
        let name = &*change.key.name;
        let before = change.before.as_ref().filter(|_| !change.deleted);
        let Some(before) = before else { return self.broken("S6", format!("created/deleted node {name}")) };
        if let Some(what) = unchanged::changed_foreign_field(before, &change.object) {
            self.broken("S3", format!("{what} of node {name} changed"));
        }
        let forgotten =
            unchanged::lost_completion_on_node(before, &change.object).filter(|_| !self.writes_come_late);
        if let Some(group) = forgotten {
            self.broken("S9", format!("node {name} lost the completion time of {group}"));
        }
        if let Some(key) = unchanged::unknown_mark(self.world, &change.object) {
            self.broken("S3", format!("{key} on node {name} belongs to no sequence in Node scope"));
        }
        if !self.seen.knew(number, change.object.uid()) {
            self.broken("S7", format!("{} has not seen this node {name}", identity(number)));
        }
    }

    /// Checks a commit of a controller to a sequence.
    fn check_report(&mut self, change: &Change, number: usize) {
        let (name, before) = (&change.key.name, change.before.as_ref());
        if before.is_none_or(|before| before["spec"] != change.object["spec"]) {
            self.broken("S2", format!("the spec of {name} was changed"));
        }
        if !self.seen.knew(number, change.object.uid()) {
            self.broken("S7", format!("{} has not seen this sequence {name}", identity(number)));
        }
        // In Node scope a status may lose a completion when a node joins. The nodes keep the journals.
        let by_nodes = self.world.rules.iter().any(|rule| rule.key() == change.key && rule.guard.is_some());
        let begun_again = before
            .is_some_and(|before| before["status"]["begunAgain"] != change.object["status"]["begunAgain"]);
        let before = before.filter(|_| !by_nodes && !begun_again);
        if let Some(lost) = before.and_then(|before| lost_completion(before, &change.object)) {
            self.broken("S9", format!("{name} lost the completion time of {lost}"));
        }
    }

    /// Checks a commit of a controller to an Order, a ticket or a PriorityClass.
    fn check_reservation_write(&mut self, change: &Change, number: usize) {
        let found = match change.key.kind {
            Kind::Ticket => self.hand_over_order.wrote_ticket(change),
            Kind::PriorityClass => hand_over_order::made_class(change),
            _ => hand_over_order::wrote_order(change),
        };
        self.violations.extend(found);
        if change.before.is_some() && !self.seen.knew(number, change.object.uid()) {
            self.broken("S7", format!("{} has not seen this {}", identity(number), change.key.name));
        }
    }

    fn sequence(&mut self, change: &Change) {
        self.node_order.sequence(change);
        let found = self.release_order.sequence(change);
        self.violations.extend(found);
        self.generation(change);
    }

    fn generation(&mut self, change: &Change) {
        if change.deleted {
            return;
        }
        let generation = change.object["status"]["observedGeneration"].as_i64().unwrap_or_default();
        let known = self.generations.entry(change.object.uid().to_owned()).or_default();
        let went_back = generation < *known;
        *known = generation.max(*known);
        if went_back {
            self.broken("S9", format!("observedGeneration went back to {generation}"));
        }
    }

    fn lease(&mut self, change: &Change) {
        if change.deleted {
            let until = change.at + SignedDuration::try_from(LEASE).unwrap_or_default();
            self.unaware = self.holder.take().map(|(holder, _)| (holder, until));
        }
        let holder = change.after().and_then(|lease| lease["spec"]["holderIdentity"].as_str());
        let holder = holder.filter(|holder| !holder.is_empty()).map(str::to_owned);
        if self.holder.as_ref().map(|(known, _)| known) != holder.as_ref() {
            let moment = self.seen.moment();
            self.holder = holder.map(|holder| (holder, moment));
        }
    }
}

/// Formats a commit in one line: time, author, object and state.
fn log_line(change: &Change) -> String {
    let Change { key, at, author, object, deleted, .. } = change;
    let who = match author {
        Author::Controller(number) => identity(*number),
        Author::User => "user".into(),
        Author::Cluster => "cluster".into(),
    };
    let detail = match key.kind {
        Kind::PodSequence => {
            let status = &object["status"];
            let group = |group: &Value| format!("{} {}", group["name"], group["state"]);
            let groups = status["groups"].as_array().into_iter().flatten().map(group);
            format!(
                "generation {} observed {} {}: {} [{}]",
                object["metadata"]["generation"],
                status["observedGeneration"],
                status["phase"],
                status["message"],
                groups.collect::<Vec<_>>().join(", ")
            )
        }
        Kind::Pod if world::is_held(object) => "held".into(),
        Kind::Pod => {
            let more = [launch_order::describe_pod(object), hand_over_order::describe_pod(object)].concat();
            format!("{} {}{more}", object["status"]["phase"], object["spec"]["nodeName"])
        }
        Kind::ConfigMap => object["data"].to_string(),
        Kind::Ticket => hand_over_order::describe_ticket(object),
        Kind::Order => object["status"]["message"].to_string(),
        Kind::Node => unchanged::describe_node(object),
        Kind::CsiNode => object["spec"]["drivers"].to_string(),
        Kind::Event => format!("{} {}", object["reason"], object["note"]),
        _ => String::new(),
    };
    let gone = if *deleted { "deleted " } else { "" };
    format!("{at} {who}: {} {}/{} {gone}{detail}", key.kind.info().plural, key.namespace, key.name)
}

/// The identity of a controller in its lease.
pub fn identity(number: usize) -> String {
    format!("controller-{number}")
}

/// The name of a group that is in both statuses and has lost its completion time.
fn lost_completion<'a>(before: &'a Value, after: &Value) -> Option<&'a str> {
    let groups = |object: &'a Value| object["status"]["groups"].as_array().into_iter().flatten();
    let after = after["status"]["groups"].as_array()?;
    let lost = groups(before).find(|group| {
        let now = after.iter().find(|now| now["name"] == group["name"]);
        group["completedAt"].is_string() && now.is_some_and(|now| now["completedAt"].is_null())
    });
    lost?["name"].as_str()
}
