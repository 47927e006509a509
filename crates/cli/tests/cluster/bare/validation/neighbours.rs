//! Invalid objects and their neighbours: twenty valid sequences start in the presence of all invalid ones as if they were
//! alone.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{DynamicObject, ListParams, PostParams};
use rollcall_api::definition::Custom;
use rollcall_testbed::{AuditEvent, Capacity};

use super::corpus::{self, Case, SEQUENCE, invalid};
use crate::common::faults::without_times;
use crate::common::make::{named, sequence};
use crate::common::order::{History, verify};
use crate::common::*;

const NEIGHBOURS: usize = 20;
/// Maximum duration in the presence of invalid objects, as a multiple of the duration without them, plus a constant. Invalid
/// objects cost the API server time, and the machine may be busy.
const TIMES: u32 = 3;
const MORE: Duration = Duration::from_secs(15);
/// Maximum number of concurrent requests of each side.
const AT_A_TIME: usize = 8;
/// Polling interval for queries about many objects.
const PAUSE: Duration = Duration::from_millis(100);
/// The API server writes an audit event shortly after it answers.
const AUDIT_DELAY: Duration = Duration::from_secs(5);

/// Prefix of the names of all invalid objects, and of no valid one.
const BAD: &str = "case-";
/// Pods that only invalid objects name or select.
const THEIRS: [&str; 5] = ["pod-0", "pod-1", "pod-2", "postgres-0", "db"];

/// The pods of a neighbour, group by group. Most invalid objects name the pods of the first neighbour too, but begin with `a`.
/// If one of them took effect, `c` and `b` would wait indefinitely.
fn members(neighbour: usize) -> [Vec<String>; 3] {
    match neighbour {
        0 => ["c", "b", "a"].map(|name| vec![name.to_owned()]),
        _ => ["first", "second", "third"]
            .map(|group| (0..2).map(|n| format!("s{neighbour}-{group}-{n}")).collect()),
    }
}

fn neighbour(number: usize) -> Value {
    let groups = members(number).map(|names| {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        named(&format!("group of {}", names[0]), &names)
    });
    sequence(&format!("s{number}"), &groups).label("neighbour", "good")
}

/// The result of starting twenty sequences.
struct Round {
    took: Duration,
    /// The statuses of the sequences, without times.
    statuses: Vec<Value>,
    /// Type and reason of each event about one of the sequences.
    events: BTreeSet<(String, String)>,
}

/// Creates twenty sequences and their pods concurrently with `meanwhile`, and waits until all are complete.
async fn twenty(scene: &Scene<'_>, meanwhile: impl Future<Output = Result<()>>) -> Result<Round> {
    let begun = Instant::now();
    let pods = (1..NEIGHBOURS).flat_map(|n| members(n).concat()).map(|name| pod(&name));
    let good = side_by_side((0..NEIGHBOURS).map(neighbour).chain(pods).map(|object| scene.create(object)));
    tokio::try_join!(good, meanwhile)?;
    // These pods are created only when all objects that could hold them exist.
    scene.create_all(members(0).concat().iter().map(|name| pod(name))).await?;
    let good = ListParams::default().labels("neighbour=good");
    let mut states = Vec::new();
    let complete = wait::until_every(PAUSE, "all sequences to complete", LIMIT, async || {
        let found = scene.api("PodSequence").list(&good).await?.items;
        states = found.iter().map(|sequence| sequence.data["status"].clone()).collect();
        let complete = states.iter().filter(|status| status["phase"] == "Completed").count();
        Ok((complete == NEIGHBOURS).then_some(()))
    });
    complete.await.with_context(|| json!(states).to_string())?;
    let took = begun.elapsed();
    states.iter_mut().for_each(without_times);
    Ok(Round { took, statuses: states, events: events(scene).await? })
}

async fn side_by_side<T>(requests: impl IntoIterator<Item = impl Future<Output = Result<T>>>) -> Result<()> {
    stream::iter(requests).buffer_unordered(AT_A_TIME).try_collect::<Vec<T>>().await?;
    Ok(())
}

/// Returns the events about the twenty sequences, once each of them has its last event.
async fn events(scene: &Scene<'_>) -> Result<BTreeSet<(String, String)>> {
    wait::until_every(PAUSE, "their last events", LIMIT, async || {
        let (mut seen, mut last) = (BTreeSet::new(), BTreeSet::new());
        for event in scene.api("Event").list(&ListParams::default()).await?.items {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let event = event.data;
            let (about, note) = (text(&event["regarding"]["name"]), text(&event["note"]));
            if event["regarding"]["kind"] != "PodSequence" || about.starts_with(BAD) {
                continue;
            }
            ensure!(!note.contains(BAD), "an event about {about} mentions an invalid object: {note}");
            seen.insert((text(&event["type"]), text(&event["reason"])));
            if note.contains("all 3 groups are complete") {
                last.insert(about);
            }
        }
        Ok((last.len() == NEIGHBOURS).then_some(seen))
    })
    .await
}

/// Checks that a round with invalid objects equals the round without them.
fn compare(beside: &Round, alone: &Round) -> Result<()> {
    let (took, alone_took) = (beside.took, alone.took);
    ensure!(took < alone_took * TIMES + MORE, "took {took:?}, but {alone_took:?} alone");
    for (status, wanted) in beside.statuses.iter().zip(&alone.statuses) {
        ensure!(status == wanted, "ended as {status}\nnot as {wanted}");
    }
    let news: Vec<_> = beside.events.difference(&alone.events).collect();
    ensure!(news.is_empty(), "additional events because of invalid objects: {news:?}");
    Ok(())
}

/// Verifies the audit log after hiding the events of the invalid objects: it must show twenty sequences that start in order. A
/// release of any other pod would be a violation, because no visible sequence permits it.
async fn judge(scene: &Scene<'_>) -> Result<()> {
    let theirs = |event: &AuditEvent| event.resource == "podsequences" && event.name.starts_with(BAD);
    let good = async || {
        let events = scene.lab.audited(&scene.namespace)?;
        anyhow::Ok(events.into_iter().filter(|event| !theirs(event)).collect::<Vec<_>>())
    };
    let mut found = Vec::new();
    let clean = wait::until("a clean audit log", AUDIT_DELAY, async || {
        found = verify(&good().await?, &scene.rules);
        Ok(found.is_empty().then_some(()))
    });
    clean.await.with_context(|| format!("{found:?}"))?;
    let releases = History::from_events(&good().await?, &scene.rules).releases();
    let released: BTreeSet<String> = releases.into_iter().map(|release| release.pod).collect();
    let wanted: BTreeSet<String> = (0..NEIGHBOURS).flat_map(|n| members(n).concat()).collect();
    ensure!(released == wanted, "unexpected releases: {released:?}");
    Ok(())
}

/// Returns the invalid specs of the corpus as objects for a scene, each with Rollcall's error message.
fn bad_objects(scene: &Scene<'_>) -> Vec<(Value, String)> {
    let here = json!({"metadata": {"namespace": scene.namespace}});
    let object = |case: &Case| corpus::object(case.custom(), &case.name, case.bad.clone()).with(here.clone());
    invalid(SEQUENCE).into_iter().map(|case| (object(&case), case.rollcall)).collect()
}

/// Creates the pods that only invalid objects select.
async fn their_pods(scene: &Scene<'_>) -> Result<()> {
    scene.create_all(THEIRS.iter().map(|name| pod(name).label("app", "db"))).await
}

/// Waits for the controller's response to an invalid object.
async fn answered(scene: &Scene<'_>, name: &str, reason: &str, message: &str) -> Result<()> {
    let stalled = scene.condition(name, "Stalled", "True", reason).await?;
    let said = stalled["message"].as_str().unwrap_or_default();
    ensure!(said.contains(message), "{name}: {said:?} instead of {message:?}");
    scene.phase(name, "Failed").await?;
    let event = wait::until("an event", LIMIT, async || {
        Ok(scene.events(name).await?.into_iter().find(|(told, _)| told == reason))
    });
    event.await.with_context(|| format!("about {name}, with the reason {reason}"))?;
    Ok(())
}

/// Objects that the API server accepts but the controller cannot act on: name, special fields, reason, and message.
fn accepted(elsewhere: &str) -> [(&'static str, Value, &'static str, &'static str); 2] {
    [
        ("case-node-scope", json!({"scope": "Node"}), "NodeScopeNeedsFullMode", "spec.scope"),
        ("case-elsewhere", json!({"namespace": elsewhere}), "NotPermitted", "spec.namespace"),
    ]
}

/// With the shipped CRD: the API server rejects almost all invalid objects, and the controller responds to the others.
async fn beside_refused_objects(lab: &Lab, alone: &Round) -> Result<()> {
    let (scene, home) =
        (Scene::without_controller(lab, "beside").await?, Scene::without_controller(lab, "intruder").await?);
    their_pods(&scene).await?;
    let wrong_way = [named("a", &["a"]), named("b", &["b"]), named("theirs", &THEIRS), named("c", &["c"])];
    let accepted = accepted(&home.namespace);
    let bad = async {
        for (name, spec, _, _) in &accepted {
            scene.create(sequence(name, &wrong_way).with(json!({"spec": spec}))).await?;
        }
        let here = json!({"spec": {"namespace": scene.namespace}});
        home.create(sequence("case-intruder", &wrong_way).with(here)).await?;
        let refused = bad_objects(&scene).into_iter().map(|(object, _)| refused(&scene, object));
        side_by_side(refused).await
    };
    compare(&twenty(&scene, bad).await?, alone)?;
    for (name, _, reason, message) in accepted {
        answered(&scene, name, reason, message).await?;
    }
    answered(&home, "case-intruder", "NotPermitted", "spec.namespace").await?;
    scene.stays_held(&THEIRS).await?;
    judge(&scene).await
}

async fn refused(scene: &Scene<'_>, object: Value) -> Result<()> {
    let object: DynamicObject = serde_json::from_value(object)?;
    match scene.api("PodSequence").create(&PostParams::default(), &object).await {
        Err(kube::Error::Api(status)) if status.code == 422 => Ok(()),
        other => anyhow::bail!("{:?} was not rejected: {other:?}", object.metadata.name),
    }
}

/// With a CRD without rules, as another version could have: the controller receives all invalid objects.
async fn beside_accepted_objects(lab: &Lab, alone: &Round) -> Result<()> {
    let scene = Scene::without_controller(lab, "among").await?;
    their_pods(&scene).await?;
    let objects = bad_objects(&scene);
    without_rules(&scene, &objects[0].0).await?;
    let bad = side_by_side(objects.iter().map(|(object, _)| scene.create(object.clone())));
    compare(&twenty(&scene, bad).await?, alone)?;
    for (object, message) in &objects {
        answered(&scene, &scene::name_of(object), "InvalidSpec", message).await?;
    }
    scene.stays_held(&THEIRS).await?;
    judge(&scene).await
}

/// Removes all rules about specs from the CRD, and waits until the API server uses it.
async fn without_rules(scene: &Scene<'_>, bad: &Value) -> Result<()> {
    let mut definition = serde_json::to_value(Custom::PodSequence.crd())?;
    let schema = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["spec"] = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    scene.lab.cluster().apply(&definition.to_string())?;
    let bad: DynamicObject = serde_json::from_value(bad.clone())?;
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    wait::until("the definition without rules", LIMIT, async || {
        Ok(scene.api("PodSequence").create(&dry_run, &bad).await.ok())
    })
    .await?;
    // The controller's watch ends when the CRD changes, so wait until the new watch works.
    scene.canary().await
}

#[tokio::test]
async fn twenty_neighbours_of_all_bad_objects_are_not_affected() -> Result<()> {
    let options = rollcall_testbed::Options { capacity: Capacity::huge(), ..Default::default() };
    let lab = Lab::own(options).await?;
    let controller = Controller::start(&lab, Options::default()).await?;
    let said = || controller.log();
    let scene = Scene::without_controller(&lab, "alone").await?;
    // The canary gets one-time events of a new cluster out of the way.
    scene.canary().await?;
    let alone = twenty(&scene, async { Ok(()) }).await.with_context(said)?;
    judge(&scene).await.context("alone")?;
    beside_refused_objects(&lab, &alone).await.context("refused").with_context(said)?;
    beside_accepted_objects(&lab, &alone).await.context("accepted").with_context(said)?;
    for (series, value) in controller.metrics().await? {
        let bad = series.starts_with("rollcall_checker_violations_total");
        ensure!(!bad || value == 0.0, "{series} is {value}");
    }
    Ok(())
}
