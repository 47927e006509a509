use super::world::{World, template};
use rollcall_sim::kinds::Kind;
use serde_json::{Value, json};

/// A CronJob that runs every minute, unless `spec` has another schedule.
fn cron(spec: Value) -> Value {
    let mut cron = json!({ "metadata": { "name": "tick" }, "spec": { "schedule": "* * * * *" } });
    for (name, value) in spec.as_object().unwrap() {
        cron["spec"][name] = value.clone();
    }
    cron["spec"]["jobTemplate"]["spec"]["template"] = template("tick", "1");
    cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]["restartPolicy"] = "Never".into();
    cron
}

fn status(world: &World) -> Value {
    world.status(Kind::CronJob, "tick")
}

fn active(world: &World) -> Vec<String> {
    let status = status(world);
    let list = status["active"].as_array().cloned().unwrap_or_default();
    list.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
}

/// The beginning of 2026 in minutes since 1970.
const BEGIN: i64 = 29_453_760;

fn run(minute: i64) -> String {
    format!("tick-{}", BEGIN + minute)
}

/// Ends the pods of all runs.
fn end_all(world: &World, phase: &str) {
    for pod in world.all(Kind::Pod) {
        if pod["status"]["phase"] == "Running" {
            world.end_named(pod["metadata"]["name"].as_str().unwrap(), phase);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_at_every_time() {
    let world = World::with_nodes(1);
    world.create(Kind::CronJob, cron(json!({})));
    world.until(59).await;
    assert!(world.all(Kind::Job).is_empty());
    world.until(65).await;
    assert_eq!(world.names(Kind::Job), [run(1)]);
    let job = world.get(Kind::Job, &run(1));
    let scheduled = "batch.kubernetes.io/cronjob-scheduled-timestamp";
    assert_eq!(job["metadata"]["annotations"][scheduled], "2026-01-01T00:01:00Z");
    assert_eq!(job["metadata"]["ownerReferences"][0]["kind"], "CronJob");
    assert_eq!(active(&world), [run(1)]);
    assert_eq!(status(&world)["lastScheduleTime"], "2026-01-01T00:01:00Z");
    end_all(&world, "Succeeded");
    world.until(70).await;
    assert!(active(&world).is_empty());
    assert_eq!(status(&world)["lastSuccessfulTime"], world.status(Kind::Job, &run(1))["completionTime"]);
    world.until(125).await;
    assert_eq!(active(&world), [run(2)]);
}

#[tokio::test(start_paused = true)]
async fn runs_that_overlap() {
    for (policy, running, jobs) in [
        ("Allow", vec![run(1), run(2), run(3)], 3),
        ("Forbid", vec![run(1)], 1),
        ("Replace", vec![run(3)], 1),
    ] {
        let world = World::with_nodes(1);
        world.create(Kind::CronJob, cron(json!({ "concurrencyPolicy": policy })));
        world.until(210).await;
        assert_eq!(active(&world), running, "{policy}");
        assert_eq!(world.all(Kind::Job).len(), jobs, "{policy}");
        assert_eq!(world.all(Kind::Pod).len(), jobs, "{policy}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_forbidden_is_made_up_for_when_there_is_room() {
    let world = World::with_nodes(1);
    world.create(Kind::CronJob, cron(json!({ "concurrencyPolicy": "Forbid" })));
    world.until(190).await;
    end_all(&world, "Succeeded");
    world.until(200).await;
    assert_eq!(active(&world), [run(3)], "the latest missed run");
}

#[tokio::test(start_paused = true)]
async fn what_is_too_late_is_left_out() {
    let world = World::with_nodes(1);
    world.create(Kind::CronJob, cron(json!({ "concurrencyPolicy": "Forbid", "startingDeadlineSeconds": 5 })));
    world.until(190).await;
    end_all(&world, "Succeeded");
    world.until(200).await;
    assert!(active(&world).is_empty());
    world.until(245).await;
    assert_eq!(active(&world), [run(4)]);
}

#[tokio::test(start_paused = true)]
async fn suspended_it_starts_nothing_and_later_only_the_last_run_that_was_missed() {
    let world = World::with_nodes(1);
    world.create(Kind::CronJob, cron(json!({ "suspend": true })));
    world.until(605).await;
    assert!(world.all(Kind::Job).is_empty());
    world.edit(Kind::CronJob, "tick", |cron| cron["spec"]["suspend"] = false.into());
    world.until(610).await;
    assert_eq!(active(&world), [run(10)]);
}

#[tokio::test(start_paused = true)]
async fn finished_runs_are_kept_up_to_a_limit() {
    for (phase, limits, kept) in [
        ("Succeeded", json!({}), 3),
        ("Succeeded", json!({ "successfulJobsHistoryLimit": 1 }), 1),
        ("Succeeded", json!({ "successfulJobsHistoryLimit": 0 }), 0),
        ("Failed", json!({}), 1),
        ("Failed", json!({ "failedJobsHistoryLimit": 2 }), 2),
    ] {
        let world = World::with_nodes(1);
        let mut tick = cron(limits.clone());
        tick["spec"]["jobTemplate"]["spec"]["backoffLimit"] = 0.into();
        world.create(Kind::CronJob, tick);
        for minute in 1..=5 {
            world.until(minute * 60 + 10).await;
            end_all(&world, phase);
        }
        world.until(5 * 60 + 30).await;
        let expected: Vec<String> = (6 - kept..=5).map(run).collect();
        assert_eq!(world.names(Kind::Job), expected, "{phase} {limits}");
    }
}

#[tokio::test(start_paused = true)]
async fn schedules_and_time_zones() {
    for (schedule, zone, first, stamp) in [
        ("30 * * * *", "", 30, "2026-01-01T00:30:00Z"),
        ("0 12 * * *", "", 720, "2026-01-01T12:00:00Z"),
        ("0 0 * * sat", "", 2880, "2026-01-03T00:00:00Z"),
        ("@hourly", "", 60, "2026-01-01T01:00:00Z"),
        ("0 6 * * *", "Asia/Tokyo", 1260, "2026-01-02T06:00:00+09:00"),
        ("0 2 * * *", "America/New_York", 420, "2026-01-01T02:00:00-05:00"),
    ] {
        let world = World::with_nodes(1);
        let zone_or_none = if zone.is_empty() { Value::Null } else { zone.into() };
        world.create(Kind::CronJob, cron(json!({ "schedule": schedule, "timeZone": zone_or_none })));
        world.until(first * 60 + 5).await;
        assert_eq!(world.names(Kind::Job), [run(first)], "{schedule} {zone}");
        let annotations = world.get(Kind::Job, &run(first))["metadata"]["annotations"].clone();
        assert_eq!(annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"], stamp);
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_starts_nothing() {
    for spec in [json!({ "schedule": "every day" }), json!({ "timeZone": "Mars/Olympus" })] {
        let world = World::with_nodes(1);
        world.try_create(Kind::CronJob, cron(spec)).ok();
        world.wait(3600).await;
        assert!(world.all(Kind::Job).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_cron_job_that_is_deleted_takes_its_runs_along() {
    let world = World::with_nodes(1);
    world.create(Kind::CronJob, cron(json!({})));
    world.until(65).await;
    world.delete(Kind::CronJob, "tick");
    world.wait(120).await;
    assert!(world.all(Kind::Job).is_empty() && world.all(Kind::Pod).is_empty());
}
