//! Bad objects and their neighbours: beside all of them at once, twenty good sequences start as if they were alone.

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
/// Bad objects take the API server's time, too, and the machine may be busy with something else: this much of the time
/// that the twenty take alone, and so much more, is normal.
const TIMES: u32 = 3;
const MORE: Duration = Duration::from_secs(15);
/// Requests of each side at a time.
const AT_A_TIME: usize = 8;
/// For questions about many objects.
const PAUSE: Duration = Duration::from_millis(100);
/// The API server writes a line of the audit log a moment after its answer.
const AUDIT_DELAY: Duration = Duration::from_secs(5);

/// All bad objects have names that begin so, and no good one.
const BAD: &str = "case-";
/// Pods that only bad objects name or select.
const THEIRS: [&str; 5] = ["pod-0", "pod-1", "pod-2", "postgres-0", "db"];

/// The pods of a neighbour, group by group. Those of the first are what most bad objects name as well, but they begin
/// with `a`: if one of them had a say, `c` and `b` would wait for ever.
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

/// How twenty sequences started.
struct Round {
    took: Duration,
    /// Their statuses without times.
    statuses: Vec<Value>,
    /// Type and reason of each event about one of them.
    events: BTreeSet<(String, String)>,
}

/// Creates twenty sequences and their pods, beside what `meanwhile` does, and waits until all are complete.
async fn twenty(scene: &Scene<'_>, meanwhile: impl Future<Output = Result<()>>) -> Result<Round> {
    let begun = Instant::now();
    let pods = (1..NEIGHBOURS).flat_map(|n| members(n).concat()).map(|name| pod(&name));
    let good = side_by_side((0..NEIGHBOURS).map(neighbour).chain(pods).map(|object| scene.create(object)));
    tokio::try_join!(good, meanwhile)?;
    // When all are there that could hold them back.
    scene.create_all(members(0).concat().iter().map(|name| pod(name))).await?;
    let good = ListParams::default().labels("neighbour=good");
    let mut states = Vec::new();
    let complete = wait::until_every(PAUSE, "all complete", LIMIT, async || {
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

/// The events about the twenty, when each of them has had its last one.
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
            ensure!(!note.contains(BAD), "an event about {about} speaks of a bad object: {note}");
            seen.insert((text(&event["type"]), text(&event["reason"])));
            if note.contains("all 3 groups are complete") {
                last.insert(about);
            }
        }
        Ok((last.len() == NEIGHBOURS).then_some(seen))
    })
    .await
}

/// A round with bad objects beside it was like the one without.
fn compare(beside: &Round, alone: &Round) -> Result<()> {
    let (took, alone_took) = (beside.took, alone.took);
    ensure!(took < alone_took * TIMES + MORE, "{took:?} instead of {alone_took:?}");
    for (status, wanted) in beside.statuses.iter().zip(&alone.statuses) {
        ensure!(status == wanted, "ended as {status}\nnot as {wanted}");
    }
    let news: Vec<_> = beside.events.difference(&alone.events).collect();
    ensure!(news.is_empty(), "events that there are not without bad objects: {news:?}");
    Ok(())
}

/// The audit log without the bad objects is one of twenty sequences that started in order and of nothing else: who
/// touched another pod would have had no sequence for it.
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
    let releases = History::of(&good().await?, &scene.rules).releases();
    let released: BTreeSet<String> = releases.into_iter().map(|release| release.pod).collect();
    let wanted: BTreeSet<String> = (0..NEIGHBOURS).flat_map(|n| members(n).concat()).collect();
    ensure!(released == wanted, "released were {released:?}");
    Ok(())
}

/// The bad specs of the corpus as objects for a scene, each with what rollcall says of it.
fn bad_objects(scene: &Scene<'_>) -> Vec<(Value, String)> {
    let here = json!({"metadata": {"namespace": scene.namespace}});
    let object = |case: &Case| corpus::object(case.custom(), &case.name, case.bad.clone()).with(here.clone());
    invalid(SEQUENCE).into_iter().map(|case| (object(&case), case.rollcall)).collect()
}

/// Creates the pods that only bad objects claim.
async fn their_pods(scene: &Scene<'_>) -> Result<()> {
    scene.create_all(THEIRS.iter().map(|name| pod(name).label("app", "db"))).await
}

/// Waits for the controller's answer to a bad object.
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

/// What the API server accepts and the controller cannot act on: its name, what is special about it, the answer.
fn accepted(elsewhere: &str) -> [(&'static str, Value, &'static str, &'static str); 2] {
    [
        ("case-node-scope", json!({"scope": "Node"}), "NodeScopeNeedsFullMode", "spec.scope"),
        ("case-elsewhere", json!({"namespace": elsewhere}), "NotPermitted", "spec.namespace"),
    ]
}

/// With the shipped definition: the API server refuses nearly all, and the controller answers the rest.
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
        other => anyhow::bail!("{:?} was not refused: {other:?}", object.metadata.name),
    }
}

/// With a definition that has no rules, as that of another version may be: the controller sees all of them.
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

/// Takes all that the definition says about specs out of it, and waits until that holds.
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
    // The controller's watch ends with the definition that it was begun with.
    scene.canary().await
}

#[tokio::test]
async fn twenty_neighbours_of_all_bad_objects_are_not_affected() -> Result<()> {
    let options = rollcall_testbed::Options { capacity: Capacity::huge(), ..Default::default() };
    let lab = Lab::own(options).await?;
    let controller = Controller::start(&lab, Options::default()).await?;
    let said = || controller.log();
    let scene = Scene::without_controller(&lab, "alone").await?;
    // What happens only once on a new cluster has happened then.
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
