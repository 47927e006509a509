//! The places of an Order: nodes, or numbers from 0. Each place has at most one unclaimed ticket. The numbers in the status of an
//! Order are kept per place, so that an event makes it necessary to recount only one place.

use super::super::eligible::{Criterion, Fit, fit};
use super::super::names::ticket_name;
use super::super::spec::{Order, OrderSpec, Places, Ticket, TicketPhase};
use super::super::ticket::NO_ROOM;
use super::super::timetable::Window;
use crate::{Timestamp, Uid, node::Node};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    Node(Arc<str>),
    Index(u32),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Node(node) => f.write_str(node),
            Place::Index(index) => write!(f, "{index}"),
        }
    }
}

/// Numbers of tickets and of places. Terminating tickets do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Tickets in any place, including surplus tickets that are about to be deleted.
    pub pending: i64,
    pub reserved: i64,
    pub claimed: i64,
    pub expired: i64,
    /// Unclaimed tickets that match the current template of the Order.
    pub updated: i64,
    /// Places that want a ticket and have an unclaimed one (`current`), a Reserved one (`ready`), or no capacity for one
    /// (`no_room`). The status of an Order uses these, so `ready` and `no_room` together never exceed the number of wanted
    /// places.
    pub current: i64,
    pub ready: i64,
    pub no_room: i64,
    /// Places that want no ticket but have an unclaimed one.
    pub misplaced: i64,
}

impl Tally {
    fn add(&mut self, other: &Tally, sign: i64) {
        for (sum, number) in self.numbers().into_iter().zip(other.clone().numbers()) {
            *sum += sign * *number;
        }
    }

    fn numbers(&mut self) -> [&mut i64; 9] {
        let Tally { pending, reserved, claimed, expired, updated, no_room, current, ready, misplaced } = self;
        [pending, reserved, claimed, expired, updated, no_room, current, ready, misplaced]
    }
}

/// An Order with its places and numbers.
#[derive(Debug)]
pub struct OrderEntry {
    pub order: Order,
    /// In daemonSet mode: every node, and whether it gets a ticket.
    fits: BTreeMap<Arc<str>, Fit>,
    unfit: BTreeMap<Criterion, usize>,
    eligible: usize,
    /// The times when nodes that are not Ready lose their tickets.
    kept_until: BTreeSet<(Timestamp, Arc<str>)>,
    places: BTreeMap<Place, TalliedTickets>,
    /// Places that have changed since they were last found to need no action.
    unsettled: BTreeSet<Place>,
    pub tally: Tally,
    /// Reserved tickets, by the time when they count as available. Empty if `minReadySeconds` is 0.
    maturing: BTreeSet<(Timestamp, Place, Uid)>,
    /// The window of the last decision.
    window: Option<Window>,
}

#[derive(Debug, Default)]
struct TalliedTickets {
    tickets: BTreeSet<Uid>,
    tally: Tally,
}

impl OrderEntry {
    pub fn new<'a>(order: Order, nodes: impl Iterator<Item = &'a Node>) -> OrderEntry {
        let mut entry = OrderEntry {
            order,
            fits: BTreeMap::new(),
            unfit: BTreeMap::new(),
            eligible: 0,
            kept_until: BTreeSet::new(),
            places: BTreeMap::new(),
            unsettled: BTreeSet::new(),
            tally: Tally::default(),
            maturing: BTreeSet::new(),
            window: None,
        };
        let none = BTreeMap::new();
        for node in nodes {
            entry.node_changed(&node.name, Some(node), &none);
        }
        if let Some(Places::Number(number)) = entry.spec().map(|spec| spec.places) {
            entry.unsettled.extend((0..number).map(Place::Index));
        }
        entry
    }

    pub fn spec(&self) -> Option<&Arc<OrderSpec>> {
        self.order.spec.as_ref().ok()
    }

    pub fn eligible(&self) -> usize {
        self.eligible
    }

    /// The criterion that most nodes fail, and the number of these nodes.
    pub fn most_often_unfit(&self) -> Option<(&Criterion, usize)> {
        let most =
            self.unfit.iter().max_by_key(|(criterion, number)| (**number, std::cmp::Reverse(*criterion)));
        most.map(|(criterion, number)| (criterion, *number))
    }

    pub fn fit_of(&self, node: &str) -> Option<&Fit> {
        self.fits.get(node)
    }

    /// Every node, with whether it gets a ticket.
    pub fn fits(&self) -> impl Iterator<Item = (&Arc<str>, &Fit)> {
        self.fits.iter()
    }

    /// The next time when a node that is not Ready loses its ticket.
    pub fn next_loss(&self, now: Timestamp) -> Option<Timestamp> {
        self.kept_until.iter().map(|(until, _)| *until).find(|until| *until > now)
    }

    /// Nodes that have not been Ready for longer than tolerated.
    fn lost(&self, now: Timestamp) -> impl Iterator<Item = Place> {
        self.kept_until
            .iter()
            .take_while(move |(until, _)| *until <= now)
            .map(|(_, node)| Place::Node(node.clone()))
    }

    /// Whether a ticket may be in a place: `Some(true)` if the place wants a ticket, `Some(false)` if only an existing ticket may
    /// stay, and `None` if no ticket may be there.
    pub fn wants(&self, place: &Place, now: Timestamp) -> Option<bool> {
        match (place, self.spec()?.places) {
            (Place::Node(node), Places::EachNode) => match self.fits.get(node)? {
                Fit::Eligible => Some(true),
                Fit::Kept { until } => until.is_none_or(|until| until > now).then_some(false),
                Fit::Unfit(_) => None,
            },
            (Place::Index(index), Places::Number(number)) => (*index < number).then_some(true),
            (Place::Node(_), Places::Number(_)) | (Place::Index(_), Places::EachNode) => None,
        }
    }

    /// The place of a ticket.
    pub fn place_of(ticket: &Ticket) -> Place {
        match (&ticket.index, &ticket.node) {
            (Some(index), _) => Place::Index(*index),
            (None, Some(node)) => Place::Node(node.clone()),
            (None, None) => Place::Node(ticket.name.clone()),
        }
    }

    pub fn tickets(&self) -> impl Iterator<Item = Uid> {
        self.places.values().flat_map(|place| place.tickets.iter().copied())
    }

    pub fn tickets_at(&self, place: &Place) -> impl Iterator<Item = Uid> {
        self.places.get(place).into_iter().flat_map(|place| place.tickets.iter().copied())
    }

    /// The one ticket of a place that may have a guardian: the oldest unclaimed one.
    pub fn chosen<'a>(
        &self,
        place: &Place,
        tickets: impl Fn(Uid) -> Option<&'a Ticket>,
    ) -> Option<&'a Ticket> {
        let unclaimed = self.tickets_at(place).filter_map(tickets).filter(|ticket| ticket.is_unclaimed());
        unclaimed.min_by_key(|ticket| (ticket.created, ticket.uid))
    }

    /// Places that must be decided again.
    pub fn unsettled(&self, now: Timestamp) -> BTreeSet<Place> {
        self.unsettled
            .iter()
            .cloned()
            .chain(self.lost(now).filter(|place| self.places.contains_key(place)))
            .collect()
    }

    /// All places that have tickets or could get one.
    pub fn all_places(&self) -> BTreeSet<Place> {
        let wanted: Vec<Place> = match self.spec().map(|spec| spec.places) {
            Some(Places::Number(number)) => (0..number).map(Place::Index).collect(),
            _ => self.fits.keys().cloned().map(Place::Node).collect(),
        };
        self.places.keys().cloned().chain(wanted).collect()
    }

    pub fn window(&self) -> Option<Window> {
        self.window
    }

    pub fn keep(&mut self, window: Option<Window>, settled: &[Place]) {
        if self.window != window {
            self.window = window;
            self.unsettled = self.all_places();
        }
        settled.iter().for_each(|place| {
            self.unsettled.remove(place);
        });
    }

    /// The number of Reserved tickets in wanted places that do not count as available yet, and the time at which the next one
    /// will.
    pub fn maturing(&self, now: Timestamp) -> (usize, Option<Timestamp>) {
        let wanted =
            |(at, place, _): &&(Timestamp, Place, Uid)| *at > now && self.wants(place, now) == Some(true);
        let mut later = self.maturing.iter().filter(wanted).map(|(at, ..)| *at);
        let next = later.next();
        (later.count() + usize::from(next.is_some()), next)
    }

    pub(super) fn ticket_enters(&mut self, ticket: &Ticket, tickets: &BTreeMap<Uid, Ticket>) {
        let place = OrderEntry::place_of(ticket);
        self.places.entry(place.clone()).or_default().tickets.insert(ticket.uid);
        if let Some(at) = self.available_at(ticket) {
            self.maturing.insert((at, place.clone(), ticket.uid));
        }
        self.count(place, tickets);
    }

    pub(super) fn ticket_leaves(&mut self, ticket: &Ticket, tickets: &BTreeMap<Uid, Ticket>) {
        let place = OrderEntry::place_of(ticket);
        if let Some(counted) = self.places.get_mut(&place) {
            counted.tickets.remove(&ticket.uid);
        }
        if let Some(at) = self.available_at(ticket) {
            self.maturing.remove(&(at, place.clone(), ticket.uid));
        }
        self.count(place, tickets);
    }

    fn available_at(&self, ticket: &Ticket) -> Option<Timestamp> {
        let min_ready = self.spec()?.min_ready;
        let since = ticket.record.ready.since.filter(|_| {
            ticket.phase() == TicketPhase::Reserved && !ticket.terminating && !min_ready.is_zero()
        })?;
        since.checked_add(min_ready).ok()
    }

    /// Handles a change of a node. Returns whether this changes anything for the Order.
    pub(super) fn node_changed(
        &mut self,
        name: &Arc<str>,
        node: Option<&Node>,
        tickets: &BTreeMap<Uid, Ticket>,
    ) -> bool {
        let Some(spec) = self.spec().filter(|spec| spec.places == Places::EachNode) else { return false };
        let new = node.map(|node| fit(&spec.template.spec.placement, node));
        let old = match &new {
            Some(new) => self.fits.insert(name.clone(), new.clone()),
            None => self.fits.remove(name),
        };
        if old == new {
            return false;
        }
        self.count_fit(name, old.as_ref(), false);
        self.count_fit(name, new.as_ref(), true);
        self.count(Place::Node(name.clone()), tickets);
        true
    }

    fn count_fit(&mut self, node: &Arc<str>, fit: Option<&Fit>, there: bool) {
        match fit {
            None | Some(Fit::Kept { until: None }) => {}
            Some(Fit::Eligible) if there => self.eligible += 1,
            Some(Fit::Eligible) => self.eligible -= 1,
            Some(Fit::Kept { until: Some(until) }) => {
                let kept = (*until, node.clone());
                match there {
                    true => self.kept_until.insert(kept),
                    false => self.kept_until.remove(&kept),
                };
            }
            Some(Fit::Unfit(criterion)) => {
                let number = self.unfit.entry(criterion.clone()).or_default();
                *number = if there { *number + 1 } else { number.saturating_sub(1) };
                if *number == 0 {
                    self.unfit.remove(criterion);
                }
            }
        }
    }

    /// Recounts a place, and marks it as unsettled.
    fn count(&mut self, place: Place, tickets: &BTreeMap<Uid, Ticket>) {
        let wanted = match (&place, self.spec().map(|spec| spec.places)) {
            (Place::Node(node), Some(Places::EachNode)) => match self.fits.get(node) {
                Some(Fit::Eligible) => Some(true),
                Some(Fit::Kept { .. }) => None,
                Some(Fit::Unfit(_)) | None => Some(false),
            },
            (Place::Index(index), Some(Places::Number(number))) => Some(*index < number),
            _ => Some(false),
        };
        let hash = self.spec().map(|spec| spec.template.hash.clone());
        let mut new = Tally::default();
        let there = self.places.get(&place);
        let mut no_room = false;
        let here = there.into_iter().flat_map(|there| &there.tickets).filter_map(|uid| tickets.get(uid));
        for ticket in here.filter(|ticket| !ticket.terminating) {
            match ticket.phase() {
                TicketPhase::Pending => new.pending += 1,
                TicketPhase::Reserved => new.reserved += 1,
                TicketPhase::Claimed => new.claimed += 1,
                TicketPhase::Expired => new.expired += 1,
            }
            if ticket.is_unclaimed() {
                new.updated += i64::from(ticket.template == hash);
                no_room |= *ticket.record.reason == *NO_ROOM;
            }
        }
        let (unclaimed, reserved) = (new.pending + new.reserved > 0, new.reserved > 0);
        new.current = i64::from(wanted == Some(true) && unclaimed);
        new.ready = i64::from(wanted == Some(true) && reserved);
        new.no_room = i64::from(wanted == Some(true) && no_room && !reserved);
        new.misplaced = i64::from(wanted == Some(false) && unclaimed);
        let empty = there.is_none_or(|there| there.tickets.is_empty());
        let old = match empty {
            true => self.places.remove(&place).map(|there| there.tally),
            false => self.places.get_mut(&place).map(|there| std::mem::replace(&mut there.tally, new)),
        };
        self.tally.add(&old.unwrap_or_default(), -1);
        if !empty {
            self.tally.add(&new, 1);
        }
        self.unsettled.insert(place);
    }

    /// The preferred name of the ticket in a place.
    pub fn plain_name(&self, place: &Place) -> String {
        ticket_name(&self.order.name, &place.to_string())
    }
}
