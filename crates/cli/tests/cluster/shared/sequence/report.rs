//! The output for users: columns, conditions, events and metrics.

use crate::common::make::{self, named, selected};
use crate::common::*;

#[tokio::test]
async fn kubectl_tells_the_story() -> Result<()> {
    let scene = Scene::new("kubectl").await?;
    let groups = [named("Database Layer", &["db"]), named("Application Layer", &["app-1", "app-2"])];
    scene.sequence("shop", &groups).await?;
    scene.unready_pods(&["app-1", "app-2"]).await?;
    scene.pods(&["db"]).await?;
    scene.released("app-1").await?;
    scene.make_ready("app-1").await?;
    let one = |status: &Value| status["readyPodsInCurrentGroup"] == 1 && status["currentIndex"] == 1;
    let status = scene.status("shop", "one of two", one).await?;
    assert_eq!(status["currentGroupPods"], json!(["app-1", "app-2"]));
    assert_eq!(status["summary"], json!({"group": "2/2 Application Layer", "ready": "1/2"}));
    let columns = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    };
    let table = columns(&scene.kubectl(&["get", "podseq"])?);
    assert_eq!(table[0], "NAME PHASE GROUP READY AGE");
    assert!(table[1].starts_with("shop InProgress 2/2 Application Layer 1/2 "), "{table:?}");
    let wide = columns(&scene.kubectl(&["get", "podseq", "shop", "-o", "wide"])?);
    assert_eq!(wide[0], "NAME PHASE GROUP READY AGE SCOPE MESSAGE");
    assert!(wide[1].contains(" Cluster \"Application Layer\": 1 of 2 pods arrived"), "{wide:?}");

    // `kubectl wait` returns when the sequence is complete, and not earlier.
    let mut command = scene.lab.cluster().kubectl_command();
    command.args(["-n", &scene.namespace, "wait", "--for=condition=Ready", "podseq/shop", "--timeout=60s"]);
    let mut waiting = command.stdout(std::process::Stdio::null()).spawn()?;
    scene.canary().await?;
    assert!(waiting.try_wait()?.is_none(), "kubectl wait did not wait");
    scene.make_ready("app-2").await?;
    assert!(waiting.wait()?.success());
    assert_eq!(scene.get("PodSequence", "shop").await?["status"]["phase"], "Completed");
    scene.event("shop", "all 2 groups are complete").await?;
    let described = scene.kubectl(&["describe", "podseq", "shop"])?;
    assert!(described.contains("all 2 groups are complete"), "{described}");
    scene.done().await
}

#[tokio::test]
async fn conditions_are_those_of_kstatus() -> Result<()> {
    let scene = Scene::new("kstatus").await?;
    scene.sequence("s", &[named("first", &["a"])]).await?;
    scene.condition("s", "Reconciling", "True", "Pending").await?;
    scene.unready_pods(&["a"]).await?;
    scene.condition("s", "Reconciling", "True", "InProgress").await?;
    scene.condition("s", "Ready", "False", "InProgress").await?;
    scene.make_ready("a").await?;
    scene.condition("s", "Ready", "True", "Completed").await?;
    scene.condition("s", "Reconciling", "False", "Completed").await?;
    let status = scene.phase("s", "Completed").await?;
    for condition in status["conditions"].as_array().expect("conditions") {
        assert_eq!(condition["observedGeneration"], status["observedGeneration"], "{condition}");
    }
    scene.done().await
}

#[tokio::test]
async fn events_are_gathered() -> Result<()> {
    let scene = Scene::new("events").await?;
    let names: Vec<String> = (0..12).map(|n| format!("p-{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    scene.pods(&names).await?;
    let groups: Vec<Value> = names.iter().map(|name| named(&format!("group-{name}"), &[name])).collect();
    scene.sequence("s", &groups).await?;
    scene.phase("s", "Completed").await?;
    scene.event("s", "all 12 groups are complete").await?;
    let events = scene.events("s").await?;
    // 12 groups open and complete; without aggregation they would produce 25 events.
    assert!(events.len() < 13, "{events:?}");
    assert!(events.iter().any(|(_, note)| note.contains("; ")), "{events:?}");
    assert!(events.iter().any(|(_, note)| note.contains("\"group-p-0\" is open")), "{events:?}");
    scene.done().await
}

#[tokio::test]
async fn long_lists_are_cut_and_their_counts_are_not() -> Result<()> {
    const PODS: usize = 150;
    let mut scene = Scene::new("long").await?;
    scene.expect("s", "crowd", PODS as u64);
    scene.sequence("s", &[selected("crowd", "crowd"), named("late", &["late"])]).await?;
    let crowd = make::replica_set("crowd", PODS as u32);
    let annotations = json!({"testbed.rollcall.dev/never-ready": "true"});
    scene
        .create(crowd.with(json!({"spec": {"template": {"metadata": {"annotations": annotations}}}})))
        .await?;
    let all = |status: &Value| status["groups"][0]["released"] == PODS;
    let status = scene.status("s", "all released", all).await?;
    assert_eq!((&status["groups"][0]["present"], &status["groups"][0]["arrived"]), (&json!(PODS), &json!(0)));
    assert_eq!(status["currentGroupPods"].as_array().map(Vec::len), Some(100));
    assert!(status["blockedBy"].as_array().is_some_and(|list| (1..=100).contains(&list.len())), "{status}");
    scene.kubectl(&["annotate", "pods", "-l", "app=crowd", "testbed.rollcall.dev/ready=true"])?;
    scene.pods(&["late"]).await?;
    let status = scene.phase("s", "Completed").await?;
    assert_eq!(status["groups"][0]["arrived"], PODS);
    assert_eq!(status["processedPods"].as_array().map(Vec::len), Some(100));
    scene.done().await
}

#[tokio::test]
async fn metrics_count_what_was_done() -> Result<()> {
    let scene = Scene::new("metrics").await?;
    let before = scene.controller().metrics().await?;
    scene.sequence("s", &[named("first", &["a"]), named("second", &["b"])]).await?;
    scene.pods(&["a", "b"]).await?;
    scene.phase("s", "Completed").await?;
    let after = scene.controller().metrics().await?;
    // Other tests change the same counters, so only a lower bound is checked.
    for series in [
        "rollcall_pods_released_total",
        "rollcall_release_latency_seconds_count",
        "rollcall_pod_blocked_seconds_count",
        "rollcall_writes_total{action=\"release\",outcome=\"done\"}",
    ] {
        let value = |metrics: &std::collections::BTreeMap<String, f64>| metrics.get(series).copied();
        let (before, after) = (value(&before).unwrap_or_default(), value(&after));
        let after = after.unwrap_or_else(|| panic!("{series} is missing"));
        assert!(after >= before + 2.0, "{series} went from {before} to {after}");
    }
    assert!(after.keys().any(|series| series.starts_with("rollcall_watch_age_seconds{kind=")), "{after:?}");
    scene.controller().probe("/livez").await?;
    scene.done().await
}
