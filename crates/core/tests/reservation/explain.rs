//! Explanations of Orders, tickets and claiming pods, for each reason to wait.

use super::world::{NAMESPACE, World, node, order_spec, room, ticket_spec};
use super::{agents, wants};
use jiff::SignedDuration;
use rollcall_core::Uid;
use rollcall_core::cluster::Target;
use rollcall_core::dispatch::explain_pod;
use rollcall_core::index::Object;
use rollcall_core::kind::Kind;
use rollcall_core::line::{CODES, Hint, Line};
use rollcall_core::node::{Taint, TaintEffect};
use rollcall_core::reservation::explain::{
    FetchedData, Occupant, Room, Rooms, Written, explain_order, explain_ticket,
};
use rollcall_core::reservation::reason;
use rollcall_core::reservation::spec::{
    OrderSpec, Places, Refresh, RequestedTicket, Strategy, TicketClaim, TicketPhase,
};
use rollcall_core::reservation::timetable::Timetable;
use rollcall_core::sequence;
use std::sync::Arc;

/// Draws a tree with the code of each line, and with hints as commands.
fn drawn(world: &World, line: &Line, indent: usize, text: &mut String) {
    let known = CODES.iter().any(|(code, _)| *code == line.code)
        || reason::described(line.code).is_some()
        || sequence::reason::ALL.iter().any(|known| known.code == line.code);
    assert!(known, "{} is described nowhere", line.code);
    assert!(line.since <= world.now && !line.object.name.is_empty(), "{line:?}");
    *text += &format!("{}{}: {}\n", "  ".repeat(indent), line.code, line.text);
    for hint in &line.hints {
        let said = match hint {
            Hint::Advice(advice) => advice.clone(),
            Hint::Command { command, .. } => {
                format!("{:?} {} {}", command.program, command.verb, command.arguments)
            }
        };
        assert!(!said.contains('<') && !said.contains("NAME"), "a placeholder: {said}");
        *text += &format!("{}  > {said}\n", "  ".repeat(indent));
    }
    line.below.iter().for_each(|below| drawn(world, below, indent + 1, text));
}

fn tree(world: &World, title: &str, line: &Line) -> String {
    let mut text = format!("# {title}\n");
    drawn(world, line, 0, &mut text);
    text + "\n"
}

fn of_order(world: &World, title: &str, order: Uid) -> String {
    let entry = world.index.reservations.order(order).expect("an Order");
    let written = Written { since: None, message: "2 of 3 nodes reserved", nodes_known: true };
    tree(
        world,
        title,
        &explain_order(world.index.reservation_facts(), entry, &written, &Rooms::new(), world.now),
    )
}

fn of_ticket(world: &World, title: &str, name: &str, rooms: &[Room]) -> String {
    let ticket = world.index.reservations.ticket_named(NAMESPACE, name).expect(name);
    let fetched = FetchedData { rooms, pods_known: true };
    tree(world, title, &explain_ticket(world.index.reservation_facts(), ticket, fetched, world.now))
}

fn of_pod(world: &World, title: &str, name: &str) -> String {
    tree(world, title, &explain_pod(&world.index, &world.pods[name], world.now))
}

fn recurring(schedule: &str) -> Strategy {
    let schedule = rollcall_core::schedule::Schedule::parse(schedule).expect("a schedule");
    Strategy::Recurring(Timetable { schedule, zone: jiff::tz::TimeZone::UTC })
}

#[test]
fn orders() {
    let mut text = String::new();
    let mut world = World::new(&["n1", "n2", "n3", "n4"], "4");
    let mut cordoned = node("n3");
    cordoned.unschedulable = true;
    world.set_node(cordoned, "4");
    let mut tainted = node("n4");
    tainted.taints = vec![Taint { key: "gpu".into(), value: "".into(), effect: TaintEffect::NoSchedule }];
    world.set_node(tainted, "4");
    world.stranger("db", "4");
    world.settle();
    let order = agents(&mut world);
    text += &of_order(&world, "tickets are about to be made", order);
    world.settle();
    world.pass(240);
    text += &of_order(&world, "one has no room, two get none", order);
    world.add_claiming_pod("web", wants("agents"), "1");
    world.pass(10);
    text += &of_order(&world, "one is claimed", order);
    world.order("agents", OrderSpec { paused: true, ..order_spec(Places::EachNode, "1") });
    text += &of_order(&world, "paused", order);
    let hourly = OrderSpec { strategy: recurring("0 3 * * *"), ..order_spec(Places::Number(2), "1") };
    let mut short = ticket_spec("1");
    short.duration = Some(SignedDuration::from_mins(10));
    let hourly = OrderSpec {
        template: rollcall_core::reservation::spec::Template { spec: Arc::new(short), ..hourly.template },
        ..hourly
    };
    let order = world.order("nightly", hourly);
    world.settle();
    text += &of_order(&world, "its time is ahead", order);
    let entry = world.index.reservations.order(order).expect("an Order");
    let mut invalid = entry.order.clone();
    (invalid.version, invalid.spec) = (u64::MAX, Err("spec.strategy.schedule: \"x\" has 1 field".into()));
    world.index.apply(Object::Order(Box::new(invalid)));
    text += &of_order(&world, "it cannot be carried out", order);
    insta::assert_snapshot!(text);
}

#[test]
fn who_may_not_read_pods_is_not_told_that_nobody_asks() {
    let mut world = World::new(&["n1"], "4");
    agents(&mut world);
    world.settle();
    let ticket = world.index.reservations.ticket_named(NAMESPACE, "agents-n1").expect("a ticket");
    let says_so = |pods_known: bool| {
        let fetched = FetchedData { rooms: &[], pods_known };
        let line = explain_ticket(world.index.reservation_facts(), ticket, fetched, world.now);
        line.below.iter().any(|line| line.code == "NobodyAsks")
    };
    assert!(says_so(true) && !says_so(false));
}

#[test]
fn orders_of_many_nodes() {
    let names: Vec<String> = (0..40).map(|number| format!("n{number:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = World::new(&names, "1");
    for (number, name) in names.iter().enumerate().skip(10) {
        let mut changed = node(name);
        match number {
            10..30 => changed.unschedulable = true,
            _ => {
                changed.conditions.clear();
                changed.not_ready_since = Some(world.now);
            }
        }
        world.set_node(changed, "1");
    }
    for number in 0..8 {
        let name = format!("stranger-{number}");
        world.stranger(&name, "1");
    }
    world.settle();
    let order = agents(&mut world);
    world.pass(60);
    let entry = world.index.reservations.order(order).expect("an Order");
    let mut text = of_order(&world, "grouped", order);
    let written = Written { since: Some(world.now), message: "2 of 10 nodes reserved", nodes_known: false };
    let line = explain_order(world.index.reservation_facts(), entry, &written, &Rooms::new(), world.now);
    text += &tree(&world, "to one who may not see the nodes", &line);
    insta::assert_snapshot!(text);
}

#[test]
fn orders_whose_time_is_over() {
    let mut world = World::new(&["n1"], "4");
    let order =
        world.order("once", OrderSpec { refresh: Refresh::Never, ..order_spec(Places::EachNode, "1") });
    world.settle();
    world.add_claiming_pod("web", wants("once"), "1");
    world.settle();
    world.remove_pod("web");
    world.pass(10);
    let mut text = of_order(&world, "never again", order);
    let order = agents(&mut world);
    world.pass(25 * 3600);
    text += &of_order(&world, "over", order);
    insta::assert_snapshot!(text);
}

fn sitter(namespace: &str, name: &str, cpu: &str, priority: i32, world: &World) -> Occupant {
    let pod = Target { kind: Kind::Pod, namespace: namespace.into(), name: name.into(), uid: None };
    Occupant { pod, since: world.now, requests: room(cpu), priority }
}

fn rooms(world: &World) -> Vec<Room> {
    let few = (0..7).map(|number| sitter("shop", &format!("web-{number}"), "100m", 0, world));
    let large = [
        sitter("shop", "db-0", "2", 1000, world),
        sitter("infra", "korder-guardian-agents-n1", "1", 0, world),
    ];
    let full = Room { node: "n1".into(), allocatable: room("4"), pods: few.chain(large).collect() };
    let roomy = Room { node: "n2".into(), allocatable: room("8"), pods: Vec::new() };
    let none = Room { node: "n3".into(), allocatable: Default::default(), pods: Vec::new() };
    vec![none, full, roomy]
}

#[test]
fn tickets() {
    let mut text = String::new();
    let mut world = World::new(&["n1"], "4");
    world.ticket_by_hand("new", ticket_spec("1"));
    text += &of_ticket(&world, "nobody has looked at it", "new", &[]);
    world.settle();
    world.pass(60);
    text += &of_ticket(&world, "kept, and nobody asks", "new", &[]);
    let mut spec = ticket_spec("1");
    spec.priority_class = Some("critical".into());
    world.ticket_by_hand("vip", spec);
    let mut spec = ticket_spec("1");
    spec.start = Some(world.now + SignedDuration::from_hours(1));
    world.ticket_by_hand("later", spec);
    world.ticket_by_hand("huge", ticket_spec("6"));
    world.settle();
    world.pass(30);
    for name in ["vip", "later"] {
        text += &of_ticket(&world, name, name, &[]);
    }
    text += &of_ticket(&world, "no room, and nobody looked where", "huge", &[]);
    text += &of_ticket(&world, "no room", "huge", &rooms(&world));
    text += &of_ticket(&world, "room, and yet it is not there", "huge", &rooms(&world)[2..]);
    for (reason, message) in [
        ("GuardianNameTaken", "another pod is named korder-guardian-vip; rename or delete that pod"),
        ("GuardianRefused", "cannot create guardian korder-guardian-vip: exceeded quota"),
        ("SomethingNew", "what a newer controller says"),
    ] {
        world.change_ticket("vip", |ticket| {
            (ticket.record.reason, ticket.record.message) = (reason.into(), message.into());
        });
        text += &of_ticket(&world, reason, "vip", &[]);
    }
    world.class("critical", 7);
    world.change_ticket("vip", |ticket| ticket.record.reason = "GuardianClassTaken".into());
    text += &of_ticket(&world, "GuardianClassTaken", "vip", &[]);
    world.change_ticket("vip", |ticket| ticket.spec = Err("spec.duration: \"x\"".into()));
    text += &of_ticket(&world, "invalid", "vip", &[]);
    world.pass(20 * 3600);
    text += &of_ticket(&world, "its end is far", "new", &[]);
    world.pass(3 * 3600 + 3000);
    text += &of_ticket(&world, "its end is near", "new", &[]);
    world.pass(1800);
    text += &of_ticket(&world, "it has ended", "new", &[]);
    insta::assert_snapshot!(text);
}

#[test]
fn hand_over_step_by_step() {
    let mut text = String::new();
    let mut world = World::new(&["n1"], "4");
    agents(&mut world);
    world.settle();
    let web = world.add_claiming_pod("web", wants("agents"), "500m");
    text += &of_pod(&world, "about to be claimed", "web");
    text += &of_ticket(&world, "about to be claimed", "agents-n1", &[]);
    let now = world.now;
    world.change_ticket("agents-n1", |ticket| {
        ticket.record.phase = Some(TicketPhase::Claimed);
        ticket.record.reason = "Claimed".into();
        ticket.record.claim = Some(TicketClaim { pod: web, name: "web".into(), at: now, utilization: 50 });
    });
    text += &of_pod(&world, "claimed", "web");
    text += &of_ticket(&world, "claimed", "agents-n1", &[]);
    world.change_pod("web", |pod| pod.nominated = Some("n1".into()));
    text += &of_pod(&world, "nominated", "web");
    world.remove_pod("korder-guardian-agents-n1");
    text += &of_pod(&world, "the guardian is gone", "web");
    world.now += SignedDuration::from_secs(60);
    text += &of_pod(&world, "and nobody goes on", "web");
    world.change_pod("web", |pod| pod.gates.clear());
    text += &of_pod(&world, "let go", "web");
    text += &of_ticket(&world, "let go", "agents-n1", &[]);
    world.settle();
    text += &of_pod(&world, "in its room", "web");
    text += &of_ticket(&world, "in its room", "agents-n1", &[]);
    insta::assert_snapshot!(text);
}

#[test]
fn claimers() {
    let mut text = String::new();
    let mut world = World::new(&["n1", "n2"], "4");
    world.add_claiming_pod("early", wants("none"), "1");
    text += &of_pod(&world, "no Order and no ticket is known", "early");
    agents(&mut world);
    world.add_claiming_pod("soon", wants("agents"), "1");
    text += &of_pod(&world, "tickets are about to be made", "soon");
    world.settle();
    world.pass(20);
    world.add_claiming_pod("lost", wants("none"), "1");
    text += &of_pod(&world, "no such Order", "lost");
    world.add_claiming_pod(
        "unclear",
        RequestedTicket::Unclear("korder.dev/ticket-request is \"x:y\"".into()),
        "1",
    );
    text += &of_pod(&world, "unclear", "unclear");
    world.add_claiming_pod("any", RequestedTicket::Any, "1");
    text += &of_pod(&world, "nobody selects it", "any");
    world.add_claiming_pod("large", wants("agents"), "2");
    text += &of_pod(&world, "too small", "large");
    world.add_claiming_pod("label", RequestedTicket::Label { key: "zone".into(), value: "a".into() }, "1");
    text += &of_pod(&world, "by label", "label");
    world.add_claiming_pod("one", RequestedTicket::Ticket("agents-n2".into()), "2");
    text += &of_pod(&world, "one ticket", "one");
    world.add_claiming_pod("gated", wants("agents"), "1");
    world.change_pod("gated", |pod| pod.gates.push("kueue.x-k8s.io/admission".into()));
    text += &of_pod(&world, "another gate", "gated");
    text += &of_ticket(&world, "wanted by three", "agents-n2", &[]);
    let now = world.now;
    world.change_ticket("agents-n2", |ticket| {
        (ticket.record.phase, ticket.record.expires) = (Some(TicketPhase::Expired), Some(now));
    });
    let beside =
        world.tickets.keys().find(|name| name.starts_with("agents-n1-")).expect("one beside").clone();
    world.change_ticket(&beside, |ticket| {
        let mut spec = ticket_spec("1");
        spec.priority_class = Some("high".into());
        ticket.spec = Ok(Arc::new(spec));
    });
    world.class("high", 1000);
    world.add_claiming_pod("low", wants("agents"), "1");
    text += &of_pod(&world, "priority", "low");
    world.now += SignedDuration::from_secs(60);
    text += &of_pod(&world, "and nobody does it", "low");
    insta::assert_snapshot!(text);
}
