//! The index of Orders, tickets, PriorityClasses and pods that wait for a ticket, with the lookups that decisions need.

mod hand_overs;
mod place;
mod served;

pub use hand_overs::{HandOver, HandOvers};
pub use place::{OrderEntry, Place, Tally};

use served::Served;

use super::budget::{MOST_ORDERS, MOST_TICKETS};
use super::hand_over::MOST_AT_ONCE;
use super::names::{guardian_of, ticket_of_guardian};
use super::orphan;
use super::spec::{Order, PriorityClass, Ticket, TicketPhase};
use crate::{
    Timestamp, Uid,
    cluster::{
        Cluster, Refusal, Target,
        table::{fact, tables},
    },
    facts::{OwnerKind, Pod},
    gates,
    key::Touched,
    kind::Kind,
    node::Node,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Debug, Default)]
pub struct Reservations {
    orders: BTreeMap<Uid, OrderEntry>,
    order_names: BTreeMap<(Arc<str>, Arc<str>), Uid>,
    /// By namespace.
    order_numbers: BTreeMap<Arc<str>, usize>,
    tickets: BTreeMap<Uid, Ticket>,
    ticket_names: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Uid>>,
    /// By namespace.
    served: BTreeMap<Arc<str>, Served>,
    /// The ticket that each pod has claimed.
    claimed_by: BTreeMap<Uid, Uid>,
    classes: BTreeMap<Arc<str>, PriorityClass>,
    /// Pods with the ticket gate, by namespace.
    waiting: BTreeMap<Arc<str>, BTreeMap<Uid, WaitingPodState>>,
    hand_overs: HandOvers,
    /// Claiming pods that are released and not bound, by ticket.
    released: BTreeMap<Uid, ReleasedPodState>,
    /// Pods that may be guardians without a ticket.
    suspects: BTreeSet<Uid>,
    /// The latest rejection of a write for an Order, ticket or pod, by its uid.
    refusals: BTreeMap<Uid, Refusal>,
}

/// The state of a pod that waits for a ticket, in addition to its facts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitingPodState {
    /// Since when the ticket gate has been its only gate.
    pub since: Option<Timestamp>,
    /// The ticket that the controller last tried to claim for it, and the version of that ticket. The write may still take effect
    /// after a timeout, as long as the ticket has that version. Claiming another ticket meanwhile could give the pod two tickets.
    pub tried: Option<(Uid, u64)>,
}

/// The state of a claiming pod that is released and not bound, in addition to its facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleasedPodState {
    /// When this controller first observed it as released.
    pub since: Timestamp,
    /// How often it was nominated again.
    pub nominated_again: u8,
}

pub fn is_gated(pod: &Pod) -> bool {
    pod.gates.iter().any(|gate| **gate == *gates::TICKET)
}

impl Reservations {
    pub fn order(&self, uid: Uid) -> Option<&OrderEntry> {
        self.orders.get(&uid)
    }

    pub fn orders(&self) -> impl Iterator<Item = &OrderEntry> {
        self.orders.values()
    }

    pub fn order_named(&self, namespace: &Arc<str>, name: &Arc<str>) -> Option<&OrderEntry> {
        self.order(*self.order_names.get(&(namespace.clone(), name.clone()))?)
    }

    /// The Orders of a namespace, by name.
    pub fn orders_in(&self, namespace: &Arc<str>) -> impl Iterator<Item = &OrderEntry> + use<'_> {
        let (from, namespace) = ((namespace.clone(), Arc::from("")), namespace.clone());
        let names = self.order_names.range(from..).take_while(move |((of, _), _)| *of == namespace);
        names.filter_map(|(_, uid)| self.order(*uid))
    }

    pub fn number_of_orders(&self, namespace: &str) -> usize {
        self.order_numbers.get(namespace).copied().unwrap_or_default()
    }

    pub fn number_of_tickets(&self, namespace: &str) -> usize {
        self.ticket_names.get(namespace).map_or(0, BTreeMap::len)
    }

    /// Whether a ticket is not served because the older tickets of its namespace exhaust the budget.
    pub fn is_beyond_budget(&self, ticket: &Ticket) -> bool {
        self.served
            .get(&ticket.namespace)
            .is_some_and(|served| served.is_beyond((ticket.created, ticket.uid)))
    }

    pub fn ticket(&self, uid: Uid) -> Option<&Ticket> {
        self.tickets.get(&uid)
    }

    pub fn tickets(&self) -> impl Iterator<Item = &Ticket> {
        self.tickets.values()
    }

    pub fn ticket_named(&self, namespace: &str, name: &str) -> Option<&Ticket> {
        self.ticket(*self.ticket_names.get(namespace)?.get(name)?)
    }

    pub fn tickets_in(&self, namespace: &str) -> impl Iterator<Item = &Ticket> {
        let names = self.ticket_names.get(namespace).into_iter().flat_map(BTreeMap::values);
        names.filter_map(|uid| self.ticket(*uid))
    }

    /// The ticket that a pod has claimed.
    pub fn claimed_by(&self, pod: Uid) -> Option<&Ticket> {
        self.ticket(*self.claimed_by.get(&pod)?)
    }

    pub fn class(&self, name: &str) -> Option<&PriorityClass> {
        self.classes.get(name)
    }

    pub fn classes(&self) -> impl Iterator<Item = &PriorityClass> {
        self.classes.values()
    }

    pub fn waiting(&self, pod: &Pod) -> Option<&WaitingPodState> {
        self.waiting.get(&pod.namespace)?.get(&pod.uid)
    }

    pub fn hand_overs(&self) -> &HandOvers {
        &self.hand_overs
    }

    /// The claiming pod of a ticket, if it was seen released and not bound.
    pub fn released(&self, ticket: Uid) -> Option<ReleasedPodState> {
        self.released.get(&ticket).copied()
    }

    /// The pods of a namespace that wait for a ticket.
    pub fn waiting_in(&self, namespace: &str) -> impl Iterator<Item = Uid> {
        self.waiting.get(namespace).into_iter().flat_map(BTreeMap::keys).copied()
    }

    pub fn refusal(&self, uid: Uid) -> Option<&Refusal> {
        self.refusals.get(&uid)
    }

    pub fn keys_of_all(&self, touched: &mut Touched) {
        self.orders.keys().for_each(|uid| touched.order(*uid));
        self.tickets.keys().for_each(|uid| touched.ticket(*uid));
        self.waiting.values().flat_map(BTreeMap::keys).for_each(|pod| touched.claim(*pod));
        self.suspects.iter().for_each(|pod| touched.claim(*pod));
    }

    // Orders

    pub fn apply_order(&mut self, cluster: &Cluster, order: Order, touched: &mut Touched) {
        let uid = order.uid;
        if self.order(uid).is_some_and(|known| known.order.version >= order.version) {
            return;
        }
        let name = (order.namespace.clone(), order.name.clone());
        let namesake = self.order_names.insert(name, uid);
        if namesake.is_none() {
            *self.order_numbers.entry(order.namespace.clone()).or_default() += 1;
        }
        if let Some(namesake) = namesake.filter(|other| *other != uid) {
            self.orders.remove(&namesake);
        }
        touched.order(uid);
        match self.orders.get_mut(&uid) {
            Some(entry) if entry.order.spec == order.spec => entry.order = order,
            known => {
                let tickets: Vec<Uid> = match known {
                    Some(entry) => entry.tickets().collect(),
                    None => self
                        .tickets
                        .values()
                        .filter(|ticket| ticket.order == Some(uid))
                        .map(|ticket| ticket.uid)
                        .collect(),
                };
                self.refusals.remove(&uid);
                self.orders.insert(uid, OrderEntry::new(order, cluster.all_nodes()));
                for ticket in tickets {
                    self.count_ticket(ticket);
                    touched.ticket(ticket);
                }
            }
        }
    }

    pub fn delete_order(&mut self, uid: Uid, touched: &mut Touched) {
        let Some(entry) = self.orders.remove(&uid) else { return };
        self.refusals.remove(&uid);
        let name = (entry.order.namespace.clone(), entry.order.name.clone());
        if self.order_names.get(&name) == Some(&uid) {
            self.order_names.remove(&name);
            self.one_order_less(&name.0, touched);
        }
        touched.order(uid);
        entry.tickets().for_each(|ticket| touched.ticket(ticket));
        self.touch_waiting(&entry.order.namespace, touched);
    }

    /// Updates the number of Orders after a deletion. If there were too many, the remaining ones are decided again.
    fn one_order_less(&mut self, namespace: &Arc<str>, touched: &mut Touched) {
        let Some(number) = self.order_numbers.get_mut(namespace) else { return };
        *number -= 1;
        let number = *number;
        if number == 0 {
            self.order_numbers.remove(namespace);
        }
        if number >= MOST_ORDERS {
            self.orders_in(namespace).for_each(|entry| touched.order(entry.order.uid));
        }
    }

    /// Updates the served tickets after a deletion. If there were too many, the next ticket is served now.
    fn one_ticket_less(&mut self, ticket: &Ticket, touched: &mut Touched) {
        let namespace = &ticket.namespace;
        if let Some(served) = self.served.get_mut(namespace) {
            let next = served.remove((ticket.created, ticket.uid));
            next.into_iter().for_each(|next| touched.ticket(next));
            if served.is_empty() {
                self.served.remove(namespace);
            }
        }
        if self.number_of_tickets(namespace) + 1 == MOST_TICKETS {
            self.orders_in(namespace).for_each(|entry| touched.order(entry.order.uid));
        }
    }

    // Tickets

    pub fn apply_ticket(&mut self, cluster: &Cluster, ticket: Ticket, touched: &mut Touched) {
        let uid = ticket.uid;
        if self.ticket(uid).is_some_and(|known| known.version >= ticket.version) {
            return;
        }
        self.ticket_leaves(uid);
        let names = self.ticket_names.entry(ticket.namespace.clone()).or_default();
        let namesake = names.insert(ticket.name.clone(), uid).filter(|other| *other != uid);
        if let Some(claim) = ticket.claim() {
            self.claimed_by.insert(claim.pod, uid);
            touched.claim(claim.pod);
        }
        let namespace = ticket.namespace.clone();
        let served = self.served.entry(namespace.clone()).or_default();
        let displaced = served.add((ticket.created, uid), MOST_TICKETS);
        displaced.into_iter().for_each(|other| touched.ticket(other));
        let before = self.tickets.insert(uid, ticket);
        self.count_ticket(uid);
        self.touch_ticket(uid, touched);
        self.update_hand_over(cluster, uid, touched);
        self.touch_node_of(before.as_ref(), touched);
        let phase = |ticket: Option<&Ticket>| ticket.map(|ticket| (ticket.phase(), ticket.terminating));
        if phase(before.as_ref()) != phase(self.ticket(uid)) {
            self.touch_waiting(&namespace, touched);
        }
        if let Some(namesake) = namesake {
            self.delete_ticket(namesake, touched);
        }
    }

    pub fn delete_ticket(&mut self, uid: Uid, touched: &mut Touched) {
        self.ticket_leaves(uid);
        self.touch_ticket(uid, touched);
        let Some(ticket) = self.tickets.remove(&uid) else { return };
        self.refusals.remove(&uid);
        self.released.remove(&uid);
        self.hand_overs.remove(uid);
        self.touch_node_of(Some(&ticket), touched);
        // The remaining ticket of this place may have waited for the deletion of this ticket's guardian.
        if let Some(entry) = ticket.order.and_then(|order| self.orders.get(&order)) {
            entry.tickets_at(&OrderEntry::place_of(&ticket)).for_each(|other| touched.ticket(other));
        }
        if let Some(names) = self.ticket_names.get_mut(&ticket.namespace) {
            if names.get(&ticket.name) == Some(&uid) {
                names.remove(&ticket.name);
            }
            if names.is_empty() {
                self.ticket_names.remove(&ticket.namespace);
            }
        }
        self.one_ticket_less(&ticket, touched);
        self.touch_waiting(&ticket.namespace, touched);
    }

    fn ticket_leaves(&mut self, uid: Uid) {
        let Some(ticket) = self.tickets.get(&uid) else { return };
        if let Some(claim) = ticket.claim().filter(|claim| self.claimed_by.get(&claim.pod) == Some(&uid)) {
            self.claimed_by.remove(&claim.pod);
        }
        if let Some(entry) = ticket.order.and_then(|order| self.orders.get_mut(&order)) {
            entry.ticket_leaves(ticket, &self.tickets);
        }
    }

    fn count_ticket(&mut self, uid: Uid) {
        let Some(ticket) = self.tickets.get(&uid) else { return };
        if let Some(entry) = ticket.order.and_then(|order| self.orders.get_mut(&order)) {
            entry.ticket_enters(ticket, &self.tickets);
        }
    }

    /// Updates the state of a ticket's claim from the current objects. Other claims of its node may wait for it, so they are
    /// decided again.
    fn update_hand_over(&mut self, cluster: &Cluster, uid: Uid, touched: &mut Touched) {
        let Some(ticket) = self.tickets.get(&uid) else { return };
        self.hand_overs.update(cluster, ticket);
        self.touch_node_of(Some(ticket), touched);
    }

    /// Touches the claims of the node of a claimed ticket.
    fn touch_node_of(&self, ticket: Option<&Ticket>, touched: &mut Touched) {
        let claimed = ticket.filter(|ticket| ticket.claim().is_some());
        if let Some(node) = claimed.and_then(|ticket| ticket.record.node.as_ref()) {
            self.touch_claims_on(node, touched);
        }
    }

    /// Touches the claims of a node that have begun, and those that are next.
    fn touch_claims_on(&self, node: &str, touched: &mut Touched) {
        let fresh = |ticket: &Uid| !self.hand_overs.is_set_back(*ticket);
        let first = self.hand_overs.waiting(node).take(MOST_AT_ONCE);
        let next = self.hand_overs.waiting(node).filter(fresh).take(MOST_AT_ONCE);
        let tickets = self.hand_overs.begun(node).chain(first).chain(next);
        let tickets = tickets.filter_map(|ticket| self.ticket(ticket));
        tickets.filter_map(Ticket::claim).for_each(|claim| touched.claim(claim.pod));
    }

    /// Handles a failed write to a pod. If it was a step of a hand-over, other claims of the node are preferred from now on.
    pub fn step_failed(&mut self, cluster: &Cluster, pod: Uid) {
        let of_guardian = || cluster.pod(pod)?.owner.map(|owner| owner.uid);
        let ticket = self.claimed_by.get(&pod).copied().or_else(of_guardian);
        let claimed = |uid: &Uid| self.ticket(*uid).is_some_and(|ticket| ticket.claim().is_some());
        if let Some(ticket) = ticket.filter(claimed) {
            self.hand_overs.set_back(ticket);
        }
    }

    /// Handles a successful write to a pod. `pod` is its new state.
    pub fn step_succeeded(&mut self, pod: &Pod) {
        let ticket = self.claimed_by(pod.uid).filter(|ticket| ticket.record.node == pod.nominated);
        if let Some(ticket) = ticket.map(|ticket| ticket.uid) {
            self.hand_overs.recover(ticket);
        }
    }

    fn touch_ticket(&self, uid: Uid, touched: &mut Touched) {
        touched.ticket(uid);
        if let Some(order) = self.ticket(uid).and_then(|ticket| ticket.order) {
            touched.order(order);
        }
    }

    /// Handles the end of a write to a ticket. Decisions that waited for it are made again. The watch event alone does not cause
    /// that if it arrives before the response, because the write is still in flight then.
    pub fn write_ended(&self, uid: Uid, touched: &mut Touched) {
        self.touch_ticket(uid, touched);
        if let Some(ticket) = self.ticket(uid) {
            self.touch_waiting(&ticket.namespace, touched);
        }
    }

    fn touch_waiting(&self, namespace: &Arc<str>, touched: &mut Touched) {
        let pods = self.waiting.get(namespace).into_iter().flat_map(BTreeMap::keys);
        pods.for_each(|pod| touched.claim(*pod));
    }

    // Pods

    /// Handles a pod before it is changed or removed.
    pub fn pod_leaves(&self, pod: &Pod, touched: &mut Touched) {
        if let Some(node) = &pod.nominated {
            self.touch_claims_on(node, touched);
        }
    }

    /// Handles a pod that was added or changed.
    pub fn pod_enters(&mut self, cluster: &Cluster, pod: &Pod, touched: &mut Touched) {
        self.touch_related(cluster, pod, touched);
        self.note_suspect(pod, touched);
        if is_gated(pod) && pod.request.is_some() {
            self.waiting.entry(pod.namespace.clone()).or_default().entry(pod.uid).or_default();
            touched.claim(pod.uid);
        } else if !self.waiting.is_empty() {
            self.forget_waiting(pod, touched);
        }
    }

    pub fn pod_gone(&mut self, cluster: &Cluster, pod: &Pod, touched: &mut Touched) {
        self.touch_related(cluster, pod, touched);
        self.suspects.remove(&pod.uid);
        self.forget_waiting(pod, touched);
    }

    /// Records whether a pod may be an orphaned guardian. A guardian of a known ticket is decided with that ticket instead.
    fn note_suspect(&mut self, pod: &Pod, touched: &mut Touched) {
        let owner = pod.owner.filter(|_| orphan::is_suspect(pod)).map(|owner| owner.uid);
        match owner.is_some_and(|owner| !self.tickets.contains_key(&owner)) {
            true => {
                self.suspects.insert(pod.uid);
                touched.claim(pod.uid);
            }
            false => drop(self.suspects.remove(&pod.uid)),
        }
    }

    /// Touches the ticket that the pod guards, the ticket that it has claimed, and the claims of the node for which it is
    /// nominated.
    fn touch_related(&mut self, cluster: &Cluster, pod: &Pod, touched: &mut Touched) {
        if self.tickets.is_empty() {
            return;
        }
        if let Some(node) = &pod.nominated {
            self.touch_claims_on(node, touched);
        }
        let guarded = pod.owner.filter(|owner| owner.kind == OwnerKind::Other).map(|owner| owner.uid);
        for uid in guarded.into_iter().chain(self.claimed_by.get(&pod.uid).copied()) {
            let Some(ticket) = self.tickets.get(&uid) else { continue };
            touched.ticket(uid);
            if let Some(claim) = ticket.claim() {
                touched.claim(claim.pod);
                self.update_hand_over(cluster, uid, touched);
            }
        }
        // A foreign pod with the name of a guardian prevents the creation of that guardian.
        if let Some(ticket) =
            ticket_of_guardian(&pod.name).and_then(|name| self.ticket_named(&pod.namespace, name))
        {
            touched.ticket(ticket.uid);
        }
    }

    fn forget_waiting(&mut self, pod: &Pod, touched: &mut Touched) {
        let Some(pods) = self.waiting.get_mut(&pod.namespace) else { return };
        if pods.remove(&pod.uid).is_some() {
            touched.claim(pod.uid);
        }
        if pods.is_empty() {
            self.waiting.remove(&pod.namespace);
        }
    }

    pub fn keep_waiting(&mut self, pod: &Pod, kept: WaitingPodState) {
        let waiting = self.waiting.get_mut(&pod.namespace).and_then(|pods| pods.get_mut(&pod.uid));
        if let Some(waiting) = waiting {
            *waiting = kept;
        }
    }

    // Nodes

    /// Handles a node that was added, changed or deleted.
    pub fn node_changed(&mut self, name: &Arc<str>, node: Option<&Node>, touched: &mut Touched) {
        for (uid, entry) in &mut self.orders {
            if entry.node_changed(name, node, &self.tickets) {
                touched.order(*uid);
            }
        }
    }

    // Classes

    pub fn apply_class(&mut self, class: PriorityClass, touched: &mut Touched) {
        let known = self.classes.get(&class.name);
        if known.is_some_and(|known| known.uid == class.uid && known.version >= class.version) {
            return;
        }
        let before = self.classes.insert(class.name.clone(), class.clone());
        let same = before.is_some_and(|before| PriorityClass { version: class.version, ..before } == class);
        if !same {
            self.touch_pending(touched);
        }
    }

    pub fn delete_class(&mut self, name: &Arc<str>, touched: &mut Touched) {
        if self.classes.remove(name).is_some() {
            self.touch_pending(touched);
        }
    }

    /// Touches all Pending tickets after a change of a PriorityClass. Such changes are rare.
    pub fn touch_pending(&self, touched: &mut Touched) {
        let pending = self.tickets.values().filter(|ticket| ticket.phase() == TicketPhase::Pending);
        pending.for_each(|ticket| touched.ticket(ticket.uid));
    }

    // State that decisions keep

    pub fn keep_order(&mut self, uid: Uid, window: Option<super::timetable::Window>, settled: &[Place]) {
        if let Some(entry) = self.orders.get_mut(&uid) {
            entry.keep(window, settled);
        }
    }

    pub fn keep_ticket(&mut self, uid: Uid, released: Option<ReleasedPodState>) {
        match released.filter(|_| self.tickets.contains_key(&uid)) {
            Some(released) => self.released.insert(uid, released),
            None => self.released.remove(&uid),
        };
    }

    /// Records that a write for this Order or ticket was rejected or, with `None`, succeeded.
    pub fn refused(&mut self, uid: Uid, refusal: Option<Refusal>, touched: &mut Touched) {
        match refusal {
            Some(refusal) => {
                let refusal = refusal.after(self.refusals.get(&uid));
                self.refusals.insert(uid, refusal);
            }
            None if self.refusals.remove(&uid).is_none() => return,
            None => {}
        }
        match self.orders.contains_key(&uid) {
            true => touched.order(uid),
            false => touched.ticket(uid),
        }
    }
}

fact!(OrderEntry, order.version);
fact!(Ticket, version);
fact!(PriorityClass, version);

tables! { Reservations:
    Order => orders;
    Ticket => tickets;
    PriorityClass => classes;
}

/// The pod with the name of a ticket's guardian, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub enum Guardian<'a> {
    None,
    Ours(&'a Pod),
    /// Another pod has the name of the guardian.
    Taken(&'a Pod),
}

pub fn guardian<'a>(cluster: &'a Cluster, ticket: &Ticket) -> Guardian<'a> {
    match cluster.pod_named(&ticket.namespace, &guardian_of(ticket)) {
        None => Guardian::None,
        Some(pod) if pod.owner.is_some_and(|owner| owner.uid == ticket.uid) => Guardian::Ours(pod),
        Some(pod) => Guardian::Taken(pod),
    }
}

pub fn ticket_target(ticket: &Ticket) -> Target {
    let (namespace, name) = (ticket.namespace.clone(), ticket.name.clone());
    Target { kind: Kind::Ticket, namespace, name, uid: Some(ticket.uid) }
}

/// Identifies a guardian that does not exist yet, so it has a name but no uid.
pub fn guardian_target(ticket: &Ticket) -> Target {
    Target { kind: Kind::Pod, namespace: ticket.namespace.clone(), name: guardian_of(ticket), uid: None }
}
