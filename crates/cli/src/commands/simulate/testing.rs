//! Reports of the simulator, written by hand for tests.

use rollcall_sim::report::*;

/// States of a pod with their start times in milliseconds.
pub type States<'a> = &'a [(u64, PodState)];

pub fn pod(name: &str, states: States) -> PodReport {
    let spans = states.iter().map(|(from, state)| Span { from: *from, state: *state, why: None }).collect();
    let arrived = states.iter().find(|(_, state)| matches!(state, PodState::Ready | PodState::Succeeded));
    PodReport {
        namespace: "default".into(),
        name: name.into(),
        workload: None,
        node: Some("node-1".into()),
        dns: Vec::new(),
        spans,
        deleted: None,
        arrived: arrived.map(|(from, _)| *from),
        reason: None,
        ranks: Vec::new(),
    }
}

/// A pod that is held, starts, and becomes ready.
pub fn usual(name: &str, created: u64, released: u64, ready: u64) -> PodReport {
    pod(name, &[(created, PodState::Held), (released, PodState::Starting), (ready, PodState::Ready)])
}

pub fn group(name: &str, waits_for: &[usize], pods: &[usize], opened: u64, completed: u64) -> GroupReport {
    GroupReport {
        name: name.into(),
        waits_for: waits_for.to_vec(),
        state: "Complete".into(),
        expected: Some(pods.len() as u32),
        arrived: pods.len() as u32,
        opened: Some(opened),
        completed: Some(completed),
        pods: pods.to_vec(),
        reason: None,
    }
}

pub fn why(code: &str, sentence: &str, hint: &str) -> Why {
    Why { code: code.into(), sentence: sentence.into(), hint: Some(hint.into()) }
}

fn sequence(name: &str, groups: Vec<GroupReport>) -> SequenceReport {
    let (phase, message) = ("Completed".into(), "all groups are complete".into());
    SequenceReport { namespace: "default".into(), name: name.into(), by_node: false, phase, message, groups }
}

fn report(ended: u64, sequences: Vec<SequenceReport>, pods: Vec<PodReport>) -> Report {
    let (critical, never, notes) = (Vec::new(), Vec::new(), Vec::new());
    let (last_action, outcome, claims) = (0, Outcome::Complete, Vec::new());
    let (orders, tickets) = (Vec::new(), Vec::new());
    Report {
        seed: 1,
        nodes: 3,
        ended,
        last_action,
        outcome,
        sequences,
        pods,
        claims,
        orders,
        tickets,
        critical,
        never,
        notes,
    }
}

fn step(pod: usize, from: u64, to: u64) -> CriticalStep {
    CriticalStep { pod, from, to }
}

pub fn all() -> Vec<(&'static str, Report)> {
    vec![
        ("shop", shop()),
        ("deadlock", deadlock()),
        ("missing", missing()),
        ("failed", failed()),
        ("many", many()),
        ("replicas", replicas()),
        ("empty", empty()),
        ("flapping", flapping()),
        ("jobs", jobs()),
        ("names", names()),
        ("platform", platform()),
        ("unfinished", unfinished()),
        ("launch", launch()),
        ("reservations", reservations()),
    ]
}

/// Reservations on two nodes, one of them claimed by an agent, a node without free capacity, and an expired ticket created by
/// hand.
pub fn reservations() -> Report {
    let ticket = |name: &str, order: Option<&str>, node: &str, states: &[(u64, TicketState)]| TicketReport {
        namespace: "default".into(),
        name: name.into(),
        order: order.map(str::to_owned),
        node: Some(node.into()),
        spans: states
            .iter()
            .map(|(from, state)| TicketSpan {
                from: *from,
                state: *state,
                claimed_by: (*state == TicketState::Claimed).then(|| "agent-x2x1z".to_owned()),
                why: (*state == TicketState::NoRoom)
                    .then(|| "not enough capacity on node-3 for 1 cpu; guardians never preempt".to_owned()),
            })
            .collect(),
        deleted: None,
    };
    let (pending, reserved) = (TicketState::Pending, TicketState::Reserved);
    let of_order = Some("agents");
    let mut report = report(12_000, Vec::new(), vec![usual("agent-x2x1z", 3_000, 5_000, 7_000)]);
    report.orders = vec![OrderReport {
        namespace: "default".into(),
        name: "agents".into(),
        ready: false,
        message: "2 of 3 nodes reserved; not enough capacity on 1 node".into(),
    }];
    report.tickets = vec![
        ticket(
            "agents-node-1",
            of_order,
            "node-1",
            &[(0, pending), (1_000, reserved), (5_000, TicketState::Claimed)],
        ),
        ticket("agents-node-2", of_order, "node-2", &[(0, pending), (1_000, reserved)]),
        ticket("agents-node-3", of_order, "node-3", &[(0, pending), (200, TicketState::NoRoom)]),
        ticket("agents-node-1-0b5c9d2e", of_order, "node-1", &[(5_100, pending), (6_200, reserved)]),
        ticket("nightly", None, "node-2", &[(0, pending), (1_000, reserved), (9_000, TicketState::Expired)]),
    ];
    report
}

/// A pod whose containers start in order, and a pod whose first rank is not ready.
pub fn launch() -> Report {
    let rank = |priority: i32, containers: &[&str], states: States| RankReport {
        priority,
        containers: containers.iter().map(|name| (*name).into()).collect(),
        spans: states.iter().map(|(from, state)| Span { from: *from, state: *state, why: None }).collect(),
    };
    use PodState::{Held, Ready, Starting};
    let mut web = usual("web", 0, 100, 7_200);
    web.ranks = vec![
        rank(2147483647, &["proxy", "agent"], &[(0, Held), (100, Starting), (3_000, Ready)]),
        rank(0, &["main"], &[(0, Held), (3_000, Starting), (5_100, Ready)]),
        rank(-1, &["a-sidecar-with-a-long-name"], &[(0, Held), (5_100, Starting), (7_200, Ready)]),
    ];
    let mut db = pod("db", &[(0, Held), (100, Starting)]);
    db.ranks = vec![rank(1, &["agent"], &[(0, Held), (100, Starting)]), rank(0, &["main"], &[(0, Held)])];
    db.reason = Some(why("Launching", "db starts its containers in order: 0 of 2 ranks are ready", "wait"));
    let mut report = report(7_200, Vec::new(), vec![web, db, usual("other", 0, 0, 1_000)]);
    report.outcome = Outcome::Unfinished;
    report
}

/// The three tiers of the documentation.
pub fn shop() -> Report {
    let mut pods = vec![
        usual("postgres-0", 0, 100, 12_400),
        usual("app-1", 0, 17_200, 22_500),
        usual("app-2", 0, 17_200, 24_000),
        usual("web", 0, 24_100, 27_300),
        usual("postgres-1", 12_400, 12_500, 17_100),
    ];
    for (pod, workload, node) in [
        (0, "StatefulSet/postgres", "node-1"),
        (4, "StatefulSet/postgres", "node-2"),
        (1, "Deployment/app", "node-1"),
        (2, "Deployment/app", "node-3"),
        (3, "Deployment/web", "node-2"),
    ] {
        pods[pod].workload = Some(workload.into());
        pods[pod].node = Some(node.into());
    }
    pods[1].spans[0].why = Some("waits for \"Database Layer\"".into());
    pods[2].spans[0].why = Some("waits for \"Database Layer\"".into());
    pods[3].spans[0].why = Some("waits for \"Application Layer\"".into());
    pods[0].spans[1].why = Some("container postgres: readiness probe fails until second 12".into());
    let groups = vec![
        group("Database Layer", &[], &[0, 4], 0, 17_100),
        group("Application Layer", &[0], &[1, 2], 17_100, 24_000),
        group("Frontend Layer", &[1], &[3], 24_000, 27_300),
    ];
    let mut report = report(27_300, vec![sequence("shop", groups)], pods);
    report.critical =
        vec![step(0, 0, 12_400), step(4, 12_400, 17_100), step(2, 17_100, 24_000), step(3, 24_000, 27_300)];
    report.notes = vec!["2 objects of kinds that are not simulated: Ingress, NetworkPolicy".into()];
    report
}

fn closed(mut group: GroupReport, arrived: u32, opened: Option<u64>, reason: Why) -> GroupReport {
    group.state = if opened.is_some() { "Open".into() } else { "Waiting".into() };
    (group.arrived, group.opened, group.completed, group.reason) = (arrived, opened, None, Some(reason));
    group
}

fn stuck(mut report: Report, never: &[(&str, Why)]) -> Report {
    report.outcome = Outcome::Stuck;
    report.never = never
        .iter()
        .map(|(what, why)| Never { what: (*what).into(), pods: Vec::new(), why: why.clone() })
        .collect();
    report
}

/// Two sequences, each waiting for a pod that the other sequence holds.
pub fn deadlock() -> Report {
    let waits = |group: &str| {
        let sentence = format!("waits for group 1 \"{group}\": 0 of 1 ready");
        why("WaitsForGroup", &sentence, "see what keeps that group")
    };
    let claimed = why(
        "ClaimedByAnother",
        "migrate is also held by podseq/search, which waits for podseq/shop",
        "take migrate out of one of the two sequences",
    );
    let mut pods = vec![pod("migrate", &[(0, PodState::Held)]), pod("api", &[(0, PodState::Held)])];
    pods[0].reason = Some(claimed.clone());
    pods[1].reason = Some(waits("Data"));
    pods.iter_mut().for_each(|pod| pod.node = None);
    let shop = vec![
        closed(group("Data", &[], &[0], 0, 0), 0, Some(0), claimed.clone()),
        closed(group("Services", &[0], &[1], 0, 0), 0, None, waits("Data")),
    ];
    let search = vec![
        closed(group("Index", &[], &[1], 0, 0), 0, Some(0), waits("Data")),
        closed(group("Import", &[0], &[0], 0, 0), 0, None, waits("Index")),
    ];
    let mut sequences = vec![sequence("shop", shop), sequence("search", search)];
    for sequence in &mut sequences {
        sequence.phase = "InProgress".into();
        sequence.message = "waiting for 1 of 1 pods: none is ready".into();
    }
    let never = [
        ("pod/migrate", claimed.clone()),
        ("pod/api", waits("Data")),
        ("podseq/shop group \"Data\"", claimed),
        ("podseq/shop group \"Services\"", waits("Data")),
    ];
    stuck(report(3_000, sequences, pods), &never)
}

/// A sequence that names a pod that no manifest creates.
pub fn missing() -> Report {
    let absent = why(
        "PodMissing",
        "waiting for 1 of 2 pods of \"Database Layer\": there is no pod postgres-1",
        "nothing in the manifests makes a pod of this name; did you mean postgres-01?",
    );
    let waits = why(
        "WaitsForGroup",
        "waits for group 1 \"Database Layer\": 1 of 2 ready",
        "see what keeps that group",
    );
    let mut web = pod("web", &[(0, PodState::Held)]);
    (web.reason, web.node) = (Some(waits.clone()), None);
    let mut database = group("Database Layer", &[], &[0], 0, 0);
    database.expected = Some(2);
    let groups = vec![
        closed(database, 1, Some(0), absent.clone()),
        closed(group("Frontend Layer", &[0], &[1], 0, 0), 0, None, waits.clone()),
    ];
    let mut sequence = sequence("shop", groups);
    sequence.phase = "InProgress".into();
    sequence.message = absent.sentence.clone();
    let never = [("podseq/shop group \"Database Layer\"", absent), ("pod/web", waits)];
    stuck(report(5_200, vec![sequence], vec![usual("postgres-01", 0, 100, 5_200), web]), &never)
}

/// One pod fails, one fits no node, and one runs but never becomes ready.
pub fn failed() -> Report {
    let broken = why(
        "PodFailed",
        "app-2 has failed: container server ended with code 1",
        "it fails because of --fail 'pod=app-2:6s'",
    );
    let no_room = why(
        "Unschedulable",
        "app-3 fits no node: 3 nodes have too little memory (wants 64Gi, 16Gi is the most)",
        "--nodes 3:memory=64Gi, or let it ask for less",
    );
    let slow =
        why("NotReady", "app-4 runs and is not ready: readiness probe fails", "--ready-after pod=app-4:5s");
    let mut pods = vec![
        usual("db", 0, 100, 8_000),
        usual("app-1", 0, 8_100, 12_000),
        pod("app-2", &[(0, PodState::Held), (8_100, PodState::Starting), (14_100, PodState::Failed)]),
        pod("app-3", &[(0, PodState::Held), (8_100, PodState::Unschedulable)]),
        pod("app-4", &[(0, PodState::Held), (8_100, PodState::Starting), (18_000, PodState::NotReady)]),
        pod("old", &[(0, PodState::Starting), (2_000, PodState::Ready), (20_000, PodState::Terminating)]),
    ];
    (pods[2].reason, pods[3].reason) = (Some(broken.clone()), Some(no_room.clone()));
    pods[4].reason = Some(slow.clone());
    pods[3].node = None;
    pods[5].deleted = Some(24_000);
    let groups = vec![
        group("Database", &[], &[0], 0, 8_000),
        closed(group("Services", &[0], &[1, 2, 3, 4], 0, 0), 1, Some(8_000), broken.clone()),
    ];
    let mut sequence = sequence("shop", groups);
    sequence.phase = "Failed".into();
    sequence.message = broken.sentence.clone();
    let never = [("pod/app-2", broken), ("pod/app-3", no_room), ("pod/app-4", slow)];
    stuck(report(30_000, vec![sequence], pods), &never)
}

/// 500 pods in 40 groups; three groups at a time run in parallel.
pub fn many() -> Report {
    let (mut pods, mut groups, mut critical) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..40u64 {
        let (column, opened) = (number / 3, number / 3 * 9_000);
        let size = if number == 7 { 32 } else { 12 };
        let members: Vec<usize> = (pods.len()..pods.len() + size).collect();
        for member in 0..size as u64 {
            let ready = opened + 2_000 + (member * 577 + number * 1_301) % 6_500;
            let name = format!("svc-{number:02}-{:08x}-{member:02}", 0x5f3a_1c00u64 + number * 7919);
            pods.push(usual(&name, 0, opened + 50 * member, ready));
        }
        let last = members.iter().copied().max_by_key(|pod| pods[*pod].arrived).unwrap_or_default();
        let completed = pods[last].arrived.unwrap_or_default();
        if number % 3 == 0 {
            critical.push(step(last, opened, completed));
        }
        let before = if column == 0 { 0..0 } else { (column as usize - 1) * 3..column as usize * 3 };
        let before: Vec<usize> = before.filter(|group| *group as u64 % 3 != (number + 1) % 3).collect();
        groups.push(group(
            &format!("stage {} / team {}", column + 1, number % 3 + 1),
            &before,
            &members,
            opened,
            completed,
        ));
    }
    let ended = groups.iter().filter_map(|group| group.completed).max().unwrap_or_default();
    let mut report = report(ended, vec![sequence("estate", groups)], pods);
    (report.nodes, report.critical) = (50, critical);
    report
}

/// A group of 40 pods, one of them late and two never ready, and ten pods without a sequence.
pub fn replicas() -> Report {
    let slow = why("NotReady", "not ready for 52.0s: readiness probe fails", "look at its readiness probe");
    let mut pods: Vec<PodReport> = (0..40)
        .map(|number| usual(&format!("web-{number:02}"), 0, 100 * number, 4_000 + 150 * number))
        .collect();
    for number in [31, 32] {
        pods[number].spans.truncate(2);
        (pods[number].arrived, pods[number].reason) = (None, Some(slow.clone()));
    }
    pods[20].spans[2].from = 40_000;
    pods[20].arrived = Some(40_000);
    let others = (0..10)
        .map(|number| pod(&format!("agent-{number}"), &[(0, PodState::Starting), (900, PodState::Ready)]));
    pods.extend(others);
    let members: Vec<usize> = (0..40).collect();
    let mut sequence =
        sequence("web", vec![closed(group("Web", &[], &members, 0, 0), 38, Some(0), slow.clone())]);
    (sequence.phase, sequence.message) = ("InProgress".into(), slow.sentence.clone());
    stuck(report(60_000, vec![sequence], pods), &[("pod/web-31", slow.clone()), ("pod/web-32", slow)])
}

pub fn empty() -> Report {
    report(0, Vec::new(), Vec::new())
}

/// A pod that is ready, twice unready for a while, and ready again; and a pod without a sequence.
pub fn flapping() -> Report {
    let flaps = [
        (0, PodState::Starting),
        (4_000, PodState::Ready),
        (20_000, PodState::NotReady),
        (20_300, PodState::Ready),
        (50_000, PodState::NotReady),
        (58_000, PodState::Ready),
    ];
    let mut cache = pod("cache-0", &flaps);
    cache.spans[2].why = Some("container redis: readiness probe fails".into());
    let pods = vec![
        cache,
        usual("web", 0, 4_100, 60_000),
        pod("debug", &[(0, PodState::Starting), (1_500, PodState::Ready)]),
    ];
    let groups = vec![group("Cache", &[], &[0], 0, 4_000), group("Web", &[0], &[1], 4_000, 60_000)];
    report(60_000, vec![sequence("flaky", groups)], pods)
}

/// A migration that completes, and groups that wait for it.
pub fn jobs() -> Report {
    let ends = |name: &str, from: u64, to: u64| {
        pod(name, &[(0, PodState::Held), (from, PodState::Starting), (to, PodState::Succeeded)])
    };
    let mut pods = vec![
        ends("migrate-4x7kq", 100, 45_000),
        ends("seed-b2m9s", 45_100, 95_000),
        usual("api", 0, 95_100, 101_000),
    ];
    pods[0].workload = Some("Job/migrate".into());
    let groups = vec![
        group("Migrate", &[], &[0], 0, 45_000),
        group("Seed", &[0], &[1], 45_000, 95_000),
        group("Serve", &[1], &[2], 95_000, 101_000),
    ];
    let mut report = report(101_000, vec![sequence("release", groups)], pods);
    report.critical = vec![step(0, 0, 45_000), step(1, 45_000, 95_000), step(2, 95_000, 101_000)];
    report
}

/// Names of maximum length, and names that contain markup.
pub fn names() -> Report {
    let long = "payments-reconciliation-worker-with-a-very-long-release-name-7d4b9c6f5-x2x1z";
    let pods = vec![usual(long, 0, 100, 3_000), usual("b", 0, 3_100, 4_000)];
    let groups = vec![
        group("Données & <b>bases</b> </script><script>alert(1)</script>", &[], &[0], 0, 3_000),
        group("データベース層 🚀", &[0], &[1], 3_000, 4_000),
    ];
    let mut first = sequence("größe", groups);
    first.namespace = "team-a".into();
    let mut report = report(4_000, vec![first, sequence("none", Vec::new())], pods);
    report.notes = vec!["<!-- <script> \u{2028} & \"quotes\"".into()];
    report
}

/// Groups that wait for several other groups.
pub fn platform() -> Report {
    let mut pods = Vec::new();
    let mut groups = Vec::new();
    let plan: [(&str, &[usize], u64, u64, usize); 8] = [
        ("Network", &[], 0, 6_000, 3),
        ("Storage", &[], 0, 14_000, 3),
        ("Secrets", &[0], 6_000, 9_000, 1),
        ("Database", &[0, 1], 14_000, 41_000, 3),
        ("Queue", &[1, 2], 14_000, 26_000, 2),
        ("Search", &[1], 14_000, 38_000, 2),
        ("Backend", &[3, 4, 5], 41_000, 52_000, 4),
        ("Edge", &[6, 2], 52_000, 57_000, 2),
    ];
    for (name, waits_for, opened, completed, count) in plan {
        let members: Vec<usize> = (pods.len()..pods.len() + count).collect();
        for member in 0..count as u64 {
            let ready = completed - member * (completed - opened) / 6;
            pods.push(usual(&format!("{}-{member}", name.to_lowercase()), 0, opened + 100, ready));
        }
        groups.push(group(name, waits_for, &members, opened, completed));
    }
    let mut report = report(57_000, vec![sequence("platform", groups)], pods);
    report.critical =
        vec![step(3, 0, 14_000), step(7, 14_000, 41_000), step(14, 41_000, 52_000), step(18, 52_000, 57_000)];
    report
}

pub fn unfinished() -> Report {
    let slow = why("NotReady", "slow is not ready for 59m58s", "give it more time: --until 2h");
    let mut pods = vec![pod("slow", &[(0, PodState::Held), (1_000, PodState::Starting)])];
    pods[0].reason = Some(slow.clone());
    let mut sequence = sequence("slow", vec![closed(group("", &[], &[0], 0, 0), 0, Some(0), slow)]);
    sequence.phase = "InProgress".into();
    sequence.groups[0].expected = None;
    let mut report = report(3_600_000, vec![sequence], pods);
    (report.outcome, report.nodes) = (Outcome::Unfinished, 1);
    report
}
