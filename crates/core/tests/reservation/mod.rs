//! Orders, tickets and claims, decided one by one in a small cluster.

mod budget;
mod explain;
mod faults;
mod hand_over;
mod time;
mod world;

use self::world::{World, node, order_spec, ticket_spec};
use rollcall_core::reservation::spec::{Places, Refresh, RequestedTicket, TicketPhase};
use std::sync::Arc;

fn agents(world: &mut World) -> rollcall_core::Uid {
    world.order("agents", order_spec(Places::EachNode, "1"))
}

fn wants(order: &str) -> RequestedTicket {
    RequestedTicket::Order(order.into())
}

#[test]
fn each_eligible_node_has_a_ticket_and_tickets_follow_the_nodes() {
    let mut world = World::new(&["n1", "n2"], "4");
    let order = agents(&mut world);
    world.settle();
    assert_eq!(world.phases(), ["agents-n1 Reserved", "agents-n2 Reserved"]);
    assert_eq!(world.statuses[&order].message, "2 of 2 nodes reserved");
    world.set_node(node("n3"), "4");
    let mut cordoned = node("n1");
    cordoned.unschedulable = true;
    world.set_node(cordoned, "4");
    world.remove_node("n2");
    world.settle();
    assert_eq!(world.phases(), ["agents-n3 Reserved"]);
    let guardians: Vec<&str> = world.pods.keys().map(|name| &**name).collect();
    assert_eq!(guardians, ["korder-guardian-agents-n3"]);
    let numbers = world.statuses[&order].nodes.expect("by node");
    assert_eq!((numbers.desired, numbers.current, numbers.ready, numbers.misscheduled), (1, 1, 1, 0));
}

/// The numbers in a message never contradict each other, even while tickets are being removed.
#[test]
fn what_an_order_says_counts_the_places_that_it_wants() {
    let mut world = World::new(&["n1", "n2"], "4");
    let replicas = |number| order_spec(Places::Number(number), "1");
    let order = world.order("buffer", replicas(3));
    world.settle();
    assert_eq!(world.statuses[&order].message, "3 of 3 tickets reserved");

    world.order("buffer", replicas(2));
    let said = world.status_now(order);
    assert_eq!((said.message.as_str(), said.available, said.desired), ("2 of 2 tickets reserved", 2, 2));
    assert!(said.ready.holds && said.progressing.holds, "the third ticket is about to be deleted");
    world.settle();
    assert!(!world.statuses[&order].progressing.holds);

    // A user deletes a ticket and waits for its guardian: `--cascade=foreground`.
    world.change_ticket("buffer-1", |ticket| ticket.terminating = true);
    let said = world.status_now(order);
    assert_eq!((said.message.as_str(), said.replicas), ("1 of 2 tickets reserved", 1));

    // A node that is not Ready keeps its ticket, and does not count as desired.
    let agents = world.order("agents", tolerates_not_ready());
    world.settle();
    let mut down = node("n1");
    down.conditions.clear();
    world.set_node(down, "4");
    assert_eq!(world.status_now(agents).message, "1 of 1 nodes reserved");
}

#[test]
fn an_order_that_lacks_nothing_but_capacity_has_settled() {
    let mut world = World::new(&["n1"], "1");
    let order = world.order("buffer", order_spec(Places::Number(3), "1"));
    world.settle();
    let said = &world.statuses[&order];
    assert_eq!(said.message, "1 of 3 tickets reserved; not enough capacity for 2");
    assert_eq!((said.ready.holds, said.progressing.holds, said.failure.holds), (false, false, true));
    // With a lower number, the surplus tickets are not counted.
    world.order("buffer", order_spec(Places::Number(1), "1"));
    assert_eq!(world.status_now(order).message, "1 of 1 tickets reserved");
}

fn tolerates_not_ready() -> rollcall_core::reservation::spec::OrderSpec {
    use rollcall_core::node::{TaintEffect, Toleration};
    let mut spec = order_spec(Places::EachNode, "1");
    let mut template = (*spec.template.spec).clone();
    let (key, effect) = ("node.kubernetes.io/not-ready".into(), Some(TaintEffect::NoExecute));
    template.placement.tolerations = vec![Toleration { key, value: None, effect, seconds: Some(60) }];
    spec.template.spec = Arc::new(template);
    spec
}

/// With two owners, a guardian outlives its ticket: the garbage collector only removes the reference to the ticket.
#[test]
fn a_guardian_that_nothing_but_its_node_owns_is_deleted() {
    use rollcall_core::facts::{OwnerKind, OwnerRef};
    let mut world = World::new(&["n1", "n2"], "4");
    let owned = |world: &mut World, name: &str, owner: &str| {
        let uid = world.stranger(name, "1");
        world.change_pod(name, |pod| {
            pod.owner = Some(OwnerRef { kind: OwnerKind::Other, uid: rollcall_core::Uid::digest(owner) });
            pod.node = Some("n1".into());
        });
        uid
    };
    owned(&mut world, "korder-guardian-gone", "n1");
    owned(&mut world, "korder-guardian-of-another-node", "n2");
    owned(&mut world, "korder-guardian-of-an-unseen-ticket", "some ticket");
    owned(&mut world, "static-web-n1", "n1");
    world.settle();
    assert_eq!(world.take_done(), ["delete pods korder-guardian-gone"]);
}

/// Heartbeats are most of the events of a node.
#[test]
fn a_heart_beat_costs_nothing_and_a_node_costs_one_place() {
    let names: Vec<String> = (0..200).map(|number| format!("n{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = World::new(&names, "4");
    agents(&mut world);
    world.settle();
    (world.decisions, world.done) = (0, Vec::new());
    for name in &names {
        world.set_node(node(name), "4");
    }
    world.settle();
    assert_eq!((world.decisions, world.done.len()), (0, 0));
    world.set_node(node("late"), "4");
    world.settle();
    assert!(world.decisions < 15, "{}", world.decisions);
    assert_eq!(
        world.done,
        ["ticket agents-late", "guardian korder-guardian-agents-late", "agents-late is Reserved (Reserved)"]
    );
}

#[test]
fn a_room_is_handed_over_in_steps_that_nobody_gets_between() {
    let mut world = World::new(&["n1"], "1");
    agents(&mut world);
    world.settle();
    // Other pods of the same priority that wait for capacity.
    for number in 0..20 {
        world.stranger(&format!("a-stranger-{number}"), "1");
    }
    world.settle();
    world.take_done();
    world.add_claiming_pod("web", wants("agents"), "500m");
    world.settle();
    assert_eq!(
        world.take_done()[..5],
        [
            "agents-n1 is Claimed (Claimed)",
            "nominate web for n1",
            "delete pods korder-guardian-agents-n1",
            "release web agents-n1 n1",
            "agents-n1 is Claimed (Claimed)",
        ]
    );
    assert_eq!(world.pods["web"].node.as_deref(), Some("n1"));
    let claim = world.tickets["agents-n1"].claim().expect("claimed");
    assert_eq!((&*claim.name, claim.utilization), ("web", 50));
    assert!(
        world.pods.values().filter(|pod| pod.name.starts_with("a-stranger")).all(|pod| pod.node.is_none())
    );
    // The ticket beside it has no capacity, and does not preempt other pods.
    let beside = world.tickets.values().find(|ticket| ticket.claim().is_none()).expect("beside");
    assert_eq!((beside.phase(), &*beside.record.reason), (TicketPhase::Pending, "NoRoom"));
}

#[test]
fn a_claim_ends_with_its_pod_and_the_claimer_is_never_touched() {
    let mut world = World::new(&["n1"], "4");
    agents(&mut world);
    world.settle();
    world.add_claiming_pod("web", wants("agents"), "1");
    world.settle();
    let mut cordoned = node("n1");
    cordoned.unschedulable = true;
    world.set_node(cordoned, "4");
    world.settle();
    assert_eq!(world.phases(), ["agents-n1 Claimed"]);
    assert!(world.pods.contains_key("web"));
    world.remove_pod("web");
    world.settle();
    assert_eq!(&*world.tickets["agents-n1"].record.reason, "ClaimEnded");
    world.pass(3600);
    assert_eq!(world.phases(), Vec::<String>::new());
}

#[test]
fn a_claimer_that_cannot_run_there_gives_the_room_back() {
    let mut world = World::new(&["n1"], "1");
    agents(&mut world);
    world.settle();
    world.stuck.insert("web".into());
    world.add_claiming_pod("web", wants("agents"), "1");
    world.settle();
    assert_eq!(world.tickets["agents-n1"].phase(), TicketPhase::Claimed);
    world.take_done();
    world.pass(61);
    assert!(world.events.iter().any(|event| event.reason == "NotBound"));
    assert!(world.done.contains(&"nominate web for nothing".to_owned()), "{:?}", world.done);
    assert_eq!(world.tickets["agents-n1"].phase(), TicketPhase::Reserved, "{:?}", world.done);
    assert!(world.pods["web"].gates.is_empty());
}

#[test]
fn whoever_gets_no_ticket_runs_without_one_and_is_told_why() {
    let mut world = World::new(&["n1"], "40");
    agents(&mut world);
    world.settle();
    let cases = [
        (
            "large",
            wants("agents"),
            "2",
            "a ticket of Order agents is too small: the pod requests 2 cpu, the ticket reserves 1 cpu",
        ),
        ("lost", wants("others"), "1", "Order others not found"),
        ("stray", RequestedTicket::Any, "1", "no Order selects the pod, and the pod requests no ticket"),
        ("named", RequestedTicket::Ticket("nope".into()), "1", "ticket nope not found"),
    ];
    for (name, wanted, cpu, why) in cases {
        world.add_claiming_pod(name, wanted, cpu);
        world.settle();
        let event = world.events.pop().expect("an event");
        assert_eq!((&*event.about.name, event.reason), (name, "NoTicket"));
        assert_eq!(event.message, format!("runs without reserved capacity: {why}"));
        assert!(world.pods[name].gates.is_empty(), "{name}");
    }
    let mut spec = ticket_spec("1");
    spec.priority_class = Some("high".into());
    world.class("high", 1000);
    world.ticket_by_hand("vip", spec);
    world.settle();
    world.add_claiming_pod("low", RequestedTicket::Ticket("vip".into()), "1");
    world.settle();
    assert_eq!(world.events.last().map(|event| event.reason), Some("PriorityBelowTicket"));
    assert_eq!(world.tickets["vip"].phase(), TicketPhase::Reserved);
}

#[test]
fn a_ticket_that_is_about_to_be_reserved_is_waited_for_but_not_for_ever() {
    let mut world = World::new(&["n1"], "1");
    world.stranger("a-full-house", "1");
    world.settle();
    agents(&mut world);
    world.settle();
    world.add_claiming_pod("web", wants("agents"), "1");
    world.pass(4);
    assert_eq!(world.pods["web"].gates.len(), 1);
    world.pass(2);
    assert_eq!(world.pods["web"].gates.len(), 0);
    assert_eq!(world.events.last().map(|event| event.reason), Some("NoTicket"));
}

#[test]
fn foreign_gates_come_first() {
    let mut world = World::new(&["n1"], "4");
    agents(&mut world);
    world.add_claiming_pod("web", wants("agents"), "1");
    world.change_pod("web", |pod| pod.gates.push("kueue.x-k8s.io/admission".into()));
    world.pass(60);
    assert_eq!(world.tickets["agents-n1"].phase(), TicketPhase::Reserved);
    world.change_pod("web", |pod| drop(pod.gates.pop()));
    world.settle();
    assert_eq!(world.tickets["agents-n1"].phase(), TicketPhase::Claimed);
}

#[test]
fn replicas_have_places_and_no_name_collides_when_one_in_the_middle_goes() {
    let mut world = World::new(&["n1"], "10");
    let order = world.order("buffer", order_spec(Places::Number(3), "1"));
    world.settle();
    assert_eq!(world.phases(), ["buffer-0 Reserved", "buffer-1 Reserved", "buffer-2 Reserved"]);
    world.remove_ticket("buffer-1");
    world.settle();
    assert_eq!(world.phases(), ["buffer-0 Reserved", "buffer-1 Reserved", "buffer-2 Reserved"]);
    world.order("buffer", order_spec(Places::Number(1), "1"));
    world.settle();
    assert_eq!(world.phases(), ["buffer-0 Reserved"]);
    assert_eq!(world.statuses[&order].available, 1);
}

#[test]
fn a_new_template_replaces_one_ticket_at_a_time() {
    let mut world = World::new(&["n1", "n2", "n3"], "4");
    agents(&mut world);
    world.settle();
    world.take_done();
    let mut spec = order_spec(Places::EachNode, "2");
    spec.template.hash = "2".into();
    world.order("agents", spec);
    world.settle();
    let deleted = |place: usize| {
        world.done.iter().enumerate().filter(|(_, did)| did.starts_with("delete tickets")).nth(place)
    };
    let reserved = |place: usize| {
        world.done.iter().enumerate().filter(|(_, did)| did.ends_with("Reserved (Reserved)")).nth(place)
    };
    for place in 0..2 {
        let (next, _) = deleted(place + 1).expect("three go");
        let (before, _) = reserved(place).expect("three come");
        assert!(before < next, "{:?}", world.done);
    }
    assert!(world.tickets.values().all(|ticket| ticket.template.as_deref() == Some("2")));
}

#[test]
fn an_unknown_class_is_named_and_waited_for() {
    let mut world = World::new(&["n1"], "4");
    let mut spec = ticket_spec("1");
    spec.priority_class = Some("critical".into());
    world.ticket_by_hand("vip", spec);
    world.settle();
    assert_eq!(&*world.tickets["vip"].record.reason, "UnknownPriorityClass");
    world.class("critical", 2_000_000_000);
    world.settle();
    assert_eq!(world.tickets["vip"].phase(), TicketPhase::Reserved);
    assert!(world.done.contains(&"class korder-guardian-1000000000".to_owned()), "no class of ours has more");
}

#[test]
fn a_guardian_that_is_deleted_or_evicted_comes_back() {
    let mut world = World::new(&["n1"], "4");
    agents(&mut world);
    world.settle();
    world.remove_pod("korder-guardian-agents-n1");
    world.settle();
    assert_eq!(world.phases(), ["agents-n1 Reserved"]);
    world.change_pod("korder-guardian-agents-n1", |pod| pod.phase = rollcall_core::facts::PodPhase::Failed);
    world.settle();
    assert_eq!(world.phases(), ["agents-n1 Reserved"]);
    assert!(world.pods.values().all(|pod| pod.phase == rollcall_core::facts::PodPhase::Running));
}

#[test]
fn no_eligible_node_is_said_with_the_criterion_that_failed_most_often() {
    let mut world = World::new(&["n1", "n2", "n3"], "4");
    let mut spec = order_spec(Places::EachNode, "1");
    let mut template = ticket_spec("1");
    template.placement.node_selector = [("accelerator", "nvidia-tesla-k80")].into_iter().collect();
    spec.template.spec = Arc::new(template);
    let order = world.order("gpu", spec);
    world.settle();
    let status = &world.statuses[&order];
    assert_eq!((status.ready.holds, status.ready.reason.code()), (false, "NoEligibleNode"));
    assert_eq!(status.message, "none of 3 nodes is eligible: 3 not matched by nodeSelector");
}

#[test]
fn what_never_is_refreshed_is_not_reserved_again() {
    let mut world = World::new(&["n1"], "4");
    let spec = rollcall_core::reservation::spec::OrderSpec {
        refresh: Refresh::Never,
        ..order_spec(Places::EachNode, "1")
    };
    world.order("agents", spec);
    world.settle();
    assert_eq!(world.tickets["agents-n1"].record.expires, None, "a permanent buffer");
    world.add_claiming_pod("web", wants("agents"), "1");
    world.settle();
    assert_eq!(world.phases(), ["agents-n1 Claimed"]);
    world.remove_pod("web");
    world.pass(10 * 3600);
    assert_eq!(world.phases(), ["agents-n1 Expired"], "it stays as long as the Order");
}

#[test]
fn a_paused_order_makes_nothing_and_takes_nothing_away() {
    let mut world = World::new(&["n1"], "4");
    agents(&mut world);
    world.settle();
    let paused =
        rollcall_core::reservation::spec::OrderSpec { paused: true, ..order_spec(Places::EachNode, "1") };
    world.order("agents", paused);
    world.set_node(node("n2"), "4");
    world.remove_node("n1");
    world.settle();
    assert_eq!(world.phases().len(), 1);
    agents(&mut world);
    world.settle();
    assert_eq!(world.phases(), ["agents-n2 Reserved"]);
}
