//! Checks how tickets are claimed and their capacity handed over: the controllers' writes to claiming pods and to tickets.

use super::Guardian;
use super::{
    AVAILABLE_AFTER, HandOverOrder, HandOverPod, LiftedGuarantees, Ticket, broken, cpu_of_pod, gates,
    own_node, owner, text,
};
use crate::chaos::history::Violation;
use crate::chaos::world::reservation::place_of;
use crate::chaos::world::{self, has_gate};
use crate::store::Change;
use rollcall_api::names;
use rollcall_core::reservation::names as known;
use serde_json::Value;

impl HandOverOrder {
    /// Checks a change of a claiming pod by a controller.
    pub fn wrote_pod(&mut self, before: &Value, change: &Change) -> Vec<Violation> {
        let (pod, name) = (&change.object, &change.key.name);
        let wrong = |what: String| vec![broken(format!("{name} {what}"))];
        let (had_gate, has_gate) = (has_gate(before, names::TICKET_GATE), has_gate(pod, names::TICKET_GATE));
        let annotation = |of: &Value, key: &str| text(&of["metadata"]["annotations"][key]);
        let nominated = text(&pod["status"]["nominatedNodeName"]);
        let claimed = annotation(pod, known::TICKET_CLAIMED);
        match (had_gate, has_gate) {
            (true, true) => match nominated {
                Some(node) if self.has_claimed(pod.uid(), &node, None) => self.was_nominated(change, &node),
                // The guardian could not be deleted. The pod makes way for the other claims on the node.
                None => Vec::new(),
                Some(_) => wrong(format!("was nominated for {nominated:?} without a claim there")),
            },
            (true, false) if gates(before) > 1 => wrong("was released despite other gates".to_owned()),
            (true, false) => match claimed {
                Some(ticket) => self.was_served(change, &ticket),
                None => self.was_let_go(change),
            },
            _ => {
                let room = annotation(before, known::TICKET_NODE);
                let elsewhere = pod["spec"]["nodeName"].is_null() || text(&pod["spec"]["nodeName"]) != room;
                let cleared = nominated.is_none() && claimed.is_none();
                let again = nominated.as_ref().is_some_and(|node| {
                    pod["spec"]["nodeName"].is_null() && self.has_claimed(pod.uid(), node, None)
                });
                // The write was sent before a foreign actor removed the gate, or by a controller that did not see the other
                // controller's write.
                let taken = self.pods.get(pod.uid()).is_some_and(|pod| pod.taken);
                match cleared && elsewhere || again || taken || self.is_excused() {
                    true => Vec::new(),
                    false => wrong("was changed after its release".to_owned()),
                }
            }
        }
    }

    /// The claims on a node whose pods are not bound yet, except the claim of `pod`.
    fn claims_beside<'a>(
        &'a self,
        pod: &'a str,
        node: &'a str,
    ) -> impl Iterator<Item = (&'a Ticket, &'a HandOverPod)> {
        let here = move |ticket: &&'a Ticket| ticket.there && ticket.node.as_deref() == Some(node);
        self.tickets.values().filter(here).filter_map(move |ticket| {
            let claimer = ticket.claimer.as_deref().filter(|claimer| *claimer != pod)?;
            Some((ticket, self.pods.get(claimer).filter(|pod| pod.there && pod.node.is_none())?))
        })
    }

    fn has_guardian(&self, ticket: &Ticket) -> bool {
        let of_ticket = |guardian: &Guardian| {
            self.tickets.get(&guardian.ticket).is_some_and(|own| own.key == ticket.key && own.there)
        };
        self.guardians.values().any(of_ticket)
    }

    /// Checks a nomination. The scheduler counts a nominated pod in addition to its guardian, which can block pods that are
    /// about to be bound.
    fn was_nominated(&self, change: &Change, node: &str) -> Vec<Violation> {
        let (pod, name) = (change.object.uid(), &change.key.name);
        let mut own = self.tickets.values().filter(|ticket| ticket.claimer.as_deref() == Some(pod));
        if !own.any(|ticket| ticket.there && self.has_guardian(ticket)) || self.is_excused() {
            return Vec::new();
        }
        match self.claims_beside(pod, node).find(|(ticket, _)| ticket.freed) {
            Some((other, _)) => vec![broken(format!(
                "{name} was nominated beside its guardian before the pod of {} was bound",
                other.key.name
            ))],
            None => Vec::new(),
        }
    }

    fn is_excused(&self) -> bool {
        self.lifted_guarantees.two_act || self.lifted_guarantees.late
    }

    /// Whether a pod has ever claimed capacity on a node, optionally with the given ticket.
    fn has_claimed(&self, pod: &str, node: &str, ticket: Option<&str>) -> bool {
        let named = |is: &&Ticket| ticket.is_none_or(|name| &*is.key.name == name);
        let mut claims = self.tickets.values().filter(named).flat_map(|ticket| &ticket.claims);
        claims.any(|(who, place)| who == pod && place == node)
    }

    /// Checks the release of a pod that takes over a ticket's capacity.
    fn was_served(&self, change: &Change, ticket: &str) -> Vec<Violation> {
        let (pod, name) = (&change.object, &change.key.name);
        let wrong =
            |what: &str| vec![broken(format!("{name} was released with ticket {ticket}, but {what}"))];
        let node = text(&pod["metadata"]["annotations"][known::TICKET_NODE]).unwrap_or_default();
        if !self.has_claimed(pod.uid(), &node, Some(ticket)) {
            return wrong("it has not claimed the ticket");
        }
        let of_ticket = |guardian: &&Guardian| {
            let own = self.tickets.get(&guardian.ticket);
            own.is_some_and(|own| own.there && &*own.key.name == ticket && own.claimer.is_some())
        };
        if self.guardians.values().any(|guardian| of_ticket(&guardian)) && !self.lifted_guarantees.two_act {
            return wrong("the guardian still exists");
        }
        // Each of two controllers may have given the pod a ticket, and nominated it for another node.
        if text(&pod["status"]["nominatedNodeName"]).as_ref() != Some(&node)
            && !self.lifted_guarantees.two_act
        {
            return wrong("it is not nominated for the ticket's node");
        }
        let twice = |(other, claimer): &(&Ticket, &HandOverPod)| {
            claimer.nominated == other.node && claimer.nominated.is_some() && self.has_guardian(other)
        };
        match self.claims_beside(pod.uid(), &node).find(twice).filter(|_| !self.is_excused()) {
            Some((other, _)) => {
                wrong(&format!("the pod of {} is nominated beside its guardian", other.key.name))
            }
            None => Vec::new(),
        }
    }

    /// Checks the release of a pod without a ticket.
    fn was_let_go(&self, change: &Change) -> Vec<Violation> {
        let LiftedGuarantees { two_act, late, clocks_are_wrong, unanswered, .. } = self.lifted_guarantees;
        if two_act || late || clocks_are_wrong || unanswered {
            return Vec::new();
        }
        let (pod, name) = (&change.object, &change.key.name);
        let is_claimed = |ticket: &&Ticket| ticket.there && ticket.claimer.as_deref() == Some(pod.uid());
        if let Some(ticket) = self.tickets.values().find(is_claimed) {
            return vec![broken(format!(
                "{name} was released without a ticket although it has claimed {}",
                ticket.key.name
            ))];
        }
        let is_free = |ticket: &&Ticket| {
            let of_order = !ticket.slot.1.is_empty();
            let on_node = ticket.pinned.is_some() && ticket.pinned.as_deref() == own_node(pod);
            let for_it = match world::tier(pod) {
                "agent" => on_node,
                "crowd" => ticket.key.name == *name,
                _ => ticket.pinned.is_none() && of_order,
            };
            let free = ticket.reserved_since.is_some_and(|since| since + AVAILABLE_AFTER <= change.at);
            ticket.there && free && for_it && ticket.cpu >= cpu_of_pod(pod)
        };
        match self.tickets.values().find(is_free) {
            Some(ticket) => {
                vec![broken(format!(
                    "{name} was released without a ticket although {} is free",
                    ticket.key.name
                ))]
            }
            None => Vec::new(),
        }
    }

    /// Checks a write of a controller to a ticket.
    pub fn wrote_ticket(&mut self, change: &Change) -> Vec<Violation> {
        let (object, name) = (&change.object, &change.key.name);
        let wrong = |what: &str| vec![broken(format!("ticket {name} {what}"))];
        let Some(before) = &change.before else { return self.made_ticket(change) };
        let claimer =
            |of: &Value| text(&of["status"]["podUID"]).filter(|_| of["status"]["phase"] == "Claimed");
        let lives = |pod: &String| self.pods.get(pod).is_some_and(|pod| pod.there);
        if change.deleted {
            return match claimer(before).filter(lives) {
                Some(_) => wrong("was deleted while claimed"),
                None => Vec::new(),
            };
        }
        if before["spec"] != object["spec"] || before["metadata"]["labels"] != object["metadata"]["labels"] {
            return wrong("was changed beyond its status");
        }
        if object["status"]["phase"] == "Reserved" && !self.has_run(object.uid()) {
            return wrong("is Reserved although its guardian has never run");
        }
        match (claimer(before), claimer(object)) {
            (Some(one), Some(other)) if one != other => wrong("changed from one claiming pod to another"),
            (None, Some(pod)) => self.was_claimed(change, before, &pod),
            _ => Vec::new(),
        }
    }

    fn has_run(&self, ticket: &str) -> bool {
        self.tickets.get(ticket).is_some_and(|ticket| ticket.has_run)
    }

    fn made_ticket(&self, change: &Change) -> Vec<Violation> {
        let (object, name) = (&change.object, &change.key.name);
        let order = owner(object).and_then(|order| text(&order["uid"])).unwrap_or_default();
        let slot = (order, place_of(object).to_owned());
        // The capacity of a ticket in hand-over can become available again.
        let wanted =
            |ticket: &&Ticket| matches!(&*ticket.phase, "Pending" | "Reserved") || ticket.is_handed_over;
        let mut there = self.tickets.values().filter(|ticket| ticket.there && ticket.slot == slot);
        // A controller with a silent watch cannot know what another controller has created.
        let unknowable = self.lifted_guarantees.two_act && self.lifted_guarantees.late;
        match there.find(wanted).filter(|_| !unknowable) {
            Some(other) => vec![broken(format!("ticket {name} duplicates {}", other.key.name))],
            None => Vec::new(),
        }
    }

    /// Checks the claim of a ticket that was unclaimed before.
    fn was_claimed(&self, change: &Change, before: &Value, pod: &str) -> Vec<Violation> {
        let name = &change.key.name;
        let wrong = |what: &str| vec![broken(format!("ticket {name} was claimed {what}"))];
        if before["status"]["phase"] != "Reserved" {
            return wrong("although it was not Reserved");
        }
        let others = |ticket: &&Ticket| ticket.there && ticket.claimer.as_deref() == Some(pod);
        if let Some(other) = self.tickets.values().find(others).filter(|_| !self.lifted_guarantees.two_act) {
            return wrong(&format!("although the same pod has claimed {}", other.key.name));
        }
        let Some(ticket) = self.tickets.get(change.object.uid()) else { return Vec::new() };
        match self.pods.get(pod).filter(|pod| pod.there) {
            Some(pod) if pod.cpu > ticket.cpu => return wrong("by a pod with larger requests"),
            Some(pod) if pod.gates > 1 => return wrong("by a pod with other gates"),
            Some(pod)
                if pod.own_node.is_some() && ticket.pinned.is_some() && pod.own_node != ticket.pinned =>
            {
                return wrong("by a DaemonSet pod of another node");
            }
            _ => {}
        }
        Vec::new()
    }
}
