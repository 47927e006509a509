//! A minimal cluster for reservations: objects by name, a scheduler that counts one resource, and kubelets that start bound
//! pods immediately. Every decision is audited, and every write is recorded.

use jiff::SignedDuration;
use rollcall_core::{
    Timestamp, Uid,
    cluster::{Refusal, Target, WriteEffect as Sent},
    decision::{Action, Delete, Event, New, NewGuardian, NewTicket, Nominate, Report},
    dispatch::{check, decide, keep},
    facts::{OwnerKind, OwnerRef, Pod, PodPhase, Trouble},
    gates,
    index::{Answer, Index, Object},
    key::Key,
    kind::Kind,
    node::{Node, Placement, Taint},
    quantity::Quantity,
    reservation::spec::{
        Order, OrderSpec, Places, PriorityClass, Refresh, Request, RequestedTicket, Strategy, Template,
        Ticket, TicketRecord, TicketSpec,
    },
    reservation::{
        Facts,
        status::{OrderStatus, order_status},
    },
    sequence::{Settings, index::Mode},
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub const NAMESPACE: &str = "infra";

pub struct World {
    pub index: Index,
    pub now: Timestamp,
    version: u64,
    pub tickets: BTreeMap<Arc<str>, Ticket>,
    pub pods: BTreeMap<Arc<str>, Pod>,
    /// The request of each pod.
    sizes: BTreeMap<Uid, Quantity>,
    capacity: BTreeMap<Arc<str>, Quantity>,
    wakes: BTreeMap<Key, Timestamp>,
    /// All writes, in order.
    pub done: Vec<String>,
    pub events: Vec<Event>,
    pub statuses: BTreeMap<Uid, OrderStatus>,
    /// Pods that the scheduler ignores.
    pub stuck: BTreeSet<Arc<str>>,
    /// Pods that the scheduler always rejects.
    pub rejected: BTreeSet<Arc<str>>,
    /// Pods whose nominations and deletions are never answered.
    pub silent: BTreeSet<Arc<str>>,
    /// The number of writes after which the controller dies.
    pub dies_after: Option<usize>,
    classes: BTreeMap<Arc<str>, i32>,
    pub decisions: usize,
    /// Nominations and creations of classes are sent, but not answered.
    pub deaf: bool,
    /// While it is deaf, writes of claims are not answered either.
    pub lost_claims: bool,
    pub unanswered: Vec<Target>,
}

pub fn quantity(text: &str) -> Quantity {
    text.parse().expect("a quantity")
}

pub fn room(cpu: &str) -> BTreeMap<Arc<str>, Quantity> {
    [("cpu".into(), quantity(cpu))].into_iter().collect()
}

pub fn node(name: &str) -> Node {
    Node {
        uid: Uid::digest(name),
        name: name.into(),
        version: 0,
        created: Timestamp::UNIX_EPOCH,
        labels: [("kubernetes.io/os", "linux")].into_iter().collect(),
        taints: Vec::<Taint>::new(),
        unschedulable: false,
        conditions: [Arc::from("Ready")].into_iter().collect(),
        not_ready_since: None,
        resources: BTreeSet::new(),
        annotated: true,
        journals: BTreeMap::new(),
        terminating: false,
    }
}

pub fn ticket_spec(cpu: &str) -> TicketSpec {
    TicketSpec {
        ttl: SignedDuration::from_hours(1),
        retain: false,
        start: None,
        duration: None,
        priority_class: None,
        requests: room(cpu),
        placement: Placement::default(),
        text: "{}".into(),
    }
}

pub fn order_spec(places: Places, cpu: &str) -> OrderSpec {
    OrderSpec {
        paused: false,
        places,
        strategy: Strategy::OneTime,
        refresh: Refresh::OnClaim,
        selector: None,
        min_ready: SignedDuration::ZERO,
        template: Template { spec: Arc::new(ticket_spec(cpu)), hash: "1".into(), metadata: "{}".into() },
    }
}

impl World {
    /// Creates a world with these nodes, each with this capacity.
    pub fn new(nodes: &[&str], capacity: &str) -> World {
        let mut world = World {
            index: Index::new(Mode { full: true, reservations: true, ..Mode::default() }),
            now: Timestamp::from_second(1_800_000_000).expect("a time"),
            version: 10,
            tickets: BTreeMap::new(),
            pods: BTreeMap::new(),
            sizes: BTreeMap::new(),
            capacity: BTreeMap::new(),
            wakes: BTreeMap::new(),
            done: Vec::new(),
            events: Vec::new(),
            statuses: BTreeMap::new(),
            stuck: BTreeSet::new(),
            rejected: BTreeSet::new(),
            silent: BTreeSet::new(),
            dies_after: None,
            classes: BTreeMap::new(),
            decisions: 0,
            deaf: false,
            lost_claims: false,
            unanswered: Vec::new(),
        };
        world.list_nothing();
        for name in nodes {
            world.set_node(node(name), capacity);
        }
        world
    }

    fn list_nothing(&mut self) {
        for kind in self.index.kinds() {
            self.index.list_begins(kind, 1);
            self.index.list_ended(kind, &BTreeSet::new());
        }
    }

    /// Starts another controller, which knows only the objects in the cluster. Orders are not among them.
    pub fn restart(&mut self) {
        self.index = Index::new(Mode { full: true, reservations: true, ..Mode::default() });
        (self.dies_after, self.wakes, self.unanswered) = (None, BTreeMap::new(), Vec::new());
        self.list_nothing();
        for (name, capacity) in self.capacity.clone() {
            self.set_node(node(&name), &capacity.to_string());
        }
        for (name, value) in self.classes.clone() {
            self.class(&name, value);
        }
        for ticket in self.tickets.values() {
            self.index.apply(Object::Ticket(Box::new(ticket.clone())));
        }
        for pod in self.pods.values() {
            self.index.apply(Object::Pod(pod.clone()));
        }
    }

    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    pub fn set_node(&mut self, mut node: Node, capacity: &str) {
        node.version = self.next_version();
        self.capacity.insert(node.name.clone(), quantity(capacity));
        self.index.apply(Object::Node(node));
    }

    pub fn remove_node(&mut self, name: &str) {
        self.capacity.remove(name);
        let mut gone = node(name);
        gone.version = self.next_version();
        self.index.delete(Object::Node(gone));
    }

    pub fn order(&mut self, name: &str, spec: OrderSpec) -> Uid {
        let uid = Uid::digest(name);
        let known = self
            .index
            .reservations
            .order(uid)
            .map(|entry| (entry.order.created, entry.order.generation, entry.order.last_tick));
        let (created, generation, last_tick) = known.unwrap_or((self.now, 0, None));
        let order = Order {
            uid,
            namespace: NAMESPACE.into(),
            name: name.into(),
            version: self.next_version(),
            generation: generation + 1,
            created,
            terminating: false,
            last_tick,
            spec: Ok(Arc::new(spec)),
        };
        self.index.apply(Object::Order(Box::new(order)));
        uid
    }

    /// Returns the status of an Order before any further decision.
    pub fn status_now(&self, uid: Uid) -> OrderStatus {
        let facts = Facts { cluster: &self.index.cluster, reservations: &self.index.reservations };
        let entry = self.index.reservations.order(uid).expect("an Order");
        order_status(facts, entry, self.now).0
    }

    /// Writes the status of an Order.
    fn report(&mut self, uid: Uid, status: OrderStatus) {
        let known = self.index.reservations.order(uid).map(|entry| entry.order.clone());
        if let Some(order) = known.filter(|order| order.last_tick != status.last_schedule) {
            let version = self.next_version();
            let order = Order { version, last_tick: status.last_schedule, ..order };
            self.index.apply_answer(Object::Order(Box::new(order)));
        }
        self.statuses.insert(uid, status);
    }

    pub fn ticket_by_hand(&mut self, name: &str, spec: TicketSpec) {
        let ticket = Ticket {
            uid: Uid::digest(&format!("{name}/{}", self.version)),
            namespace: NAMESPACE.into(),
            name: name.into(),
            version: self.next_version(),
            generation: 1,
            created: self.now,
            terminating: false,
            labels: Default::default(),
            order: None,
            index: None,
            template: None,
            tick: None,
            node: None,
            spec: Ok(Arc::new(spec)),
            record: TicketRecord::default(),
        };
        self.tickets.insert(name.into(), ticket.clone());
        self.index.apply(Object::Ticket(Box::new(ticket)));
    }

    pub fn class(&mut self, name: &str, value: i32) {
        let (uid, version) = (Uid::digest(name), self.next_version());
        let never_preempts = name.starts_with("korder-guardian-");
        let class =
            PriorityClass { uid, name: name.into(), version, value, global_default: false, never_preempts };
        self.index.apply(Object::PriorityClass(class));
        self.classes.insert(name.into(), value);
    }

    fn pod_of(&mut self, name: &str) -> Pod {
        Pod {
            uid: Uid::digest(&format!("{name}/{}", self.version)),
            namespace: NAMESPACE.into(),
            name: name.into(),
            version: self.next_version(),
            labels: Default::default(),
            owner: None,
            gates: Vec::new(),
            node: None,
            nominated: None,
            constraints: None,
            phase: PodPhase::Pending,
            ready: false,
            started: false,
            runs_to_completion: false,
            terminating: false,
            released_by_hand: false,
            created: self.now,
            since: self.now,
            trouble: None,
            launch: None,
            request: None,
        }
    }

    /// Creates a pod that requests a ticket.
    pub fn add_claiming_pod(&mut self, name: &str, wanted: RequestedTicket, cpu: &str) -> Uid {
        let mut pod = self.pod_of(name);
        pod.gates = vec![gates::TICKET.into()];
        let (resources, placement) = (room(cpu), Placement::default());
        pod.request =
            Some(Box::new(Request { wanted, labels: Default::default(), resources, priority: 0, placement }));
        self.put_new(pod, cpu)
    }

    /// Creates a pod without gates and requests for tickets.
    pub fn stranger(&mut self, name: &str, cpu: &str) -> Uid {
        let pod = self.pod_of(name);
        self.put_new(pod, cpu)
    }

    pub fn put_new(&mut self, pod: Pod, cpu: &str) -> Uid {
        let uid = pod.uid;
        self.sizes.insert(uid, quantity(cpu));
        self.put(pod);
        uid
    }

    pub fn put(&mut self, mut pod: Pod) {
        pod.version = self.next_version();
        self.pods.insert(pod.name.clone(), pod.clone());
        self.index.apply(Object::Pod(pod));
    }

    pub fn change_pod(&mut self, name: &str, change: impl FnOnce(&mut Pod)) {
        let mut pod = self.pods[name].clone();
        change(&mut pod);
        self.put(pod);
    }

    /// Applies a write of the controller to a pod, and its answer.
    fn write_pod(&mut self, name: &str, change: impl FnOnce(&mut Pod)) {
        let mut pod = self.pods[name].clone();
        change(&mut pod);
        pod.version = self.next_version();
        self.pods.insert(pod.name.clone(), pod.clone());
        self.index.pod_write_sent(&Target::of_pod(&pod), Sent::default());
        self.index.pod_write_answered(pod.uid, Answer::Done(Box::new(pod)));
    }

    pub fn remove_pod(&mut self, name: &str) {
        self.next_version();
        if let Some(pod) = self.pods.remove(name) {
            self.index.delete(Object::Pod(pod));
        }
    }

    /// Changes a ticket as a foreign actor.
    pub fn change_ticket(&mut self, name: &str, change: impl FnOnce(&mut Ticket)) {
        let mut ticket = self.tickets[name].clone();
        change(&mut ticket);
        ticket.version = self.next_version();
        self.tickets.insert(ticket.name.clone(), ticket.clone());
        self.index.apply(Object::Ticket(Box::new(ticket)));
    }

    pub fn remove_ticket(&mut self, name: &str) {
        self.next_version();
        if let Some(ticket) = self.tickets.remove(name) {
            // This is the garbage collector's part.
            let guardian = format!("korder-guardian-{name}");
            self.index.delete(Object::Ticket(Box::new(ticket)));
            self.remove_pod(&guardian);
        }
    }

    /// Creates a guardian whose creation was requested long ago.
    pub fn late_guardian(&mut self, ticket: &str) {
        let mut pod = self.pod_of(&format!("korder-guardian-{ticket}"));
        pod.owner = Some(OwnerRef { kind: OwnerKind::Other, uid: self.tickets[ticket].uid });
        self.put_new(pod, "100m");
    }

    /// Runs until nothing more happens at the current time.
    pub fn settle(&mut self) {
        for turn in 0.. {
            assert!(
                turn < 10_000,
                "it does not come to rest: {:?}",
                self.done.iter().rev().take(20).collect::<Vec<_>>()
            );
            let due = self.wakes.iter().filter(|(_, at)| **at <= self.now).map(|(key, _)| *key);
            let keys: BTreeSet<Key> = self.index.take_touched().into_iter().chain(due).collect();
            let bound = self.schedule();
            if keys.is_empty() && !bound {
                return;
            }
            for key in keys {
                self.decide(key);
            }
        }
    }

    /// Makes one decision and carries it out.
    pub fn decide(&mut self, key: Key) {
        self.wakes.remove(&key);
        self.decisions += 1;
        let decision = decide(&self.index, key, Settings::default(), self.now, 8);
        let violations = check(&self.index, key, &decision, self.now);
        assert_eq!(violations, [], "{key:?}");
        keep(&mut self.index, key, decision.keep);
        if let Some(at) = decision.wake_at {
            assert!(at > self.now, "{key:?} wakes at once, for ever");
            self.wakes.insert(key, at);
        }
        if decision.more {
            self.wakes.insert(key, self.now);
        }
        if let Some(Report::Order(status)) = decision.report {
            self.report(key.uid(), *status);
        }
        self.events.extend(decision.events);
        for action in decision.actions {
            self.act(action);
        }
    }

    /// Ends all unanswered writes: none of them was done.
    pub fn give_up(&mut self, refusal: Option<Refusal>) {
        for target in std::mem::take(&mut self.unanswered) {
            match target.uid.filter(|_| target.kind == Kind::Pod) {
                Some(pod) => {
                    let answer = refusal.clone().map_or(Answer::NotDone, Answer::Refused);
                    self.index.pod_write_answered(pod, answer);
                }
                None => self.index.reservation_write_ended(&target),
            }
        }
    }

    /// Records an action whose answer gets lost; returns whether it is lost.
    fn is_lost(&mut self, action: &Action) -> bool {
        let silent = |target: &Target| self.silent.contains(&target.name);
        let (target, effect) = match action {
            Action::Nominate(Nominate { target, .. }) if silent(target) => (target, Sent::default()),
            Action::Delete(Delete { target, .. }) if silent(target) => (target, Sent::default()),
            Action::PatchPod(_) | Action::Delete(_) => return false,
            _ if !self.deaf => return false,
            Action::Nominate(nominate) => (&nominate.target, Sent::default()),
            Action::Create(new) if matches!(**new, New::PriorityClass { .. }) => {
                (new.target(), Sent::default())
            }
            Action::WriteTicket(write) if self.lost_claims && write.record.claim.is_some() => {
                (&write.target, write.effect())
            }
            _ => return false,
        };
        match target.kind {
            Kind::Pod => self.index.pod_write_sent(target, effect),
            _ => drop(self.index.cluster.in_flight.begin(target, effect)),
        }
        self.unanswered.push(target.clone());
        true
    }

    fn act(&mut self, action: Action) {
        if let Some(left) = &mut self.dies_after {
            match left.checked_sub(1) {
                Some(less) => *left = less,
                None => return,
            }
        }
        if self.is_lost(&action) {
            return;
        }
        match action {
            Action::Create(new) => match *new {
                New::Ticket(new) => self.make_ticket(&new),
                New::Guardian(new) => self.make_guardian(&new),
                New::PriorityClass { target, priority } => {
                    self.done.push(format!("class {}", target.name));
                    self.class(&target.name, priority);
                }
            },
            Action::Delete(delete) => {
                let name = delete.target.name.clone();
                self.done.push(format!("delete {} {name}", delete.target.kind.as_str()));
                match delete.target.kind {
                    Kind::Ticket => {
                        let ticket =
                            self.tickets.remove(&name).filter(|ticket| Some(ticket.uid) == delete.target.uid);
                        self.index.delete_ticket(ticket.expect("by uid").uid);
                    }
                    _ => {
                        let pod = self.pods.remove(&name).filter(|pod| Some(pod.uid) == delete.target.uid);
                        self.index.pod_write_sent(&delete.target, Sent::default());
                        self.index.pod_write_answered(pod.expect("by uid").uid, Answer::Gone);
                    }
                }
            }
            Action::WriteTicket(write) => {
                let mut ticket = self.tickets[&write.target.name].clone();
                assert_eq!((Some(ticket.uid), ticket.version), (write.target.uid, write.version));
                let phase = write.record.phase.expect("a phase").as_str();
                self.done.push(format!("{} is {phase} ({})", ticket.name, write.record.reason));
                ticket.record = write.record;
                ticket.version = self.next_version();
                self.tickets.insert(ticket.name.clone(), ticket.clone());
                self.index.apply_answer(Object::Ticket(Box::new(ticket)));
            }
            Action::Nominate(nominate) => {
                let node = nominate.node.clone();
                self.done.push(format!(
                    "nominate {} for {}",
                    nominate.target.name,
                    node.as_deref().unwrap_or("nothing")
                ));
                self.write_pod(&nominate.target.name, |pod| {
                    pod.nominated = node;
                    // Without the annotation, no other field shows that the pod wanted a ticket.
                    if !nominate.forget.is_empty() {
                        pod.request = None;
                    }
                });
            }
            Action::PatchPod(patch) => {
                let results: Vec<String> = patch.annotations.iter().map(|(_, value)| value.clone()).collect();
                self.done.push(format!("release {} {}", patch.name, results.join(" ")).trim().to_owned());
                self.write_pod(&patch.name, |pod| {
                    pod.gates.clear();
                    if patch.annotations.is_empty() {
                        pod.request = None;
                    }
                });
            }
            other => panic!("{other:?} is none of its business"),
        }
    }

    fn make_ticket(&mut self, new: &NewTicket) {
        assert!(!self.tickets.contains_key(&new.target.name), "{} is there", new.target.name);
        self.done.push(format!("ticket {}", new.target.name));
        let ticket = Ticket {
            uid: Uid::digest(&format!("{}/{}", new.target.name, self.version)),
            namespace: new.target.namespace.clone(),
            name: new.target.name.clone(),
            version: self.next_version(),
            generation: 1,
            created: self.now,
            terminating: false,
            labels: Default::default(),
            order: Some(new.order),
            index: new.index,
            template: Some(new.template.hash.clone()),
            tick: new.tick,
            node: new.node.clone(),
            spec: Ok(new.template.spec.clone()),
            record: TicketRecord::default(),
        };
        self.tickets.insert(ticket.name.clone(), ticket.clone());
        self.index.apply_answer(Object::Ticket(Box::new(ticket)));
    }

    fn make_guardian(&mut self, new: &NewGuardian) {
        assert!(!self.pods.contains_key(&new.target.name), "{} is there", new.target.name);
        self.done.push(format!("guardian {}", new.target.name));
        let mut pod = self.pod_of(&new.target.name);
        pod.owner = Some(OwnerRef { kind: OwnerKind::Other, uid: new.ticket });
        if let Some(node) = &new.node {
            pod.constraints = Some(Box::new(rollcall_core::facts::NodeConstraints {
                pin: Some(rollcall_core::facts::Pin::Name(node.clone())),
                ..Default::default()
            }));
        }
        let cpu = new.spec.requests.values().next().copied().expect("something");
        self.sizes.insert(pod.uid, cpu);
        self.put(pod);
    }

    /// Binds and starts one pod, or rejects one and clears its nomination. Capacity for a nominated pod is not available to
    /// others.
    fn schedule(&mut self) -> bool {
        let waiting: Vec<Pod> =
            self.pods.values().filter(|pod| pod.node.is_none() && pod.gates.is_empty()).cloned().collect();
        for mut pod in waiting.into_iter().filter(|pod| !self.stuck.contains(&pod.name)) {
            let nodes: Vec<Arc<str>> =
                pod.nominated.clone().into_iter().chain(self.capacity.keys().cloned()).collect();
            let pinned = self.index.cluster.node_of(&pod);
            let fits = |node: &&Arc<str>| {
                pinned.as_ref().is_none_or(|pinned| pinned == *node)
                    && self.has_room(node, &pod)
                    && !self.rejected.contains(&pod.name)
            };
            let found = nodes.iter().find(fits).cloned();
            let trouble = found.is_none().then(|| Trouble { container: None, what: "Unschedulable".into() });
            if found.is_none() && pod.trouble == trouble && pod.nominated.is_none() {
                continue;
            }
            pod.nominated = None;
            if found.is_some() {
                (pod.phase, pod.started, pod.ready) = (PodPhase::Running, true, true);
            }
            (pod.node, pod.trouble) = (found, trouble);
            self.put(pod);
            return true;
        }
        false
    }

    fn has_room(&self, node: &Arc<str>, pod: &Pod) -> bool {
        let Some(capacity) = self.capacity.get(node) else { return false };
        let takes = |other: &&Pod| {
            let nominated = other.node.is_none() && other.nominated.as_ref() == Some(node);
            other.uid != pod.uid && (other.node.as_ref() == Some(node) || nominated)
        };
        let taken: i128 = self.pods.values().filter(takes).map(|other| self.sizes[&other.uid].nanos()).sum();
        taken + self.sizes[&pod.uid].nanos() <= capacity.nanos()
    }

    /// Advances the time, and processes everything that becomes due.
    pub fn pass(&mut self, seconds: i64) {
        let end = self.now + SignedDuration::from_secs(seconds);
        self.settle();
        while let Some(next) = self.wakes.values().copied().filter(|at| *at <= end).min() {
            self.now = next.max(self.now);
            self.settle();
        }
        self.now = end;
        self.settle();
    }

    /// Lists the tickets with their phases: `agents-n1 Reserved`.
    pub fn phases(&self) -> Vec<String> {
        self.tickets.values().map(|ticket| format!("{} {}", ticket.name, ticket.phase().as_str())).collect()
    }

    pub fn take_done(&mut self) -> Vec<String> {
        std::mem::take(&mut self.done)
    }
}
