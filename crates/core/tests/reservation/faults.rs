//! Faults: missing answers, clock differences, and foreign writes.

use super::world::{World, order_spec, ticket_spec};
use jiff::SignedDuration;
use rollcall_core::cluster::Refusal;
use rollcall_core::key::Key;
use rollcall_core::reservation::spec::{Places, RequestedTicket, TicketPhase};

fn agents(world: &mut World) {
    world.order("agents", order_spec(Places::EachNode, "1"));
    world.settle();
    world.take_done();
}

fn web(world: &mut World) {
    world.add_claiming_pod("web", RequestedTicket::Order("agents".into()), "1");
    world.settle();
}

#[test]
fn a_claiming_pod_has_its_sixty_seconds_from_its_release() {
    let mut world = World::new(&["n1"], "1");
    agents(&mut world);
    world.deaf = true;
    web(&mut world);
    world.pass(20);
    world.deaf = false;
    world.stuck.insert("web".into());
    world.give_up(None);
    world.settle();
    assert!(world.pods["web"].gates.is_empty());
    world.pass(59);
    assert_eq!(
        world.tickets["agents-n1"].phase(),
        TicketPhase::Claimed,
        "it was claimed 79 s ago, and released 59 s ago"
    );
    world.pass(2);
    assert_eq!(world.tickets["agents-n1"].phase(), TicketPhase::Reserved, "{:?}", world.done);
}

#[test]
fn a_pod_whose_claim_is_under_way_takes_no_other_ticket() {
    let mut world = World::new(&["n1", "n2"], "1");
    world.order("agents", order_spec(Places::Number(2), "1"));
    world.settle();
    (world.deaf, world.lost_claims) = (true, true);
    web(&mut world);
    assert_eq!(world.unanswered.len(), 1);
    let tried = world.unanswered[0].name.clone();
    let other = world.tickets.values().find(|ticket| ticket.name != tried).expect("another ticket");
    // From here on, it would choose the other ticket, because it is nominated for the node of that ticket.
    let node = other.record.node.clone();
    world.change_pod("web", |pod| pod.nominated = node);
    world.settle();
    assert_eq!(world.unanswered.len(), 1);
    world.deaf = false;
    world.give_up(None);
    world.settle();
    let claimed: Vec<&str> = world
        .tickets
        .values()
        .filter(|ticket| ticket.claim().is_some())
        .map(|ticket| &*ticket.name)
        .collect();
    assert_eq!(claimed, [&*tried], "what was given up may still be carried out");
    assert!(world.pods["web"].gates.is_empty());
}

#[test]
fn whoever_waits_for_a_class_makes_it_when_another_one_could_not() {
    let mut world = World::new(&["n1"], "4");
    world.deaf = true;
    world.ticket_by_hand("first", ticket_spec("1"));
    world.settle();
    world.ticket_by_hand("second", ticket_spec("1"));
    world.settle();
    world.remove_ticket("first");
    world.deaf = false;
    world.give_up(None);
    world.settle();
    assert_eq!(world.phases(), ["second Reserved"]);
}

#[test]
fn a_guardian_beside_its_claimer_goes() {
    let mut world = World::new(&["n1"], "4");
    agents(&mut world);
    web(&mut world);
    world.take_done();
    world.late_guardian("agents-n1");
    world.settle();
    assert_eq!(world.done, ["delete pods korder-guardian-agents-n1"]);
    assert_eq!(world.tickets["agents-n1"].phase(), TicketPhase::Claimed);
}

#[test]
fn a_claim_that_was_carried_out_ends_whatever_comes_late() {
    let mut world = World::new(&["n1"], "4");
    agents(&mut world);
    web(&mut world);
    world.late_guardian("agents-n1");
    world.remove_pod("web");
    world.settle();
    assert_eq!(
        world.tickets["agents-n1"].phase(),
        TicketPhase::Expired,
        "its place has another ticket already"
    );
    assert!(!world.pods.contains_key("korder-guardian-agents-n1"));
}

#[test]
fn a_gate_that_is_taken_by_hand_leaves_no_guardian_behind() {
    let mut world = World::new(&["n1"], "4");
    agents(&mut world);
    world.deaf = true;
    web(&mut world);
    world.deaf = false;
    world.give_up(None);
    world.change_pod("web", |pod| pod.gates.clear());
    world.settle();
    assert_eq!(world.pods["web"].node.as_deref(), Some("n1"));
    assert!(world.done.contains(&"delete pods korder-guardian-agents-n1".to_owned()), "{:?}", world.done);
    let phases: Vec<TicketPhase> = world.tickets.values().map(|ticket| ticket.phase()).collect();
    assert_eq!(phases, [TicketPhase::Claimed, TicketPhase::Reserved], "and the next one is there");
}

#[test]
fn one_refusal_is_no_reason_to_do_without_a_nomination() {
    let mut world = World::new(&["n1"], "1");
    agents(&mut world);
    world.deaf = true;
    web(&mut world);
    world.give_up(Some(Refusal::new(true, "not now", world.now)));
    world.settle();
    assert!(world.pods.contains_key("korder-guardian-agents-n1"), "{:?}", world.done);
    world.pass(6);
    world.settle();
    assert!(
        world.pods.contains_key("korder-guardian-agents-n1"),
        "an old rejection proves nothing: {:?}",
        world.done
    );
    world.give_up(Some(Refusal::new(true, "not now", world.now)));
    world.settle();
    assert!(world.pods["web"].gates.is_empty(), "but nobody waits for ever");
}

#[test]
fn a_warning_is_not_taken_back_by_another_clock() {
    let mut world = World::new(&["n1"], "4");
    let mut spec = ticket_spec("1");
    spec.duration = Some(SignedDuration::from_mins(10));
    world.ticket_by_hand("brief", spec);
    world.pass(9 * 60);
    assert!(world.tickets["brief"].record.expiring.holds);
    world.take_done();
    world.now -= SignedDuration::from_mins(5);
    world.remove_pod("korder-guardian-brief");
    world.settle();
    assert!(world.tickets["brief"].record.expiring.holds, "{:?}", world.done);
}

/// Two controllers have each created a ticket for the same slot. The older ticket stays, and waits for the guardian of the
/// newer one.
#[test]
fn the_ticket_that_stays_waits_for_the_guardian_of_the_one_that_is_removed() {
    let mut world = World::new(&["n1"], "4");
    let order = world.order("agents", order_spec(Places::EachNode, "1"));
    world.settle();
    world.ticket_by_hand("older", ticket_spec("1"));
    let removed = world.tickets["agents-n1"].clone();
    world.change_ticket("older", |ticket| {
        ticket.order = Some(order);
        ticket.template.clone_from(&removed.template);
        ticket.spec.clone_from(&removed.spec);
        ticket.node.clone_from(&removed.node);
        ticket.created -= SignedDuration::from_mins(1);
    });
    world.decide(Key::Ticket(world.tickets["older"].uid));
    assert!(!world.pods.contains_key("korder-guardian-older"), "{:?}", world.done);
    world.settle();
    assert_eq!(world.phases(), ["older Reserved"]);
}
