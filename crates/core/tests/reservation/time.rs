//! Schedules, durations and expiry.

use super::world::{World, node, order_spec};
use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use rollcall_core::reservation::spec::{OrderSpec, Places, Refresh, RequestedTicket, Strategy};
use rollcall_core::reservation::timetable::{OrderTimes, Timetable, Window};
use rollcall_core::schedule::Schedule;
use std::sync::Arc;

fn timetable(text: &str, zone: &str) -> Timetable {
    Timetable {
        schedule: Schedule::parse(text).expect("a schedule"),
        zone: TimeZone::get(zone).expect("a zone"),
    }
}

fn at(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

fn lasting(hours: i64, strategy: Strategy, refresh: Refresh) -> OrderSpec {
    let mut spec = OrderSpec { strategy, refresh, ..order_spec(Places::EachNode, "1") };
    let mut template = (*spec.template.spec).clone();
    template.duration = Some(SignedDuration::from_hours(hours));
    spec.template.spec = Arc::new(template);
    spec
}

#[test]
fn the_last_tick_is_found_however_rare() {
    for (schedule, now, last) in [
        ("* * * * *", "2026-11-17T10:00:30Z", Some("2026-11-17T10:00:00Z")),
        ("0 */6 * * *", "2026-11-17T11:59:59Z", Some("2026-11-17T06:00:00Z")),
        ("0 0 1 1 *", "2026-11-17T00:00:00Z", Some("2026-01-01T00:00:00Z")),
        ("0 0 * * 1", "2026-11-17T00:00:00Z", Some("2026-11-16T00:00:00Z")),
        ("0 0 29 2 *", "2026-11-17T00:00:00Z", None),
    ] {
        assert_eq!(timetable(schedule, "UTC").last(at(now)), last.map(at), "{schedule}");
    }
}

/// As in a Kubernetes CronJob: a time that the clock skips does not occur, and a time that occurs twice triggers twice.
#[test]
fn clocks_that_change_are_followed() {
    let daily = timetable("30 2 * * *", "Europe/Berlin");
    assert_eq!(daily.last(at("2026-03-29T12:00:00Z")), Some(at("2026-03-28T01:30:00Z")), "02:30 is skipped");
    assert_eq!(daily.last(at("2026-10-25T00:45:00Z")), Some(at("2026-10-25T00:30:00Z")));
    assert_eq!(daily.last(at("2026-10-25T02:00:00Z")), Some(at("2026-10-25T01:30:00Z")), "02:30 comes twice");
}

#[test]
fn when_an_order_reserves() {
    let six = || timetable("0 */6 * * *", "UTC");
    let created = at("2026-11-17T10:00:00Z");
    let window =
        |spec: &OrderSpec, now: &str| spec.window(OrderTimes { created, last_tick: None }, created, at(now));
    let open = |tick: &str| Window::Open { tick: Some(at(tick)) };

    let recurring = lasting(1, Strategy::Recurring(six()), Refresh::OnClaim);
    assert_eq!(window(&recurring, "2026-11-17T10:00:00Z"), Window::Opens(at("2026-11-17T12:00:00Z")));
    assert_eq!(window(&recurring, "2026-11-17T12:30:00Z"), open("2026-11-17T12:00:00Z"));
    assert_eq!(window(&recurring, "2026-11-17T13:00:00Z"), Window::Opens(at("2026-11-17T18:00:00Z")));
    assert_eq!(window(&recurring, "2026-11-17T18:00:00Z"), open("2026-11-17T18:00:00Z"));

    // The defaults of the original korder: eight hours, every six.
    let always = lasting(8, Strategy::Recurring(six()), Refresh::Always);
    assert_eq!(
        window(&always, "2026-11-17T10:00:00Z"),
        open("2026-11-17T06:00:00Z"),
        "its window is still open"
    );

    let scheduled = lasting(1, Strategy::Scheduled(six()), Refresh::OnClaim);
    assert_eq!(window(&scheduled, "2026-11-17T11:00:00Z"), Window::Opens(at("2026-11-17T12:00:00Z")));
    assert_eq!(
        window(&scheduled, "2026-11-17T12:10:00Z"),
        open("2026-11-17T12:00:00Z"),
        "missed, and still inside"
    );
    assert_eq!(window(&scheduled, "2026-11-17T18:10:00Z"), Window::Closed, "once");

    let long = lasting(8, Strategy::Scheduled(six()), Refresh::OnClaim);
    assert_eq!(
        window(&long, "2026-11-17T10:00:00Z"),
        Window::Opens(at("2026-11-17T12:00:00Z")),
        "nothing before its first tick, though the window of the tick before is open"
    );

    let once = lasting(1, Strategy::OneTime, Refresh::OnClaim);
    assert_eq!(window(&once, "2026-11-17T10:59:59Z"), Window::Open { tick: None });
    assert_eq!(window(&once, "2026-11-17T11:00:00Z"), Window::Closed);
}

/// Older versions reserved immediately if the window of the last tick was still open, and journaled that tick.
#[test]
fn a_scheduled_order_that_has_reserved_does_not_do_it_again() {
    let (created, last_tick) = (at("2026-11-17T10:00:00Z"), Some(at("2026-11-17T06:00:00Z")));
    let spec = lasting(8, Strategy::Scheduled(timetable("0 */6 * * *", "UTC")), Refresh::OnClaim);
    let times = OrderTimes { created, last_tick };
    assert_eq!(spec.window(times, created, at("2026-11-17T12:30:00Z")), Window::Open { tick: last_tick });
    assert_eq!(spec.window(times, created, at("2026-11-17T14:00:00Z")), Window::Closed);
    assert_eq!(spec.window(times, created, at("2026-11-17T18:30:00Z")), Window::Closed);

    let mut world = World::new(&["n1"], "4");
    let hourly = timetable("0 * * * *", "UTC");
    let tick = hourly.next(world.now).expect("a tick");
    let order = world.order("agents", lasting(2, Strategy::Scheduled(hourly), Refresh::OnClaim));
    world.settle();
    assert!(world.tickets.is_empty(), "not before the tick");
    assert_eq!(world.statuses[&order].next_schedule, Some(tick));
    world.pass(tick.duration_since(world.now).as_secs());
    assert_eq!(world.phases(), ["agents-n1 Reserved"]);
    assert_eq!(
        (world.statuses[&order].last_schedule, world.statuses[&order].next_schedule),
        (Some(tick), None)
    );
    // Neither the next tick nor a changed schedule makes it reserve again.
    world.pass(4 * 3600);
    assert!(world.tickets.is_empty());
    world.order("agents", lasting(2, Strategy::Scheduled(timetable("30 * * * *", "UTC")), Refresh::OnClaim));
    world.pass(24 * 3600);
    assert!(world.tickets.is_empty());
    assert_eq!(world.statuses[&order].last_schedule, Some(tick));
}

#[test]
fn a_paused_order_does_not_use_up_its_tick() {
    let mut world = World::new(&["n1"], "4");
    let scheduled = |text: &str| lasting(2, Strategy::Scheduled(timetable(text, "UTC")), Refresh::OnClaim);
    let order = world.order("agents", OrderSpec { paused: true, ..scheduled("0 * * * *") });
    world.pass(90 * 60);
    assert_eq!(world.statuses[&order].last_schedule, None);
    world.order("agents", scheduled("0 0 1 1 *"));
    world.settle();
    assert_eq!(world.statuses[&order].next_schedule, Some(at("2028-01-01T00:00:00Z")));
}

#[test]
fn the_clock_of_a_ticket_starts_when_it_is_reserved() {
    let mut world = World::new(&["n1"], "0");
    world.order("agents", lasting(10, Strategy::OneTime, Refresh::OnClaim));
    world.pass(11 * 3600);
    let waiting = &world.tickets["agents-n1"].record;
    assert_eq!((&*waiting.reason, waiting.activated, waiting.expires), ("NoRoom", None, None));
    world.set_node(node("n1"), "4");
    world.change_pod("korder-guardian-agents-n1", |_| {});
    world.settle();
    let (begin, end) = (world.now, world.now + SignedDuration::from_hours(10));
    let reserved = &world.tickets["agents-n1"].record;
    assert_eq!((reserved.activated, reserved.expires), (Some(begin), Some(end)));
    // Replacing a guardian does not restart the duration.
    world.pass(3600);
    world.remove_pod("korder-guardian-agents-n1");
    world.settle();
    assert_eq!(world.phases(), ["agents-n1 Reserved"]);
    assert_eq!(world.tickets["agents-n1"].record.activated, Some(begin));
    world.pass(9 * 3600);
    assert_eq!(world.phases(), ["agents-n1 Expired"]);
}

#[test]
fn a_ticket_that_waits_for_capacity_ends_with_the_window_of_its_tick() {
    let mut world = World::new(&["n1"], "0");
    let daily = timetable("0 0 * * *", "UTC");
    let tick = daily.next(world.now).expect("tomorrow");
    world.order("agents", lasting(2, Strategy::Recurring(daily), Refresh::OnClaim));
    world.pass(tick.duration_since(world.now).as_secs());
    let waiting = &world.tickets["agents-n1"].record;
    assert_eq!((waiting.activated, waiting.expires), (None, Some(tick + SignedDuration::from_hours(2))));
    world.pass(2 * 3600);
    let ended = &world.tickets["agents-n1"].record;
    assert_eq!((world.phases()[0].as_str(), ended.activated), ("agents-n1 Expired", None));
    assert_eq!(&*ended.message, "the ticket expired before its capacity could be reserved");
    assert!(world.pods.is_empty(), "the guardian is deleted");
}

/// Older versions set the times of a ticket before its guardian ran.
#[test]
fn times_that_a_ticket_has_are_kept() {
    let mut world = World::new(&["n1"], "0");
    world.order("agents", lasting(10, Strategy::OneTime, Refresh::OnClaim));
    world.settle();
    let (begin, end) = (world.now, world.now + SignedDuration::from_hours(10));
    world.change_ticket("agents-n1", |ticket| {
        (ticket.record.activated, ticket.record.expires) = (Some(begin), Some(end));
    });
    world.pass(3600);
    world.set_node(node("n1"), "4");
    world.change_pod("korder-guardian-agents-n1", |_| {});
    world.settle();
    assert_eq!(world.phases(), ["agents-n1 Reserved"]);
    let record = &world.tickets["agents-n1"].record;
    assert_eq!((record.activated, record.expires), (Some(begin), Some(end)));
}

/// If no ticket expires, only the clock tells an Order that its window has closed.
#[test]
fn an_order_says_when_its_window_has_closed() {
    let mut world = World::new(&["n1"], "4");
    let order = world.order("agents", lasting(2, Strategy::OneTime, Refresh::Never));
    world.settle();
    world.add_claiming_pod("agent", RequestedTicket::Order("agents".into()), "1");
    world.pass(3600);
    assert_eq!(world.phases(), ["agents-n1 Claimed"]);
    world.pass(3600);
    assert_eq!(
        world.statuses[&order].message,
        "the reservation period has ended: no more tickets are created"
    );
}

#[test]
fn a_ticket_ends_in_time_says_so_before_and_is_deleted_later() {
    let mut world = World::new(&["n1"], "4");
    world.order("agents", lasting(10, Strategy::OneTime, Refresh::OnClaim));
    world.settle();
    let end = world.now + SignedDuration::from_hours(10);
    assert_eq!(world.tickets["agents-n1"].record.expires, Some(end));
    world.pass(9 * 3600 - 1);
    assert!(!world.tickets["agents-n1"].record.expiring.holds);
    world.pass(1);
    assert!(world.tickets["agents-n1"].record.expiring.holds, "an hour before");
    assert_eq!(world.events.iter().filter(|event| event.reason == "Expiring").count(), 1);
    world.pass(3600);
    assert_eq!(world.phases(), ["agents-n1 Expired"]);
    assert!(world.pods.is_empty(), "the guardian is gone");
    world.pass(3600);
    assert!(world.tickets.is_empty());
    world.pass(24 * 3600);
    assert!(world.tickets.is_empty(), "once");
    // A node that joins later has its own window.
    let mut late = node("n2");
    late.created = world.now;
    world.set_node(late, "4");
    world.settle();
    assert_eq!(world.phases(), ["agents-n2 Reserved"]);
}

#[test]
fn what_is_always_refreshed_keeps_its_guardian_and_moves_its_end() {
    let mut world = World::new(&["n1"], "4");
    world.order("agents", lasting(10, Strategy::OneTime, Refresh::Always));
    world.settle();
    let guardian = world.pods["korder-guardian-agents-n1"].uid;
    world.pass(95 * 3600);
    assert_eq!(world.phases(), ["agents-n1 Reserved"]);
    assert_eq!(world.pods["korder-guardian-agents-n1"].uid, guardian);
    assert!(world.tickets["agents-n1"].record.expires > Some(world.now));
    assert!(world.events.iter().all(|event| event.reason != "Expiring"));
}

#[test]
fn a_recurring_order_reserves_at_each_tick() {
    let mut world = World::new(&["n1"], "4");
    let daily = timetable("0 0 * * *", "UTC");
    let next = daily.next(world.now).expect("tomorrow");
    world.order("agents", lasting(2, Strategy::Recurring(daily), Refresh::OnClaim));
    world.settle();
    assert!(world.tickets.is_empty(), "not yet");
    world.pass(next.duration_since(world.now).as_secs());
    assert_eq!(world.phases(), ["agents-n1 Reserved"]);
    assert_eq!(world.tickets["agents-n1"].record.expires, Some(next + SignedDuration::from_hours(2)));
    world.pass(4 * 3600);
    assert!(world.tickets.is_empty());
    world.pass(20 * 3600);
    assert_eq!(world.phases(), ["agents-n1 Reserved"]);
}

#[test]
fn a_node_that_is_not_ready_keeps_its_ticket_as_long_as_it_is_tolerated() {
    let mut world = World::new(&["n1", "n2"], "4");
    world.order("agents", super::tolerates_not_ready());
    world.settle();
    let mut down = node("n1");
    down.conditions.clear();
    down.not_ready_since = Some(world.now);
    world.set_node(down, "4");
    world.pass(59);
    assert_eq!(world.phases().len(), 2);
    world.pass(1);
    assert_eq!(world.phases(), ["agents-n2 Reserved"]);
}

#[test]
fn a_start_time_is_waited_for() {
    let mut world = World::new(&["n1"], "4");
    let mut spec = super::world::ticket_spec("1");
    spec.start = Some(world.now + SignedDuration::from_mins(5));
    world.ticket_by_hand("later", spec);
    world.pass(299);
    assert_eq!(
        (world.phases()[0].as_str(), &*world.tickets["later"].record.reason),
        ("later Pending", "NotStarted")
    );
    world.pass(1);
    assert_eq!(world.phases(), ["later Reserved"]);
}
