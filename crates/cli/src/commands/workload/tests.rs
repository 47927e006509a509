//! Plays commands through: each decision is executed before the next one.

use super::drive::{Look, Moment, Next, Wait};
use super::stuck::Stuck;
use super::testing::Shop;
use super::tiers::{tiers, waits_for};
use super::world::World;
use super::{restart, start, stop, warnings};
use rollcall_api::names;
use rollcall_core::Uid;
use rollcall_core::facts::OwnerKind;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

/// Limit of decisions, far above what any command here needs.
const LOOKS: usize = 60;

/// Plays a command until it ends or has made `most_writes` writes, and returns a log.
fn play(
    shop: &mut Shop,
    most_writes: usize,
    mut judge: impl FnMut(&World, &mut BTreeSet<Uid>, Duration) -> Look,
) -> String {
    let (mut log, mut written, mut done) = (String::new(), BTreeSet::new(), BTreeSet::new());
    let mut left = most_writes;
    for look in 0..LOOKS {
        let Look { next, done: now } = judge(&shop.world(), &mut written, Duration::from_secs(look as u64));
        now.difference(&done).for_each(|title| log += &format!("\"{title}\" is through\n"));
        done = now;
        match next {
            Next::Done => return log + "done\n",
            Next::Failed { why, hints } => return log + &format!("failed: {why} {hints:?}\n"),
            Next::Wait(wait) => {
                let stuck = wait.stuck.map(|stuck| format!(" stuck: {stuck:?}")).unwrap_or_default();
                log += &format!("waits for {:?}: {}{stuck}\n", wait.tiers, wait.what);
                shop.settle();
            }
            Next::Write(writes) => {
                for write in writes {
                    if left == 0 {
                        return log + "killed\n";
                    }
                    left -= 1;
                    log += &format!("{}\n", write.says);
                    written.extend(write.workload());
                    shop.apply(&write);
                }
            }
        }
    }
    log + "never ends\n"
}

fn stop_all(shop: &mut Shop, most_writes: usize) -> String {
    play(shop, most_writes, |world, written, _| stop::next_of_all(world, written, false))
}

fn start_all(shop: &mut Shop, most_writes: usize) -> String {
    // No controller answers, so the sizes are restored after a while; this ends before the wait for pods.
    let log = play(shop, most_writes, |world, _, elapsed| {
        let Look { next, done } = start::next(world, Some("t1"), elapsed).expect("the notes can be read");
        let begun = elapsed > Duration::from_secs(11);
        Look { next: if begun && matches!(next, Next::Wait(_)) { Next::Done } else { next }, done }
    });
    log.replace("waits for []: the controller has not answered\n", "")
}

/// Sizes, suspensions and notes of the workloads.
fn state(shop: &Shop) -> String {
    let mut state = String::new();
    for (kind, object) in &shop.workloads {
        if *kind == OwnerKind::ReplicaSet {
            continue;
        }
        let (spec, annotations) = (&object["spec"], &object["metadata"]["annotations"]);
        let note = annotations[names::BEFORE_STOP].as_str().unwrap_or("-");
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        state += &format!("{name} {} {} {note}\n", spec["replicas"], spec["suspend"]);
    }
    state
}

#[test]
fn groups_wait_at_any_distance() {
    let spec = Shop::new().world().spec().expect("valid").clone();
    let waits: Vec<Vec<usize>> =
        (0..5).map(|position| waits_for(&spec, position).into_iter().collect()).collect();
    assert_eq!(waits, [vec![], vec![0], vec![0, 1], vec![0, 1], vec![0, 1, 2, 3]]);
}

#[test]
fn a_stop_goes_backwards_and_a_start_gives_all_back() {
    let mut shop = Shop::new();
    let before = state(&shop);
    insta::assert_snapshot!("stop", stop_all(&mut shop, usize::MAX));
    insta::assert_snapshot!("stopped", state(&shop));
    assert_eq!(
        stop_all(&mut shop, 0),
        "\"agent\" is through\n\"app\" is through\n\"db\" is through\n\"migrate\" is through\n\"web\" is through\ndone\n"
    );
    insta::assert_snapshot!("start", start_all(&mut shop, usize::MAX));
    assert_eq!(state(&shop), before);
}

#[test]
fn killed_after_any_write_and_repeated_both_come_to_the_same() {
    let mut whole = Shop::new();
    let before = state(&whole);
    stop_all(&mut whole, usize::MAX);
    let stopped = state(&whole);
    for writes in 0..4 {
        let mut shop = Shop::new();
        stop_all(&mut shop, writes);
        assert!(stop_all(&mut shop, usize::MAX).ends_with("done\n"));
        assert_eq!(state(&shop), stopped);
        start_all(&mut shop, writes);
        assert!(start_all(&mut shop, usize::MAX).ends_with("done\n"));
        assert_eq!(state(&shop), before);
    }
}

#[test]
fn jobs_and_cron_jobs_are_suspended_and_those_that_are_over_are_not() {
    let by_ref = |kind: &str| json!({"name": kind, "workloadRef": {"apiVersion": "batch/v1", "kind": kind, "name": "nightly"}});
    let mut shop = Shop::with_groups(&[by_ref("CronJob"), by_ref("Job")]);
    shop.add(OwnerKind::CronJob, "nightly", json!({}), json!({}));
    shop.add(OwnerKind::Job, "nightly", json!({}), json!({}));
    let cron_job = json!([{"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "CronJob-nightly", "controller": true}]);
    for (name, over) in [("nightly-1", true), ("nightly-2", false)] {
        let conditions = if over { json!([{"type": "Complete", "status": "True"}]) } else { json!([]) };
        let run = shop.add(OwnerKind::Job, name, json!({}), json!({"conditions": conditions}));
        run["metadata"]["ownerReferences"] = cron_job.clone();
        shop.pod(&format!("{name}-x"), Some((OwnerKind::Job, name)));
        if over {
            shop.pod_named(&format!("{name}-x"))["status"]["phase"] = "Succeeded".into();
        }
    }
    insta::assert_snapshot!("cron_jobs", stop_all(&mut shop, usize::MAX));
    insta::assert_snapshot!("cron_jobs_stopped", state(&shop));
}

#[test]
fn a_size_that_somebody_sets_back_ends_a_stop_and_a_start_leaves_it() {
    let mut shop = Shop::new();
    let mut looks = 0;
    let log = play(&mut shop, usize::MAX, |world, written, _| {
        looks += 1;
        stop::next_of_all(world, written, false)
    });
    assert!(log.ends_with("done\n") && looks > 3);
    // A user starts one workload manually, with another size.
    shop.workload(OwnerKind::Deployment, "web")["spec"]["replicas"] = 5.into();
    let mut stopped = [Uid::new("Deployment-web")].into();
    let Look { next, .. } = stop::next_of_all(&shop.world(), &mut stopped, false);
    assert!(
        matches!(&next, Next::Failed { why, .. } if why.contains("deployment/web has 5 replicas again")),
        "{next:?}"
    );
    let log = start_all(&mut shop, usize::MAX);
    assert!(
        log.contains("deployment/web: already started with 5 replicas; not changed to the previous size 1"),
        "{log}"
    );
    assert!(state(&shop).contains("web 5 null -\n"));
    // A new stop remembers the new size.
    stop_all(&mut shop, usize::MAX);
    assert!(state(&shop).contains(r#"web 0 null {"replicas":5}"#), "{}", state(&shop));
}

#[test]
fn pods_by_name_lead_to_their_stateful_set_when_none_is_left() {
    let mut shop = Shop::with_groups(&[
        json!({"name": "db", "pods": ["db-0", "db-1"]}),
        json!({"name": "one", "pods": ["single"]}),
    ]);
    shop.stateful_set("db", 2);
    shop.pod("single", None);
    shop.pod("single-of-an-operator", None);
    insta::assert_snapshot!("names", stop_all(&mut shop, usize::MAX));
    assert_eq!(tiers(&shop.world())[0].workloads(&shop.world()).len(), 1);
    // Also deletes the pods without an owner.
    let log = play(&mut shop, usize::MAX, |world, written, _| stop::next_of_all(world, written, true));
    assert!(log.contains("pod/single: deleted"), "{log}");
    assert_eq!(shop.pods.len(), 1);
}

fn roll(shop: &mut Shop, back: bool, most_writes: usize) -> String {
    let mut progress = Default::default();
    play(shop, most_writes, |world, written, elapsed| {
        let moment = Moment { world, written, elapsed };
        restart::next_of_all(&moment, back, &mut progress)
    })
}

#[test]
fn a_restart_rolls_one_tier_after_the_other() {
    let mut shop = Shop::new();
    shop.sequence["spec"]["podGroups"][0]["waitDuration"] = "3s".into();
    insta::assert_snapshot!("restart", roll(&mut shop, false, usize::MAX));
    assert!(
        !shop
            .workloads
            .iter()
            .any(|(_, it)| it["metadata"]["annotations"].get(names::BEFORE_RESTART).is_some())
    );
}

#[test]
fn a_restart_that_was_interrupted_goes_on_or_is_taken_back() {
    for writes in 1..4 {
        let mut shop = Shop::new();
        roll(&mut shop, false, writes);
        let log = roll(&mut shop, false, usize::MAX);
        assert!(log.ends_with("done\n"), "{log}");
        assert_eq!(log.matches(": restarted").count(), 4 - writes, "{log}");
    }
    let mut shop = Shop::new();
    let former = json!({"metadata": {"annotations": {(names::RESTARTED_AT): "before"}}});
    shop.workload(OwnerKind::StatefulSet, "db")["spec"]["template"] = former.clone();
    roll(&mut shop, false, 2);
    insta::assert_snapshot!("undo", roll(&mut shop, true, usize::MAX));
    assert_eq!(shop.workload(OwnerKind::StatefulSet, "db")["spec"]["template"], former);
    let app = &shop.workload(OwnerKind::Deployment, "app")["spec"]["template"]["metadata"]["annotations"];
    assert_eq!(app.get(names::RESTARTED_AT), None);
}

/// Reason and hints of a stuck wait.
fn said(stuck: Option<Stuck>) -> Option<(String, Vec<String>)> {
    stuck.map(|stuck| (stuck.why, stuck.hints))
}

fn restart_next(shop: &Shop) -> Next {
    let (world, written) = (shop.world(), BTreeSet::new());
    let moment = Moment { world: &world, written: &written, elapsed: Duration::ZERO };
    restart::next_of_all(&moment, false, &mut Default::default()).next
}

fn restart_waits(shop: &Shop) -> Wait {
    match restart_next(shop) {
        Next::Wait(wait) => wait,
        other => panic!("{other:?}"),
    }
}

fn with_partition(shop: &mut Shop, partition: u32) {
    shop.workload(OwnerKind::StatefulSet, "db")["spec"]["updateStrategy"] =
        json!({"rollingUpdate": {"partition": partition}});
}

/// Marks a workload as restarted, so that a restart waits for its pods.
fn restarted<'s>(shop: &'s mut Shop, kind: OwnerKind, name: &str) -> &'s mut Value {
    let workload = shop.workload(kind, name);
    workload["metadata"]["annotations"] = json!({(names::BEFORE_RESTART): ""});
    workload
}

#[test]
fn a_restart_that_waits_names_the_unready_pod_and_its_cause() {
    let mut shop = Shop::new();
    restarted(&mut shop, OwnerKind::StatefulSet, "db")["status"]["availableReplicas"] = 1.into();
    let container =
        |state: Value| json!([{"name": "server", "ready": false, "started": false, "state": state}]);
    let running = |state: Value| {
        json!({
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "False"}],
            "containerStatuses": container(state),
        })
    };
    let unscheduled = json!({
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
    });
    for (status, cause, hint) in [
        (
            running(json!({"waiting": {"reason": "CrashLoopBackOff"}})),
            "is not ready: container server: CrashLoopBackOff",
            "kubectl logs pod/db-1 -c server -n shop",
        ),
        (
            running(json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}})),
            "is not ready: container server: OOMKilled (exit code 137)",
            "kubectl logs pod/db-1 -c server -n shop",
        ),
        (
            running(json!({"running": {}})),
            "is not ready: container server: running but not ready",
            "kubectl describe pod/db-1 -n shop",
        ),
        (unscheduled, "has not started: Unschedulable", "kubectl describe pod/db-1 -n shop"),
    ] {
        shop.pod_named("db-1")["status"] = status;
        let wait = restart_waits(&shop);
        assert_eq!(wait.what, format!("statefulset/db: 2 of 2 updated, 1 available (pod db-1 {cause})"));
        assert_eq!(wait.hints, [hint]);
    }
    // A terminating pod is named only if no other pod is unready.
    shop.pod_named("db-0")["metadata"]["deletionTimestamp"] = "2026-11-15T23:00:10Z".into();
    assert!(restart_waits(&shop).what.contains("(pod db-1 has not started"));
    shop.pods.retain(|pod| pod["metadata"]["name"] != "db-1");
    assert!(restart_waits(&shop).what.ends_with("(pod db-0 is being deleted)"));
    // Without an unready pod, the workload is described.
    shop.pods.retain(|pod| pod["metadata"]["name"] != "db-0");
    let wait = restart_waits(&shop);
    assert_eq!(wait.what, "statefulset/db: 2 of 2 updated, 1 available");
    assert_eq!(wait.hints, ["kubectl describe statefulset/db -n shop"]);
}

#[test]
fn each_unfinished_workload_of_a_restart_has_its_pod() {
    let mut shop = Shop::new();
    for (kind, name) in
        [(OwnerKind::StatefulSet, "db"), (OwnerKind::Deployment, "app"), (OwnerKind::Deployment, "web")]
    {
        restarted(&mut shop, kind, name);
    }
    for name in ["app", "web"] {
        shop.workload(OwnerKind::Deployment, name)["status"]["availableReplicas"] = 0.into();
    }
    shop.pod_named("web-0")["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]);
    let wait = restart_waits(&shop);
    assert_eq!(
        wait.what,
        "deployment/app: 2 of 2 updated, 0 available, deployment/web: 1 of 1 updated, 0 available (pod web-0 is not ready)"
    );
    assert_eq!(wait.hints, ["kubectl describe pod/web-0 -n shop"]);
    // A Deployment that exceeded its deadline ends the restart.
    shop.workload(OwnerKind::Deployment, "web")["status"]["conditions"] =
        json!([{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]);
    assert_eq!(
        restart_next(&shop),
        Next::Failed {
            why: "deployment/web does not become ready: it exceeded its progressDeadlineSeconds (pod web-0 is not ready)"
                .into(),
            hints: vec!["kubectl describe pod/web-0 -n shop".into()],
        }
    );
}

#[test]
fn a_restart_honours_a_partition() {
    let mut shop = Shop::new();
    let set = restarted(&mut shop, OwnerKind::StatefulSet, "db");
    set["spec"]["replicas"] = 3.into();
    let status =
        json!({"replicas": 3, "updatedReplicas": 0, "availableReplicas": 3, "observedGeneration": 1});
    set["status"] = status;
    let stays = |shop: &Shop| {
        let world = shop.world();
        restart::stays(&world, &tiers(&world)[0])
    };
    assert_eq!(restart_waits(&shop).what, "statefulset/db: 0 of 3 updated, 3 available");
    with_partition(&mut shop, 0);
    assert_eq!(stays(&shop), [""; 0]);
    for (partition, pods) in
        [(1, "db-0 is"), (2, "db-0 and db-1 are"), (3, "db-0 to db-2 are"), (9, "db-0 to db-2 are")]
    {
        with_partition(&mut shop, partition);
        let line = format!("statefulset/db: partition {partition} is honoured; {pods} not restarted");
        assert_eq!(stays(&shop), [line]);
    }
    with_partition(&mut shop, 2);
    assert_eq!(restart_waits(&shop).what, "statefulset/db: 0 of 1 updated, 3 available");
    shop.workload(OwnerKind::StatefulSet, "db")["status"]["updatedReplicas"] = 1.into();
    assert!(matches!(restart_next(&shop), Next::Write(_)), "the next tier is restarted");
    // Ordinals may start at another number; the partition counts pods.
    shop.workload(OwnerKind::StatefulSet, "db")["spec"]["ordinals"] = json!({"start": 5});
    assert_eq!(stays(&shop), ["statefulset/db: partition 2 is honoured; db-5 and db-6 are not restarted"]);
}

#[test]
fn stateful_sets_that_cannot_go_on_are_recognised() {
    let mut shop = Shop::new();
    let set = shop.workload(OwnerKind::StatefulSet, "db");
    set["status"]["updateRevision"] = "db-2".into();
    set["status"]["updatedReplicas"] = 0.into();
    set["metadata"]["annotations"] = json!({(names::BEFORE_RESTART): ""});
    for name in ["db-0", "db-1"] {
        shop.pod_named(name)["metadata"]["labels"] = json!({"controller-revision-hash": "db-1"});
    }
    let unready = |shop: &mut Shop, name: &str| {
        shop.pod_named(name)["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]);
    };
    let look = |shop: &Shop| said(restart_waits(shop).stuck);
    assert_eq!(look(&shop), None);
    unready(&mut shop, "db-1");
    insta::assert_debug_snapshot!("stuck_update", look(&shop));
    with_partition(&mut shop, 1);
    assert!(look(&shop).is_some());
    with_partition(&mut shop, 2);
    shop.workload(OwnerKind::StatefulSet, "db")["status"]["availableReplicas"] = 1.into();
    assert_eq!(look(&shop), None, "below the partition, an old revision is intended");
    with_partition(&mut shop, 0);
    // When scaled down, the highest pod waits for a lower one.
    let mut down = || {
        let set = shop.workload(OwnerKind::StatefulSet, "db");
        set["spec"]["replicas"] = 0.into();
        shop.workload(OwnerKind::Deployment, "app")["spec"]["replicas"] = 0.into();
        shop.workload(OwnerKind::Deployment, "web")["spec"]["replicas"] = 0.into();
        shop.pods.retain(|pod| pod["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("db")));
        for name in ["app", "web"] {
            shop.workload(OwnerKind::Deployment, name)["status"]["replicas"] = 0.into();
        }
        match stop::next_of_all(&shop.world(), &mut BTreeSet::new(), false).next {
            Next::Wait(wait) => said(wait.stuck),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(down(), None, "the only pod that is not ready is deleted first");
    unready(&mut shop, "db-0");
    let Next::Wait(wait) = stop::next_of_all(&shop.world(), &mut BTreeSet::new(), false).next else {
        panic!()
    };
    insta::assert_debug_snapshot!("stuck_scale_down", said(wait.stuck));
}

#[test]
fn who_may_undo_it_is_named() {
    let mut shop = Shop::new();
    let autoscaler = |name: &str, owner: Value| {
        json!({
            "metadata": {"name": name, "ownerReferences": owner},
            "spec": {"maxReplicas": 9, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}},
        })
    };
    let keda = json!([{"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "name": "web", "uid": "k"}]);
    shop.autoscalers = vec![autoscaler("app", json!([])), autoscaler("web", keda)];
    shop.workload(OwnerKind::Deployment, "app")["spec"]["paused"] = true.into();
    let meta = &mut shop.workload(OwnerKind::Deployment, "web")["metadata"];
    meta["labels"] = json!({"kustomize.toolkit.fluxcd.io/name": "apps", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"});
    meta["annotations"] = json!({"argocd.argoproj.io/tracking-id": "shop:apps/Deployment:shop/web"});
    let meta = &mut shop.workload(OwnerKind::StatefulSet, "db")["metadata"];
    meta["ownerReferences"] = json!([{"apiVersion": "x.io/v1", "kind": "Postgres", "name": "main", "uid": "p", "controller": true}]);
    meta["labels"] = json!({"helm.toolkit.fluxcd.io/name": "db", "helm.toolkit.fluxcd.io/namespace": "shop"});
    shop.workload(OwnerKind::Job, "migrate")["metadata"]["labels"] =
        json!({"kueue.x-k8s.io/queue-name": "q"});
    let world = shop.world();
    let all = warnings::warnings(&world, &tiers(&world));
    let text: String = all
        .iter()
        .map(|it| {
            format!("{}\n{}", it.text, it.hint.as_ref().map_or(String::new(), |hint| format!("  {hint}\n")))
        })
        .collect();
    insta::assert_snapshot!("warnings", text);
}
