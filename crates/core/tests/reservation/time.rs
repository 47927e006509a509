//! Schedules, durations, ends.

use super::world::{World, node, order_spec};
use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use rollcall_core::reservation::spec::{OrderSpec, Places, Refresh, Strategy};
use rollcall_core::reservation::timetable::{Timetable, Window};
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

/// As Kubernetes' CronJob has it: what a clock skips does not happen, what it shows twice happens twice.
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
    let window = |spec: &OrderSpec, now: &str| spec.window(created, created, at(now));
    let open = |tick: &str| Window::Open { tick: Some(at(tick)) };

    let recurring = lasting(1, Strategy::Recurring(six()), Refresh::OnClaim);
    assert_eq!(window(&recurring, "2026-11-17T10:00:00Z"), Window::Opens(at("2026-11-17T12:00:00Z")));
    assert_eq!(window(&recurring, "2026-11-17T12:30:00Z"), open("2026-11-17T12:00:00Z"));
    assert_eq!(window(&recurring, "2026-11-17T13:00:00Z"), Window::Opens(at("2026-11-17T18:00:00Z")));
    assert_eq!(window(&recurring, "2026-11-17T18:00:00Z"), open("2026-11-17T18:00:00Z"));

    // The seed's: eight hours, every six.
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

    let once = lasting(1, Strategy::OneTime, Refresh::OnClaim);
    assert_eq!(window(&once, "2026-11-17T10:59:59Z"), Window::Open { tick: None });
    assert_eq!(window(&once, "2026-11-17T11:00:00Z"), Window::Closed);
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
    // A node that comes later has a time of its own.
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
    use rollcall_core::node::{Effect, Toleration};
    let mut world = World::new(&["n1", "n2"], "4");
    let mut spec = order_spec(Places::EachNode, "1");
    let mut template = (*spec.template.spec).clone();
    let key = "node.kubernetes.io/not-ready".into();
    template.placement.tolerations =
        vec![Toleration { key, value: None, effect: Some(Effect::NoExecute), seconds: Some(60) }];
    spec.template.spec = Arc::new(template);
    world.order("agents", spec);
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
