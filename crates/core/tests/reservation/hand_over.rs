//! How the claims of one node are carried out together: batches, the order of steps, failing steps, pods that are not bound.

use super::world::{World, order_spec, ticket_spec};
use jiff::SignedDuration;
use rollcall_core::cluster::Refusal;
use rollcall_core::reservation::spec::{Places, RequestedTicket, TicketPhase};

/// A full node with `number` tickets, and the same number of pending pods with the same priority.
fn full_node(number: usize) -> World {
    let mut world = World::new(&["n1"], &number.to_string());
    (0..number).for_each(|index| world.ticket_by_hand(&ticket(index), ticket_spec("1")));
    world.settle();
    for index in 0..number {
        world.stranger(&format!("a-stranger-{index:02}"), "1");
    }
    world.settle();
    world.take_done();
    world
}

fn ticket(index: usize) -> String {
    format!("room-{index:02}")
}

/// The name of the pod that claims the ticket of this number.
fn claiming_pod(index: usize) -> String {
    format!("web-{index:02}")
}

fn claim(world: &mut World, index: usize) {
    world.add_claiming_pod(&claiming_pod(index), RequestedTicket::Ticket(ticket(index).into()), "1");
}

fn guardian(index: usize) -> String {
    format!("korder-guardian-{}", ticket(index))
}

/// The actions since the last call, without the statuses of tickets.
fn steps(world: &mut World) -> Vec<String> {
    world.take_done().into_iter().filter(|did| !did.contains(" is ")).collect()
}

/// The pods of a batch may take the same step in any order.
fn sorted(mut done: Vec<String>) -> Vec<String> {
    done.sort();
    done
}

fn place(done: &[String], what: &str) -> usize {
    done.iter().position(|did| *did == what).unwrap_or_else(|| panic!("no {what:?} in {done:?}"))
}

#[track_caller]
fn all_have_their_place(world: &World, number: usize) {
    for index in 0..number {
        let pod = &world.pods[&*claiming_pod(index)];
        assert_eq!(pod.node.as_deref(), Some("n1"), "{}: {:?}", pod.name, world.done);
        assert_eq!(world.tickets[&*ticket(index)].phase(), TicketPhase::Claimed);
        assert!(!world.pods.contains_key(&*guardian(index)));
    }
    let mut strangers = world.pods.values().filter(|pod| pod.name.starts_with("a-stranger"));
    assert!(strangers.all(|pod| pod.node.is_none()), "a foreign pod took reserved capacity");
    assert_eq!(not_bound(world), Vec::<String>::new());
}

/// The pods with an event that they were not bound to the reserved capacity.
fn not_bound(world: &World) -> Vec<String> {
    let told = world.events.iter().filter(|event| event.reason == "NotBound");
    told.map(|event| event.about.name.to_string()).collect()
}

#[test]
fn twenty_claims_go_in_batches_of_eight_each_step_for_all() {
    let mut world = full_node(20);
    (0..20).for_each(|index| claim(&mut world, index));
    world.settle();
    all_have_their_place(&world, 20);
    let verbs: Vec<String> =
        steps(&mut world).iter().map(|did| did.split(' ').next().unwrap_or_default().to_owned()).collect();
    let lengths: Vec<(&str, usize)> =
        verbs.chunk_by(|one, other| one == other).map(|same| (&*same[0], same.len())).collect();
    let batch = |number| [("nominate", number), ("delete", number), ("release", number)];
    assert_eq!(lengths, [batch(8), batch(8), batch(4)].concat());
}

#[test]
fn the_next_batch_begins_when_every_pod_is_bound_in_the_order_of_claims_and_other_nodes_go_on() {
    let mut world = World::new(&["n1", "n2"], "12");
    let mut on = |node: &str, name: &str| {
        world.ticket_by_hand(name, ticket_spec("1"));
        world.change_ticket(name, |ticket| ticket.node = Some(node.into()));
    };
    (0..10).for_each(|index| on("n1", &ticket(index)));
    on("n2", "elsewhere");
    world.settle();
    world.stuck.insert(claiming_pod(0).into());
    claim(&mut world, 0);
    world.settle();
    world.take_done();
    // Claims are recorded one after another, starting with the last number.
    for index in (1..10).rev() {
        world.now += SignedDuration::from_secs(1);
        claim(&mut world, index);
        world.settle();
    }
    assert_eq!(steps(&mut world), Vec::<String>::new(), "the first pod is not bound");
    assert!((1..10).all(|index| world.tickets[&*ticket(index)].phase() == TicketPhase::Claimed));
    world.add_claiming_pod("other", RequestedTicket::Ticket("elsewhere".into()), "1");
    world.settle();
    assert_eq!(world.pods["other"].node.as_deref(), Some("n2"));
    world.take_done();
    world.stuck.clear();
    world.settle();
    let nominated: Vec<String> =
        steps(&mut world).into_iter().filter(|did| did.starts_with("nominate")).collect();
    assert_eq!(nominated[8], "nominate web-01 for n1", "it claimed last");
    assert_eq!(nominated.len(), 9);
    all_have_their_place(&world, 10);
}

#[test]
fn no_guardian_is_deleted_before_all_nominations_are_answered() {
    let mut world = full_node(3);
    world.silent.insert(claiming_pod(1).into());
    (0..3).for_each(|index| claim(&mut world, index));
    world.pass(30);
    assert_eq!(sorted(steps(&mut world)), ["nominate web-00 for n1", "nominate web-02 for n1"]);
    // The nomination failed: the others continue, and this claim comes after them.
    world.silent.clear();
    world.give_up(None);
    world.settle();
    let done = steps(&mut world);
    assert!(place(&done, "release web-02 room-02 n1") < place(&done, "nominate web-01 for n1"), "{done:?}");
    all_have_their_place(&world, 3);
}

#[test]
fn no_gate_is_removed_before_all_deletions_are_answered_and_a_failed_one_leaves_the_batch() {
    let mut world = full_node(3);
    world.silent.insert(guardian(1).into());
    (0..3).for_each(|index| claim(&mut world, index));
    world.pass(30);
    let deleted = sorted(steps(&mut world).split_off(3));
    assert_eq!(deleted, ["delete pods korder-guardian-room-00", "delete pods korder-guardian-room-02"]);
    world.silent.clear();
    world.give_up(None);
    world.settle();
    let done = steps(&mut world);
    let cleared = place(&done, "nominate web-01 for nothing");
    for released in ["release web-00 room-00 n1", "release web-02 room-02 n1"] {
        assert!(cleared < place(&done, released), "{done:?}");
    }
    assert!(place(&done, "release web-02 room-02 n1") < place(&done, "nominate web-01 for n1"), "{done:?}");
    all_have_their_place(&world, 3);
}

#[test]
fn a_deletion_that_fails_keeps_no_other_claim_waiting_and_alone_it_is_repeated() {
    let mut world = full_node(1);
    world.silent.insert(guardian(0).into());
    claim(&mut world, 0);
    world.settle();
    world.silent.clear();
    world.give_up(None);
    world.settle();
    let done = steps(&mut world);
    assert!(!done.contains(&"nominate web-00 for nothing".to_owned()), "{done:?}");
    all_have_their_place(&world, 1);
}

#[test]
fn a_pod_that_may_not_be_nominated_keeps_nobody_waiting() {
    let mut world = full_node(2);
    world.silent.insert(claiming_pod(0).into());
    (0..2).for_each(|index| claim(&mut world, index));
    world.settle();
    world.give_up(Some(Refusal::new(true, "not permitted", world.now)));
    world.settle();
    assert_eq!(world.pods[&*claiming_pod(1)].node.as_deref(), Some("n1"));
    assert!(!world.pods[&*claiming_pod(0)].gates.is_empty());
    world.pass(6);
    world.give_up(Some(Refusal::new(true, "not permitted", world.now)));
    world.settle();
    assert!(world.pods[&*claiming_pod(0)].gates.is_empty(), "it is released without that protection");
}

/// Another controller takes over after each write, and again after the same number of writes.
#[test]
fn another_controller_takes_over_at_every_step() {
    for writes in 0..13 {
        let mut world = full_node(3);
        world.dies_after = Some(writes);
        (0..3).for_each(|index| claim(&mut world, index));
        world.settle();
        world.restart();
        world.dies_after = Some(2);
        world.settle();
        world.restart();
        world.settle();
        all_have_their_place(&world, 3);
    }
}

#[test]
fn a_rejected_pod_is_nominated_again_three_times_and_then_its_claim_ends() {
    let mut world = full_node(1);
    world.rejected.insert(claiming_pod(0).into());
    claim(&mut world, 0);
    world.settle();
    let done = steps(&mut world);
    let nominated = done.iter().filter(|did| *did == "nominate web-00 for n1").count();
    assert_eq!(nominated, 4, "{done:?}");
    assert!(place(&done, "nominate web-00 for nothing") < place(&done, "guardian korder-guardian-room-00"));
    assert_eq!(not_bound(&world), [claiming_pod(0)]);
}

#[test]
fn a_pod_that_is_rejected_once_takes_its_place_when_it_is_nominated_again() {
    let mut world = full_node(2);
    world.stuck.extend([claiming_pod(0).into(), claiming_pod(1).into()]);
    (0..2).for_each(|index| claim(&mut world, index));
    world.settle();
    world.change_pod(&claiming_pod(0), |pod| {
        pod.nominated = None;
        pod.trouble = Some(rollcall_core::facts::Trouble { container: None, what: "Unschedulable".into() });
    });
    // The controller is faster than the next attempt of the scheduler.
    world.stuck.extend((0..2).map(|index| format!("a-stranger-{index:02}").into()));
    world.take_done();
    world.settle();
    assert_eq!(steps(&mut world), ["nominate web-00 for n1"]);
    world.stuck.clear();
    world.settle();
    all_have_their_place(&world, 2);
}

#[test]
fn a_pod_that_is_bound_elsewhere_ends_its_claim() {
    let mut world = World::new(&["n1", "n2"], "4");
    world.order("agents", order_spec(Places::Number(1), "1"));
    world.settle();
    world.stuck.insert("web".into());
    world.add_claiming_pod("web", RequestedTicket::Order("agents".into()), "1");
    world.settle();
    let here = world.tickets["agents-0"].record.node.clone().expect("a node");
    let there = if &*here == "n1" { "n2" } else { "n1" };
    world.take_done();
    world.change_pod("web", |pod| pod.node = Some(there.into()));
    world.settle();
    assert_eq!(not_bound(&world), ["web"]);
    let done = steps(&mut world);
    assert!(place(&done, "nominate web for nothing") < place(&done, "guardian korder-guardian-agents-0"));
    assert_eq!(world.phases(), ["agents-0 Reserved"]);
}

#[test]
fn nothing_is_given_up_while_the_scheduler_says_nothing() {
    let mut world = full_node(2);
    world.stuck.insert(claiming_pod(0).into());
    claim(&mut world, 0);
    world.pass(59);
    claim(&mut world, 1);
    world.settle();
    assert!(!world.pods[&*claiming_pod(1)].gates.is_empty(), "the first pod is not bound");
    world.pass(2);
    assert_eq!(not_bound(&world), [claiming_pod(0)]);
    assert_eq!(world.pods[&*claiming_pod(1)].node.as_deref(), Some("n1"), "{:?}", world.done);
}

#[test]
fn a_batch_waits_for_a_foreign_pod_that_is_nominated_but_not_forever() {
    for (goes_after, waits) in [(Some(20), 20), (None, 60)] {
        let mut world = full_node(2);
        world.stuck.insert("a-stranger-00".into());
        world.change_pod("a-stranger-00", |pod| pod.nominated = Some("n1".into()));
        world.settle();
        (0..2).for_each(|index| claim(&mut world, index));
        world.settle();
        assert!((0..2).all(|index| world.tickets[&*ticket(index)].phase() == TicketPhase::Claimed));
        world.pass(waits - 1);
        assert_eq!(steps(&mut world), Vec::<String>::new());
        world.pass(1);
        if goes_after.is_some() {
            world.change_pod("a-stranger-00", |pod| pod.nominated = None);
            world.settle();
        }
        let mut done = steps(&mut world);
        done.truncate(2);
        assert_eq!(sorted(done), ["nominate web-00 for n1", "nominate web-01 for n1"], "{goes_after:?}");
    }
}

#[test]
fn a_gate_that_another_client_removes_ends_the_claim_and_harms_no_other() {
    let mut world = full_node(2);
    world.silent.insert(guardian(0).into());
    (0..2).for_each(|index| claim(&mut world, index));
    world.settle();
    world.change_pod(&claiming_pod(0), |pod| pod.gates.clear());
    world.stuck.insert(claiming_pod(0).into());
    world.silent.clear();
    world.give_up(None);
    world.settle();
    assert_eq!(not_bound(&world), [claiming_pod(0)]);
    assert_eq!(world.tickets[&*ticket(0)].phase(), TicketPhase::Reserved);
    assert!(world.pods.contains_key(&*guardian(0)) && world.pods[&*claiming_pod(0)].nominated.is_none());
    assert_eq!(world.pods[&*claiming_pod(1)].node.as_deref(), Some("n1"), "{:?}", world.done);
}
