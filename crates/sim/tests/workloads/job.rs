use super::world::{World, part, template};
use rollcall_sim::kinds::Kind;
use serde_json::{Value, json};

fn job(spec: Value) -> Value {
    let mut job = json!({ "metadata": { "name": "task" }, "spec": spec });
    job["spec"]["template"] = template("task", "1");
    job["spec"]["template"]["spec"]["restartPolicy"] = "Never".into();
    job
}

/// An annotation for pods that terminate slowly, in half a minute.
fn slow_to_go() -> Value {
    json!({ "testbed.rollcall.dev/slow-delete": "30s" })
}

fn status(world: &World) -> Value {
    world.status(Kind::Job, "task")
}

fn conditions(world: &World) -> Vec<String> {
    let status = status(world);
    let list = status["conditions"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    list.iter()
        .map(|one| format!("{} {} {}", text(&one["type"]), text(&one["status"]), text(&one["reason"])))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn one_pod_that_succeeds() {
    let world = World::with_nodes(1);
    world.create(Kind::Job, job(json!({})));
    world.wait(5).await;
    let running = status(&world);
    assert_eq!(
        part(&running, &["active", "ready", "terminating", "uncountedTerminatedPods"]),
        json!({
            "active": 1, "ready": 1, "terminating": 0, "uncountedTerminatedPods": {},
        })
    );
    let pod = world.get(Kind::Pod, &world.pod("task-#1"));
    assert_eq!(pod["metadata"]["finalizers"], json!(["batch.kubernetes.io/job-tracking"]));
    let uid = world.get(Kind::Job, "task")["metadata"]["uid"].clone();
    assert_eq!(
        pod["metadata"]["labels"],
        json!({
            "app": "task", "job-name": "task", "batch.kubernetes.io/job-name": "task",
            "controller-uid": uid, "batch.kubernetes.io/controller-uid": uid,
        })
    );
    world.end("task-#1", "Succeeded");
    world.wait(5).await;
    let done = status(&world);
    assert_eq!(
        part(&done, &["active", "ready", "succeeded", "failed", "terminating", "uncountedTerminatedPods"]),
        json!({
            "ready": 0, "succeeded": 1, "terminating": 0, "uncountedTerminatedPods": {},
        })
    );
    assert!(done["completionTime"].is_string());
    assert_eq!(
        conditions(&world),
        ["SuccessCriteriaMet True CompletionsReached", "Complete True CompletionsReached"]
    );
    assert!(world.get(Kind::Pod, &world.pod("task-#1"))["metadata"]["finalizers"].is_null());
}

#[tokio::test(start_paused = true)]
async fn no_more_at_a_time_than_permitted_and_no_more_than_needed() {
    let world = World::with_nodes(1);
    world.create(Kind::Job, job(json!({ "completions": 3, "parallelism": 2 })));
    world.wait(5).await;
    assert_eq!(world.only("+"), "+task-#1 +task-#2");
    world.end("task-#1", "Succeeded");
    world.wait(5).await;
    assert_eq!(world.only("+~"), "+task-#3");
    world.end("task-#2", "Succeeded");
    world.wait(5).await;
    assert_eq!(world.only("+~"), "");
    world.end("task-#3", "Succeeded");
    world.wait(5).await;
    assert_eq!(status(&world)["succeeded"], 3);
    assert_eq!(world.condition(Kind::Job, "task", "Complete"), "True CompletionsReached");
}

#[tokio::test(start_paused = true)]
async fn a_work_queue_is_done_when_one_succeeded_and_the_others_ended() {
    let world = World::with_nodes(1);
    world.create(Kind::Job, job(json!({ "parallelism": 3 })));
    world.wait(5).await;
    world.end("task-#1", "Succeeded");
    world.wait(20).await;
    assert_eq!(world.only("+~"), "+task-#1 +task-#2 +task-#3");
    assert!(conditions(&world).is_empty());
    world.end("task-#2", "Failed");
    world.wait(20).await;
    assert_eq!(world.only("+~"), "", "no pod is created after a success");
    world.end("task-#3", "Succeeded");
    world.wait(5).await;
    assert_eq!(part(&status(&world), &["succeeded", "failed"]), json!({ "succeeded": 2, "failed": 1 }));
    assert_eq!(world.condition(Kind::Job, "task", "Complete"), "True CompletionsReached");
}

#[tokio::test(start_paused = true)]
async fn failures_are_retried_later_each_time_up_to_the_limit() {
    let world = World::with_nodes(1);
    world.create(Kind::Job, job(json!({ "backoffLimit": 2 })));
    world.wait(5).await;
    world.end("task-#1", "Failed");
    world.wait(9).await;
    assert_eq!(world.only("+"), "+task-#1");
    world.wait(3).await;
    assert_eq!(world.only("+"), "+task-#2");
    world.end("task-#2", "Failed");
    world.wait(18).await;
    assert_eq!(world.only("+"), "");
    world.wait(5).await;
    assert_eq!(world.only("+"), "+task-#3");
    world.end("task-#3", "Failed");
    world.wait(100).await;
    assert_eq!(world.only("+"), "");
    assert_eq!(
        conditions(&world),
        ["FailureTarget True BackoffLimitExceeded", "Failed True BackoffLimitExceeded"]
    );
    let done = status(&world);
    assert_eq!(part(&done, &["failed", "active", "succeeded"]), json!({ "failed": 3 }));
    assert!(done["completionTime"].is_null());
}

#[tokio::test(start_paused = true)]
async fn a_success_forgets_the_failures_before_it() {
    let world = World::with_nodes(1);
    world.create(Kind::Job, job(json!({ "completions": 2, "parallelism": 1 })));
    world.wait(5).await;
    world.end("task-#1", "Failed");
    world.wait(20).await;
    world.end("task-#2", "Succeeded");
    world.wait(5).await;
    assert_eq!(world.only("+"), "+task-#1 +task-#2 +task-#3");
    world.end("task-#3", "Failed");
    world.wait(14).await;
    assert_eq!(world.only("+"), "+task-#4");
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_restarts_in_the_same_pod() {
    let world = World::with_nodes(1);
    let mut task = job(json!({ "backoffLimit": 2 }));
    task["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure".into();
    let crashes =
        json!({ "testbed.rollcall.dev/main.exit-after": "5s", "testbed.rollcall.dev/main.exit-code": "1" });
    task["spec"]["template"]["metadata"]["annotations"] = crashes;
    world.create(Kind::Job, task);
    world.wait(12).await;
    assert_eq!(world.condition(Kind::Job, "task", "Failed"), "none");
    world.wait(100).await;
    assert_eq!(world.condition(Kind::Job, "task", "Failed"), "True BackoffLimitExceeded");
    assert_eq!(world.only("+"), "+task-#1", "restarted in its place");
    assert_eq!(status(&world)["failed"], 1, "the deleted pod counts as failed");
}

#[tokio::test(start_paused = true)]
async fn what_fails_at_the_end_takes_the_others_along() {
    let world = World::with_nodes(1);
    world.create(Kind::Job, job(json!({ "completions": 3, "parallelism": 3, "backoffLimit": 0 })));
    world.wait(5).await;
    world.log();
    world.end("task-#1", "Failed");
    world.wait(100).await;
    assert_eq!(world.only("+~"), "~task-#2 ~task-#3");
    assert_eq!(
        part(&status(&world), &["failed", "active", "terminating"]),
        json!({ "failed": 3, "terminating": 0 })
    );
    assert_eq!(world.condition(Kind::Job, "task", "Failed"), "True BackoffLimitExceeded");
}

#[tokio::test(start_paused = true)]
async fn the_final_condition_waits_for_the_last_pod() {
    let world = World::with_nodes(1);
    let mut task = job(json!({ "parallelism": 2, "completions": 2, "activeDeadlineSeconds": 30 }));
    task["spec"]["template"]["metadata"]["annotations"] = slow_to_go();
    world.create(Kind::Job, task);
    world.wait(40).await;
    assert_eq!(conditions(&world), ["FailureTarget True DeadlineExceeded"]);
    assert_eq!(status(&world)["terminating"], 2);
    world.wait(60).await;
    assert_eq!(conditions(&world), ["FailureTarget True DeadlineExceeded", "Failed True DeadlineExceeded"]);
    assert_eq!(part(&status(&world), &["terminating", "failed"]), json!({ "terminating": 0, "failed": 2 }));
}

#[tokio::test(start_paused = true)]
async fn deleted_after_its_time_to_live() {
    let world = World::with_nodes(1);
    world.create(Kind::Job, job(json!({ "ttlSecondsAfterFinished": 60 })));
    world.wait(5).await;
    world.end("task-#1", "Succeeded");
    world.wait(50).await;
    assert!(world.find(Kind::Job, "task").is_some());
    world.wait(30).await;
    assert!(world.find(Kind::Job, "task").is_none());
    assert!(world.all(Kind::Pod).is_empty());
}

#[tokio::test(start_paused = true)]
async fn suspended_and_resumed() {
    let world = World::with_nodes(1);
    world.create(Kind::Job, job(json!({ "suspend": true, "parallelism": 2, "completions": 2 })));
    world.wait(5).await;
    assert_eq!(world.only("+"), "");
    assert!(status(&world)["startTime"].is_null());
    assert_eq!(conditions(&world), ["Suspended True JobSuspended"]);
    world.edit(Kind::Job, "task", |job| job["spec"]["suspend"] = false.into());
    world.wait(5).await;
    assert_eq!(world.only("+"), "+task-#1 +task-#2");
    assert_eq!(conditions(&world), ["Suspended False JobResumed"]);
    let first = status(&world)["startTime"].clone();
    assert!(first.is_string());
    world.edit(Kind::Job, "task", |job| job["spec"]["suspend"] = true.into());
    world.wait(60).await;
    let signs: String = world.only("~-").split_whitespace().map(|note| &note[..1]).collect();
    assert_eq!(signs, "~~--");
    assert_eq!(part(&status(&world), &["active", "failed", "startTime"]), json!({}));
    world.edit(Kind::Job, "task", |job| job["spec"]["suspend"] = false.into());
    world.wait(5).await;
    assert_ne!(status(&world)["startTime"], first);
    assert_eq!(world.only("+"), "+task-#3 +task-#4");
}

#[tokio::test(start_paused = true)]
async fn indexed_pods_know_their_index() {
    let world = World::with_nodes(1);
    world.create(Kind::Job, job(json!({ "completions": 5, "parallelism": 3, "completionMode": "Indexed" })));
    world.wait(5).await;
    assert_eq!(world.only("+"), "+task-0-#1 +task-1-#1 +task-2-#1");
    let pod = world.get(Kind::Pod, &world.pod("task-1-#1"));
    let index = "batch.kubernetes.io/job-completion-index";
    assert_eq!(
        (&pod["metadata"]["annotations"][index], &pod["metadata"]["labels"][index]),
        (&json!("1"), &json!("1"))
    );
    assert_eq!(pod["spec"]["hostname"], "task-1");
    let env = &pod["spec"]["containers"][0]["env"][0];
    assert_eq!(env["name"], "JOB_COMPLETION_INDEX");
    assert_eq!(env["valueFrom"]["fieldRef"]["fieldPath"], format!("metadata.labels['{index}']"));
    world.end("task-0-#1", "Succeeded");
    world.end("task-2-#1", "Succeeded");
    world.wait(5).await;
    assert_eq!(status(&world)["completedIndexes"], "0,2");
    assert_eq!(world.only("+"), "+task-3-#1 +task-4-#1");
    world.end("task-1-#1", "Succeeded");
    world.end("task-4-#1", "Succeeded");
    world.wait(5).await;
    assert_eq!(status(&world)["completedIndexes"], "0-2,4");
    world.end("task-3-#1", "Succeeded");
    world.wait(5).await;
    assert_eq!(
        part(&status(&world), &["completedIndexes", "succeeded"]),
        json!({ "completedIndexes": "0-4", "succeeded": 5 })
    );
    assert_eq!(world.condition(Kind::Job, "task", "Complete"), "True CompletionsReached");
}

#[tokio::test(start_paused = true)]
async fn an_index_that_failed_is_tried_again() {
    let world = World::with_nodes(1);
    world.create(Kind::Job, job(json!({ "completions": 2, "parallelism": 2, "completionMode": "Indexed" })));
    world.wait(5).await;
    world.end("task-1-#1", "Failed");
    world.wait(20).await;
    assert_eq!(world.only("+"), "+task-0-#1 +task-1-#1 +task-1-#2");
    assert_eq!(part(&status(&world), &["failed", "active"]), json!({ "failed": 1, "active": 2 }));
}

#[tokio::test(start_paused = true)]
async fn limits_per_index() {
    let world = World::with_nodes(1);
    let spec = json!({
        "completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 1,
    });
    world.create(Kind::Job, job(spec));
    world.wait(5).await;
    world.end("task-1-#1", "Failed");
    world.wait(20).await;
    let again = world.get(Kind::Pod, &world.pod("task-1-#2"));
    assert_eq!(again["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"], "1");
    world.end("task-1-#2", "Failed");
    world.wait(60).await;
    assert_eq!(world.only("+"), "+task-0-#1 +task-1-#1 +task-1-#2");
    assert_eq!(status(&world)["failedIndexes"], "1");
    assert!(conditions(&world).is_empty(), "the other index continues");
    world.end("task-0-#1", "Succeeded");
    world.wait(10).await;
    assert_eq!(conditions(&world), ["FailureTarget True FailedIndexes", "Failed True FailedIndexes"]);
    assert_eq!(
        part(&status(&world), &["completedIndexes", "failedIndexes"]),
        json!({ "completedIndexes": "0", "failedIndexes": "1" })
    );
}

#[tokio::test(start_paused = true)]
async fn who_is_deleted_is_replaced_at_once_or_when_it_has_ended() {
    for (policy, replaced, failed) in
        [("TerminatingOrFailed", true, json!(1)), ("Failed", false, json!(null))]
    {
        let world = World::with_nodes(1);
        let mut task = job(json!({ "podReplacementPolicy": policy }));
        task["spec"]["template"]["metadata"]["annotations"] = slow_to_go();
        world.create(Kind::Job, task);
        world.wait(5).await;
        world.log();
        world.delete(Kind::Pod, &world.pod("task-#1"));
        world.wait(20).await;
        assert_eq!(world.only("+").contains("+task-#2"), replaced, "{policy}");
        let before = status(&world);
        assert_eq!((&before["terminating"], &before["failed"]), (&json!(1), &failed), "{policy}");
        world.wait(40).await;
        let after = status(&world);
        // It is counted according to its result.
        let counted = |what: &str| after[what].as_i64().unwrap_or_default();
        assert_eq!((counted("terminating"), counted("failed") + counted("succeeded")), (0, 1), "{policy}");
    }
}

#[tokio::test(start_paused = true)]
async fn fewer_at_a_time_deletes_the_least_advanced() {
    let world = World::with_nodes(1);
    world.create(Kind::Job, job(json!({ "completions": 4, "parallelism": 3 })));
    world.wait(5).await;
    world.set_ready("task-#2", false);
    world.log();
    world.edit(Kind::Job, "task", |job| job["spec"]["parallelism"] = 2.into());
    world.wait(60).await;
    assert_eq!(world.only("+~"), "~task-#2");
    assert_eq!(part(&status(&world), &["active", "failed"]), json!({ "active": 2 }));
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_deleted_leaves_no_pods_behind() {
    let world = World::with_nodes(1);
    world.create(Kind::Job, job(json!({ "completions": 2, "parallelism": 2 })));
    world.wait(5).await;
    world.end("task-#1", "Succeeded");
    world.wait(5).await;
    world.delete(Kind::Job, "task");
    world.wait(60).await;
    assert!(world.all(Kind::Pod).is_empty());
}

#[tokio::test(start_paused = true)]
async fn nothing_to_do_is_done() {
    let world = World::with_nodes(1);
    world.create(Kind::Job, job(json!({ "completions": 0, "parallelism": 2 })));
    world.wait(5).await;
    assert_eq!(world.condition(Kind::Job, "task", "Complete"), "True CompletionsReached");
    assert_eq!(world.only("+"), "");
}
