//! The limits of one namespace.

use super::world::{World, order_spec, ticket_spec};
use rollcall_core::Uid;
use rollcall_core::decision::Report;
use rollcall_core::dispatch::decide;
use rollcall_core::index::Object;
use rollcall_core::key::Key;
use rollcall_core::reservation::budget::{MOST_ORDERS, MOST_TICKETS};
use rollcall_core::reservation::reason::Reason;
use rollcall_core::reservation::spec::{Places, TicketPhase};
use rollcall_core::sequence::Settings;

#[test]
fn the_oldest_orders_are_served() {
    let mut world = World::new(&["n1"], "1000");
    for number in 0..=MOST_ORDERS {
        world.order(&format!("o{number}"), order_spec(Places::Number(1), "1m"));
        world.pass(1);
    }
    let youngest = Uid::digest(&format!("o{MOST_ORDERS}"));
    assert_eq!(world.tickets.len(), MOST_ORDERS);
    let failure = &world.statuses[&youngest].failure;
    assert!(failure.holds && failure.reason == Reason::TooMany, "{failure:?}");
    assert!(failure.message.contains("201 Orders; only the oldest 200"), "{}", failure.message);
    let status = &world.statuses[&youngest];
    assert!(status.ready.reason == Reason::TooMany && !status.progressing.holds, "{status:?}");
    // After an Order is deleted, the next one takes effect.
    let oldest = world.index.reservations.order(Uid::digest("o0")).expect("an Order").order.clone();
    world.index.delete(Object::Order(Box::new(oldest)));
    world.settle();
    assert!(world.tickets.contains_key(&*format!("o{MOST_ORDERS}-0")), "{:?}", world.done.last());
    assert!(!world.statuses[&youngest].failure.holds);
}

#[test]
fn tickets_beyond_the_budget_get_no_guardian_and_are_told() {
    let mut world = World::new(&["n1"], "1000");
    world.ticket_by_hand("first", ticket_spec("1m"));
    world.settle();
    for number in 1..MOST_TICKETS {
        world.ticket_by_hand(&format!("t{number}"), ticket_spec("1m"));
    }
    // Decide only about these keys: decisions about all twenty thousand tickets take long.
    world.index.take_touched();
    world.now += jiff::SignedDuration::from_secs(1);
    world.ticket_by_hand("late", ticket_spec("1m"));
    let decided = |world: &World, name: &str| {
        let key = Key::Ticket(world.tickets[name].uid);
        decide(&world.index, key, Settings::default(), world.now, 8)
    };
    assert_eq!(decided(&world, "first").actions, [], "who has a guardian keeps it");
    assert_eq!(world.tickets["first"].phase(), TicketPhase::Reserved);
    let late = format!("{:?}", decided(&world, "late").actions);
    assert!(late.contains("TooMany") && late.contains("20001 tickets") && !late.contains("Create"), "{late}");
    let older = format!("{:?}", decided(&world, "t7").actions);
    assert!(older.contains("Create"), "an intruder displaces nobody: {older}");
    // An Order creates no tickets either, and reports the reason.
    let order = world.order("order", order_spec(Places::Number(1), "1m"));
    let decision = decide(&world.index, Key::Order(order), Settings::default(), world.now, 8);
    assert_eq!(decision.actions, []);
    let Some(Report::Order(status)) = decision.report else { panic!("it has no status") };
    let failure = &status.failure;
    assert!(failure.holds && failure.reason == Reason::TooMany, "{failure:?}");
    world.index.take_touched();
    world.remove_ticket("t1");
    assert!(world.index.take_touched().contains(&Key::Ticket(world.tickets["late"].uid)));
    assert!(format!("{:?}", decided(&world, "late").actions).contains("Create"));
}
