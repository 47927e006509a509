//! Tests that need a controller of their own, because they stop it, restart it or set its flags. They use the cluster one at a
//! time.

use std::process::Command;

use crate::common::lab::OWN_NAMESPACE;
use crate::common::make::{deployment, named, pod, selected, sequence};
use crate::common::*;
use jiff::{SignedDuration, Timestamp};
use rollcall_testbed::{AuditEvent, Component};
use tokio::sync::MutexGuard;

/// A namespace on the shared cluster, and the right to run a controller there.
async fn alone(prefix: &str) -> Result<(MutexGuard<'static, ()>, Scene<'static>)> {
    let (turn, lab) = Lab::turn().await?;
    Ok((turn, Scene::without_controller(lab, prefix).await?))
}

fn time(value: &Value) -> Timestamp {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{value} is not a time"))
}

/// Returns the note of a sequence, if one exists.
async fn note(scene: &Scene<'_>, sequence: &Value) -> Result<Option<Value>> {
    let uid = sequence["metadata"]["uid"].as_str().expect("a uid");
    let maps = scene.api_in("ConfigMap", OWN_NAMESPACE).list(&Default::default()).await?;
    let maps =
        maps.items.into_iter().filter(|map| map.metadata.name.as_ref().is_some_and(|n| n.contains(uid)));
    Ok(maps.map(serde_json::to_value).next().transpose()?)
}

#[tokio::test]
async fn the_settle_time_survives_a_restart() -> Result<()> {
    let (_turn, scene) = alone("settle").await?;
    let mut controller = Controller::start(scene.lab, Options::default()).await?;
    let first = named("first", &["a"]).with(json!({"waitDuration": "4s"}));
    scene.sequence("s", &[first, named("second", &["b"])]).await?;
    scene.pods(&["a", "b"]).await?;
    let journaled = |status: &Value| status["groups"][0]["completedAt"].is_string();
    let before = scene.status("s", "the time of completion", journaled).await?;
    controller.kill()?;
    scene.held(&["b"]).await?;
    let mut controller = Controller::start(scene.lab, Options::default()).await?;
    let after = scene.phase("s", "Completed").await?;
    assert_eq!(after["groups"][0]["completedAt"], before["groups"][0]["completedAt"]);
    let waited =
        time(&after["groups"][1]["openedAt"]).duration_since(time(&after["groups"][0]["completedAt"]));
    assert!(waited >= SignedDuration::from_secs(4), "{waited:?}");
    // SIGTERM stops the controller in an orderly way.
    assert!(controller.stop().await?.success());
    scene.done().await
}

#[tokio::test]
async fn a_restart_in_the_middle_changes_nothing() -> Result<()> {
    let (_turn, scene) = alone("restart").await?;
    let mut controller = Controller::start(scene.lab, Options::default()).await?;
    let groups = [named("first", &["a"]), named("second", &["b", "c"]), named("third", &["d"])];
    scene.sequence("s", &groups).await?;
    scene.unready_pods(&["b", "c"]).await?;
    scene.pods(&["a", "d"]).await?;
    scene.released("b").await?;
    controller.kill()?;
    // The next controller notices the changes that happen in the meantime.
    scene.make_ready("b").await?;
    scene.delete_and_wait("Pod", "c").await?;
    let _controller = Controller::start(scene.lab, Options::default()).await?;
    scene.stays_held(&["d"]).await?;
    scene.pods(&["c"]).await?;
    scene.phase("s", "Completed").await?;
    scene.done().await
}

#[tokio::test]
async fn a_sequence_deleted_meanwhile_lets_its_pods_go_afterwards() -> Result<()> {
    let (_turn, scene) = alone("away").await?;
    let mut controller = Controller::start(scene.lab, Options::default()).await?;
    let groups = [named("first", &["a"]), named("second", &["b"])];
    let released = scene.create(sequence("released", &groups)).await?;
    let groups = [named("first", &["c"]), named("second", &["d"])];
    let hold = json!({"spec": {"deletionPolicy": "Hold"}});
    let held = scene.create(sequence("held", &groups).with(hold)).await?;
    scene.unready_pods(&["a", "c"]).await?;
    scene.pods(&["b", "d"]).await?;
    scene.released("a").await?;
    scene.released("c").await?;
    assert!(note(&scene, &released).await?.is_some(), "the note is missing");
    assert!(note(&scene, &held).await?.is_none(), "a note exists for a sequence with deletionPolicy Hold");
    controller.kill()?;
    // The sequences have no finalizer, so they disappear at once, but their pods stay held.
    scene.delete_and_wait("PodSequence", "released").await?;
    scene.delete_and_wait("PodSequence", "held").await?;
    scene.held(&["b", "d"]).await?;
    let mut controller = Controller::start(scene.lab, Options::default()).await?;
    scene.ready("b").await?;
    let gone = async || Ok(note(&scene, &released).await?.is_none().then_some(()));
    wait::until("deletion of the note", LIMIT, gone).await?;
    scene.stays_held(&["d"]).await?;
    controller.kill()?;
    scene.done().await
}

#[tokio::test]
async fn a_crd_that_is_gone_proves_nothing() -> Result<()> {
    let (_turn, scene) = alone("crd").await?;
    let mut controller = Controller::start(scene.lab, Options::default()).await?;
    let groups = [named("first", &["a"]), named("second", &["b"])];
    let created = scene.create(sequence("s", &groups)).await?;
    scene.unready_pods(&["a"]).await?;
    scene.pods(&["b"]).await?;
    scene.released("a").await?;
    assert!(note(&scene, &created).await?.is_some(), "the note is missing");
    controller.kill()?;
    let crd = "podsequences.scheduling.example.com";
    scene.lab.cluster().kubectl_ok(&["delete", "crd", crd, "--wait"])?;

    // The controller keeps retrying the list of sequences; an error does not count as an empty list.
    let controller = Controller::spawn(scene.lab, &Options::default()).await?;
    wait::until("three failed lists", LIMIT, async || {
        let Ok(metrics) = controller.metrics().await else { return Ok(None) };
        let failures = metrics.iter().filter(|(name, _)| {
            name.starts_with("rollcall_watch_failures_total") && name.contains("kind=\"podsequences\"")
        });
        Ok((failures.map(|(_, value)| value).sum::<f64>() >= 3.0).then_some(()))
    })
    .await?;
    assert!(controller.probe("/readyz").await.is_err(), "ready without a list of sequences");
    scene.held(&["b"]).await?;

    // A successful list that is empty does count.
    scene.lab.apply_file("config/crd/podsequence-crd.yaml")?;
    scene.ready("b").await?;
    drop(controller);
    scene.done().await
}

#[tokio::test]
async fn without_a_namespace_of_its_own_it_runs_without_notes() -> Result<()> {
    let (_turn, scene) = alone("nowhere").await?;
    let controller = Controller::start(scene.lab, Options::args(&["--namespace", "not-there"])).await?;
    let created = scene.sequence("s", &[named("first", &["a"]), named("second", &["b"])]).await?;
    scene.pods(&["a", "b"]).await?;
    scene.phase("s", "Completed").await?;
    assert!(note(&scene, &created).await?.is_none());
    let said =
        controller.log().lines().any(|line| line.contains("WARN") && line.contains("notes are disabled"));
    assert!(said, "{}", controller.log());
    scene.delete_and_wait("PodSequence", "s").await?;
    drop(controller);
    scene.done().await
}

#[tokio::test]
async fn a_dry_run_writes_nothing() -> Result<()> {
    let (_turn, scene) = alone("dry").await?;
    let mut audit = scene.lab.cluster().audit_from_now()?;
    let mut controller =
        Controller::start(scene.lab, Options::args(&["--dry-run", "--leader-elect"])).await?;
    scene.sequence("s", &[named("first", &["a"]), named("second", &["b"])]).await?;
    scene.pods(&["a", "b"]).await?;
    let said = async || Ok(controller.log().contains("would release").then_some(()));
    wait::until("the log of the release", LIMIT, said).await?;
    // The test removes the gate, as a controller without `--dry-run` would.
    scene.patch("Pod", "a", json!({"spec": {"schedulingGates": null}})).await?;
    scene.ready("a").await?;
    let said = async || Ok((controller.log().matches("would release").count() == 2).then_some(()));
    wait::until("the log of the next release", LIMIT, said).await?;
    scene.held(&["b"]).await?;
    assert!(controller.stop().await?.success());
    let writes: Vec<&AuditEvent> =
        audit.all()?.iter().filter(|event| event.user == ACCOUNT && event.is_write()).collect();
    assert!(writes.is_empty(), "{writes:?}");
    assert!(
        audit.all()?.iter().any(|event| event.user == ACCOUNT),
        "the controller has not even read objects"
    );
    scene.delete_and_wait("PodSequence", "s").await?;
    scene.done().await
}

#[tokio::test]
async fn an_owner_whose_number_is_not_known_is_waited_for() -> Result<()> {
    let (_turn, mut scene) = alone("unknown").await?;
    let cluster = scene.lab.cluster();
    scene.expect("s", "web", 2);
    let _controller = Controller::start(scene.lab, Options::default()).await?;
    let annotations = json!({"testbed.rollcall.dev/never-ready": "true"});
    let unready = json!({"spec": {"template": {"metadata": {"annotations": annotations}}}});
    scene.create(deployment("web", 1).with(unready)).await?;
    scene.pods(&["late"]).await?;
    scene.sequence("s", &[selected("web", "web"), named("late", &["late"])]).await?;
    let web = scene.pods_are("web", 1, |pod| !scene::has_gate(pod, GATE)).await?;
    let observed = |deployment: &Value| deployment["status"]["observedGeneration"] == 1;
    scene.until("Deployment", "web", "observed", observed).await?;
    // The Deployment now wants two pods, but its paused controller does not report that.
    cluster.pause(Component::ControllerManager).await?;
    let paused = async {
        scene.patch("Deployment", "web", json!({"spec": {"replicas": 2}})).await?;
        scene.blocked_by("s", "", "NumberUnknown").await?;
        scene.make_ready(&web[0]).await?;
        scene.ready(&web[0]).await?;
        // `stays_held` uses a Deployment as a canary, whose pods would not be created now.
        scene.sequence("marker", &[named("marker", &["marker"])]).await?;
        scene.pods(&["marker"]).await?;
        scene.phase("marker", "Completed").await?;
        scene.held(&["late"]).await
    };
    let paused: Result<()> = paused.await;
    cluster.resume(Component::ControllerManager).await?;
    paused?;
    let web = scene.pods_are("web", 2, |pod| !scene::has_gate(pod, GATE)).await?;
    for pod in &web {
        scene.make_ready(pod).await?;
    }
    scene.phase("s", "Completed").await?;
    scene.done().await
}

#[tokio::test]
async fn it_watches_and_does_not_poll() -> Result<()> {
    let (_turn, scene) = alone("watch").await?;
    let mut controller = Controller::start(scene.lab, Options::default()).await?;
    let mut audit = scene.lab.cluster().audit_from_now()?;
    let names: Vec<String> = (0..10).map(|n| format!("p-{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let groups: Vec<Value> = names.iter().map(|name| named(&format!("group-{name}"), &[name])).collect();
    scene.sequence("s", &groups).await?;
    scene.pods(&names).await?;
    scene.phase("s", "Completed").await?;
    assert!(controller.stop().await?.success());
    let ours: Vec<&AuditEvent> = audit.all()?.iter().filter(|event| event.user == ACCOUNT).collect();
    let reads: Vec<_> = ours.iter().filter(|event| ["get", "list"].contains(&event.verb.as_str())).collect();
    assert!(reads.is_empty(), "{reads:?}");
    // One write for each gate.
    let releases = ours.iter().filter(|event| event.resource == "pods" && event.is_write()).count();
    assert_eq!(releases, names.len());
    scene.done().await
}

#[tokio::test]
async fn the_log_can_be_json() -> Result<()> {
    let (_turn, scene) = alone("json").await?;
    let mut controller = Controller::start(scene.lab, Options::args(&["--log-format", "json"])).await?;
    assert!(controller.stop().await?.success());
    let log = controller.log();
    let lines: Vec<&str> = log.lines().skip(1).filter(|line| !line.is_empty()).collect();
    assert!(!lines.is_empty(), "the log is empty");
    for line in lines {
        let line: Value = serde_json::from_str(line)?;
        assert!(line["level"].is_string() && line["message"].is_string(), "{line}");
    }
    scene.done().await
}

#[tokio::test]
async fn everything_deletes_with_the_controller_absent() -> Result<()> {
    let (_turn, scene) = alone("absent").await?;
    let mut controller = Controller::start(scene.lab, Options::default()).await?;
    let node = json!({"spec": {"scope": "Node"}});
    scene.create(sequence("node", &[named("first", &["x"])]).with(node)).await?;
    scene.sequence("s", &[named("first", &["a"]), named("second", &["b"])]).await?;
    scene.pods(&["a", "b"]).await?;
    scene.create(pod("x").gates(&[GATE])).await?;
    scene.phase("s", "Completed").await?;
    scene.phase("node", "Failed").await?;
    controller.kill()?;
    scene.delete_and_wait("PodSequence", "node").await?;
    scene.lab.cluster().kubectl_ok(&["delete", "namespace", &scene.namespace, "--wait", "--timeout=60s"])?;
    scene.done().await
}

#[tokio::test]
async fn wrong_flags_are_refused() -> Result<()> {
    for (args, word) in [(["--mode", "heavy"], "lite"), (["--lease-duration", "1s"], "3s")] {
        let output = Command::new(env!("CARGO_BIN_EXE_rollcall")).arg("controller").args(args).output()?;
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.to_lowercase().contains(word), "{args:?}: {said}");
    }
    Ok(())
}
