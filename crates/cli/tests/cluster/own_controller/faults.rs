//! Faults between the controller and the API server, each kind alone and all kinds mixed. The end state is the same, the order
//! is kept, and the number of writes is explained by the faults.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::common::faults::{self, Calm, Rig, Seen, Sort};
use crate::common::*;
use anyhow::{Context, ensure};
use http::StatusCode;
use rollcall_testbed::{Fault, Line, WatchFault, wait};

/// Invariant L3: each fault may cost the lost write and one more request to find out the result. Notes and releases are counted
/// exactly. Statuses and events are aggregated by time, so slow runs have a few more of them.
fn no_more_than_explained(rig: &Rig<'_>, calm: &Calm, namespace: &str, faults: usize) -> Result<()> {
    let about = |seen: &Seen| seen.is_about(namespace);
    let of = |sort: Sort| rig.count(|seen| seen.sort == sort && about(seen));
    let usual = |sort: Sort| calm.writes.get(&sort).copied().unwrap_or_default();
    let exact = [Sort::NoteCreate, Sort::NotePatch, Sort::NoteDelete, Sort::Release];
    let gathered = [Sort::Status, Sort::Event];
    let sum = |sorts: &[Sort], of: &dyn Fn(Sort) -> usize| sorts.iter().map(|sort| of(*sort)).sum::<usize>();
    let (strict, loose) = (sum(&exact, &of), sum(&gathered, &of));
    let (strict_calm, loose_calm) = (sum(&exact, &usual), sum(&gathered, &usual));
    ensure!(
        strict <= strict_calm + 2 * faults && loose <= loose_calm + 2 * faults + 4,
        "{faults} faults, {strict} releases and notes ({strict_calm} without faults), {loose} statuses and events \
         ({loose_calm} without faults)"
    );
    Ok(())
}

/// Runs three groups of four pods with the faults that `spoil` installs, and compares the result with a calm run.
async fn run(rig: &Rig<'_>, calm: &Calm, what: &str, spoil: impl FnOnce(&Rig<'_>)) -> Result<()> {
    let scene = Scene::without_controller(rig.lab, "fault").await?;
    faults::twelve_pods(&scene).await?;
    rig.pass();
    spoil(rig);
    scene.create(faults::three_by_four("calm")).await?;
    faults::ends_as(&scene, "calm", &calm.end).await.with_context(|| what.to_owned())?;
    ensure!(rig.faults() > 0, "{what}: there was no fault");
    no_more_than_explained(rig, calm, &scene.namespace, rig.faults()).with_context(|| what.to_owned())?;
    rig.proxy.clear();
    scene.done().await.with_context(|| what.to_owned())
}

type MakeFault = fn() -> Fault;

/// Every kind of write meets every kind of fault, at its first occurrence and at some later ones.
#[tokio::test]
async fn of_writes() -> Result<()> {
    let (_turn, lab) = Lab::turn().await?;
    let rig = Rig::new(lab)?;
    let controller = rig.controller(&[]).await?;
    let calm = faults::calm(&rig).await?;
    let table: [(&str, MakeFault); 12] = [
        ("409", || Fault::Status(StatusCode::CONFLICT)),
        ("429", || Fault::Status(StatusCode::TOO_MANY_REQUESTS)),
        ("500", || Fault::Status(StatusCode::INTERNAL_SERVER_ERROR)),
        ("503", || Fault::Status(StatusCode::SERVICE_UNAVAILABLE)),
        ("401", || Fault::Status(StatusCode::UNAUTHORIZED)),
        ("403", || Fault::Status(StatusCode::FORBIDDEN)),
        ("answer lost", || Fault::LoseAnswer),
        ("not carried out", || Fault::Drop),
        ("reset in the body", || Fault::CutAnswer),
        ("no JSON", || Fault::Raw(StatusCode::OK, "{ no JSON".into())),
        ("slow request", || Fault::Delay(Duration::from_millis(300))),
        ("slow answer", || Fault::DelayAnswer(Duration::from_millis(300))),
    ];
    // All scenarios run concurrently in namespaces of their own, because most of the time is spent waiting for the results of
    // writes.
    let mut scenes = Vec::new();
    for (what, fault) in table {
        let scene = Scene::without_controller(rig.lab, "fault").await?;
        faults::twelve_pods(&scene).await?;
        scenes.push((what, fault, scene));
    }
    rig.pass();
    let rows: Vec<Row> = scenes.iter().map(|(_, fault, scene)| Row::new(&scene.namespace, *fault)).collect();
    let rows = Arc::new(rows);
    let asked = rows.clone();
    rig.on_write(move |seen| asked.iter().find_map(|row| row.fault(seen)).unwrap_or_default());
    for (_, _, scene) in &scenes {
        scene.create(faults::three_by_four("calm")).await?;
    }
    for ((what, _, scene), row) in scenes.into_iter().zip(rows.iter()) {
        let context = || format!("{what}\n{}", controller.log());
        faults::ends_as(&scene, "calm", &calm.end).await.with_context(context)?;
        let faults = row.faults.load(Ordering::SeqCst);
        ensure!(faults > 0, "{what}: there was no fault");
        no_more_than_explained(&rig, calm, &scene.namespace, faults).with_context(context)?;
        scene.done().await.with_context(context)?;
    }
    rig.quiet().await
}

/// A namespace and its fault: it hits the first write of each kind, and every fourth one after it.
struct Row {
    namespace: String,
    fault: MakeFault,
    met: Mutex<BTreeMap<Sort, usize>>,
    faults: AtomicUsize,
}

impl Row {
    fn new(namespace: &str, fault: MakeFault) -> Row {
        Row { namespace: namespace.into(), fault, met: Mutex::default(), faults: AtomicUsize::new(0) }
    }

    fn fault(&self, seen: &Seen) -> Option<Fault> {
        if !seen.is_about(&self.namespace) {
            return None;
        }
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        let met = met.entry(seen.sort).or_default();
        *met += 1;
        (*met % 4 == 1).then(|| {
            self.faults.fetch_add(1, Ordering::SeqCst);
            (self.fault)()
        })
    }
}

/// A proxy answers 404 for existing pods: the controller does not treat the pods as deleted.
#[tokio::test]
async fn of_a_wrong_404() -> Result<()> {
    let (_turn, lab) = Lab::turn().await?;
    let rig = Rig::new(lab)?;
    let controller = rig.controller(&[]).await?;
    let calm = faults::calm(&rig).await?;
    let spoil = |rig: &Rig<'_>| {
        rig.on_write(|seen| match seen.sort == Sort::Release && seen.nth <= 2 {
            true => Fault::Status(StatusCode::NOT_FOUND),
            false => Fault::Pass,
        });
        rig.on_read(|seen| match seen.sort == Sort::Look && seen.nth == 1 {
            true => Fault::Status(StatusCode::NOT_FOUND),
            false => Fault::Pass,
        });
    };
    run(&rig, calm, "404", spoil).await.with_context(|| controller.log())
}

/// All requests are rejected for a while, at the start and half-way.
#[tokio::test]
async fn of_rights_for_a_while() -> Result<()> {
    let (_turn, lab) = Lab::turn().await?;
    let rig = Rig::new(lab)?;
    let controller = rig.controller(&[]).await?;
    let calm = faults::calm(&rig).await?;
    drop(controller);
    for status in [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN] {
        let refusals = Arc::new(AtomicUsize::new(0));
        let refuse = move || refusals.fetch_add(1, Ordering::SeqCst) < 30;
        rig.pass();
        let (read, watch) = (refuse.clone(), refuse.clone());
        rig.on_read(move |_| if read() { Fault::Status(status) } else { Fault::Pass });
        rig.on_watch(move |_| if watch() { WatchFault::Status(status) } else { WatchFault::Pass });
        let scene = Scene::without_controller(lab, "rights").await?;
        faults::twelve_pods(&scene).await?;
        scene.create(faults::three_by_four("calm")).await?;
        let mut controller = Controller::spawn(lab, &rig.options(&[])).await?;
        scene.released("a-0").await.with_context(|| controller.log())?;
        controller.ready().await?;
        // Half-way: the next ten writes, and all watches that are opened meanwhile.
        rig.pass();
        let refusals = Arc::new(AtomicUsize::new(0));
        let refuse = move || refusals.fetch_add(1, Ordering::SeqCst) < 10;
        let watch = refuse.clone();
        rig.on_write(move |_| if refuse() { Fault::Status(status) } else { Fault::Pass });
        rig.on_watch(move |_| if watch() { WatchFault::Status(status) } else { WatchFault::Pass });
        rig.proxy.cut_watches();
        faults::ends_as(&scene, "calm", &calm.end).await.with_context(|| controller.log())?;
        ensure!(controller.probe("/livez").await.is_ok());
        scene.done().await?;
    }
    Ok(())
}

/// A request without an answer times out after 15 s, and the controller finds out the result.
#[tokio::test]
async fn of_an_answer_that_never_comes() -> Result<()> {
    let (_turn, lab) = Lab::turn().await?;
    let rig = Rig::new(lab)?;
    let controller = rig.controller(&[]).await?;
    let calm = faults::calm(&rig).await?;
    let spoil = |rig: &Rig<'_>| {
        rig.on_write(|seen| match seen.sort == Sort::Release && seen.nth == 6 {
            true => Fault::Delay(Duration::from_secs(3600)),
            false => Fault::Pass,
        });
    };
    run(&rig, calm, "timeout", spoil).await.with_context(|| controller.log())
}

type MakeWatchFault = fn(&Seen) -> WatchFault;

/// Every watch breaks repeatedly, in every way.
#[tokio::test]
async fn of_watches() -> Result<()> {
    let (_turn, lab) = Lab::turn().await?;
    let rig = Rig::new(lab)?;
    let controller = rig.controller(&[]).await?;
    let calm = faults::calm(&rig).await?;
    let table: [(&str, MakeWatchFault); 8] = [
        ("410 as status", |seen| match seen.nth <= 18 {
            true => WatchFault::Status(StatusCode::GONE),
            false => WatchFault::Pass,
        }),
        ("410 as event", |_| WatchFault::GoneAfter(2)),
        ("cut after every event", |_| WatchFault::CutAfter(1)),
        ("end after every third event", |_| WatchFault::EndAfter(3)),
        ("not opened", |seen| if seen.nth % 2 == 1 { WatchFault::Drop } else { WatchFault::Pass }),
        ("garbage", |_| {
            let mut number = 0;
            WatchFault::Rewrite(Box::new(move |event| {
                number += 1;
                vec![if number % 3 == 0 { json!("garbage") } else { event }]
            }))
        }),
        ("every event twice", |_| WatchFault::Rewrite(Box::new(|event| vec![event.clone(), event]))),
        ("time travel", |_| {
            let mut past: Vec<Value> = Vec::new();
            WatchFault::Rewrite(Box::new(move |event| {
                let old = past.first().cloned();
                past.push(event.clone());
                past.truncate(5);
                // Sends an older version of a known object after the newer one.
                [Some(event), old.filter(|old| old["type"] == "MODIFIED")].into_iter().flatten().collect()
            }))
        }),
    ];
    for (what, fault) in table {
        let spoil = |rig: &Rig<'_>| {
            rig.on_watch(fault);
            rig.proxy.cut_watches();
        };
        run(&rig, calm, what, spoil).await.with_context(|| controller.log())?;
    }
    ensure!(controller.probe("/livez").await.is_ok());
    Ok(())
}

/// There are more pods than fit in one page, and the continue token expires, twice.
#[tokio::test]
async fn of_lists() -> Result<()> {
    let (_turn, lab) = Lab::turn().await?;
    let rig = Rig::new(lab)?;
    let scene = Scene::without_controller(lab, "pages").await?;
    let strangers = (0..520).map(|n| pod(&format!("stranger-{n}")).gates(&["example.com/other"]));
    faults::create_all(&scene, strangers).await?;
    scene.pods(&["one", "two"]).await?;
    scene.sequence("s", &[make::named("1", &["one"]), make::named("2", &["two"])]).await?;
    let tokens = Arc::new(AtomicUsize::new(0));
    let asked = tokens.clone();
    rig.on_read(move |seen| {
        let continued = seen.query.contains("continue=") && seen.path.ends_with("/pods");
        match continued && tokens.fetch_add(1, Ordering::SeqCst) < 2 {
            true => Fault::Status(StatusCode::GONE),
            false if seen.nth % 7 == 3 => Fault::CutAnswer,
            false if seen.nth % 7 == 5 => Fault::Raw(StatusCode::OK, "{}".into()),
            false => Fault::Pass,
        }
    });
    let mut controller = Controller::spawn(lab, &rig.options(&[])).await?;
    controller.ready().await?;
    ensure!(asked.load(Ordering::SeqCst) > 2, "the pods fit into one page");
    scene.phase("s", "Completed").await.with_context(|| controller.log())?;
    scene.kubectl(&["delete", "pods", "--all", "--wait=false", "--grace-period=0", "--force"])?;
    scene.done().await
}

/// A small random generator, so that a run can be repeated with its seed.
struct Random(AtomicU64);

impl Random {
    fn below(&self, limit: u64) -> u64 {
        let step = |x: u64| Some(x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407));
        let old = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, step).unwrap_or_default();
        (old >> 33) % limit
    }

    fn fault(&self) -> Fault {
        match self.below(10) {
            0 => Fault::Status(StatusCode::CONFLICT),
            1 => Fault::Status(StatusCode::TOO_MANY_REQUESTS),
            2 => Fault::Status(StatusCode::INTERNAL_SERVER_ERROR),
            3 => Fault::Status(StatusCode::SERVICE_UNAVAILABLE),
            4 => Fault::Status(StatusCode::UNAUTHORIZED),
            5 => Fault::LoseAnswer,
            6 => Fault::Drop,
            7 => Fault::CutAnswer,
            8 => Fault::Raw(StatusCode::OK, "{ no JSON".into()),
            _ => Fault::DelayAnswer(Duration::from_millis(self.below(500))),
        }
    }

    fn watch_fault(&self) -> WatchFault {
        match self.below(6) {
            0 => WatchFault::Status(StatusCode::GONE),
            1 => WatchFault::Drop,
            2 => WatchFault::CutAfter(self.below(4)),
            3 => WatchFault::EndAfter(self.below(4)),
            4 => WatchFault::GoneAfter(self.below(4)),
            _ => WatchFault::Rewrite(Box::new(|event| vec![event.clone(), event])),
        }
    }
}

/// All kinds of faults mixed, until forty faults have occurred. To repeat a run, set ROLLCALL_SEED to its seed.
#[tokio::test]
async fn of_all_sorts() -> Result<()> {
    let (_turn, lab) = Lab::turn().await?;
    let rig = Rig::new(lab)?;
    let controller = rig.controller(&[]).await?;
    let calm = faults::calm(&rig).await?;
    let given = std::env::var("ROLLCALL_SEED").ok().and_then(|seed| seed.parse().ok());
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_nanos() as u64;
    let seed: u64 = given.unwrap_or(clock);
    println!("seed {seed}");
    for round in 0..2 {
        let random = Arc::new(Random(AtomicU64::new(seed.wrapping_add(round))));
        let (writes, reads, watches) = (random.clone(), random.clone(), random);
        let left = Arc::new(AtomicU64::new(40));
        let take =
            move || left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok();
        let (take_read, take_watch) = (take.clone(), take.clone());
        let scene = Scene::without_controller(lab, "mix").await?;
        faults::twelve_pods(&scene).await?;
        rig.pass();
        rig.on_write(move |_| if writes.below(3) == 0 && take() { writes.fault() } else { Fault::Pass });
        rig.on_read(move |_| if reads.below(3) == 0 && take_read() { reads.fault() } else { Fault::Pass });
        rig.on_watch(move |_| match watches.below(2) == 0 && take_watch() {
            true => watches.watch_fault(),
            false => WatchFault::Pass,
        });
        rig.proxy.cut_watches();
        scene.create(faults::three_by_four("calm")).await?;
        let what = || format!("seed {seed}, round {round}\n{}", controller.log());
        faults::ends_as(&scene, "calm", &calm.end).await.with_context(what)?;
        no_more_than_explained(&rig, calm, &scene.namespace, rig.faults()).with_context(what)?;
        scene.done().await.with_context(what)?;
    }
    rig.pass();
    rig.quiet().await
}

/// The connection between controller and API server is cut, or silent for a while, half-way.
#[tokio::test]
async fn of_the_line() -> Result<()> {
    let (_turn, lab) = Lab::turn().await?;
    let rig = Rig::new(lab)?;
    let controller = rig.controller(&[]).await?;
    let calm = faults::calm(&rig).await?;
    for line in [Line::Cut, Line::Silent] {
        let scene = Scene::without_controller(lab, "line").await?;
        let names = [faults::B, faults::C].concat();
        faults::create_all(&scene, faults::A.iter().map(|name| pod(name).kwok("never-ready", "true")))
            .await?;
        faults::create_all(&scene, names.iter().map(|name| pod(name))).await?;
        scene.create(faults::three_by_four("calm")).await?;
        for name in faults::A {
            scene.released(name).await?;
        }
        rig.proxy.line(line);
        for name in faults::A {
            scene.make_ready(name).await?;
            scene.ready(name).await?;
        }
        scene.held(&names).await?;
        rig.proxy.line(Line::Open);
        let what = || format!("{line:?}\n{}", controller.log());
        faults::ends_as(&scene, "calm", &calm.end).await.with_context(what)?;
        scene.done().await?;
    }
    Ok(())
}

/// A release with an unknown result: nothing is sent twice without need, and at most one GET is needed.
#[tokio::test]
async fn of_an_unknown_outcome() -> Result<()> {
    let (_turn, lab) = Lab::turn().await?;
    let rig = Rig::new(lab)?;
    let controller = rig.controller(&[]).await?;
    // (name, fault, whether the watch is silent, expected releases, expected GETs)
    let table: [(&str, MakeFault, bool, usize, usize); 4] = [
        ("done, and the watch tells", || Fault::LoseAnswer, false, 1, 0),
        ("done, and the watch is silent", || Fault::LoseAnswer, true, 1, 1),
        ("not done", || Fault::Drop, false, 2, 1),
        ("not done, and the watch is silent", || Fault::Drop, true, 2, 1),
    ];
    for (what, fault, silent, releases, looks) in table {
        let scene = Scene::without_controller(lab, "unknown").await?;
        scene.pods(&["one", "two"]).await?;
        let groups = [make::named("1", &["one"]), make::named("2", &["two"])];
        scene.create(make::sequence("s", &groups).with(json!({"spec": {"suspend": true}}))).await?;
        let present = |group: &Value| group["present"] == 1;
        let known = |status: &Value| status["groups"].as_array().is_some_and(|all| all.iter().all(present));
        scene.status("s", "both pods known", known).await?;
        rig.pass();
        let namespace = scene.namespace.clone();
        if silent {
            rig.on_watch(|seen| match seen.path.ends_with("/pods") {
                true => WatchFault::SilentAfter(0),
                false => WatchFault::Pass,
            });
            let silenced = || rig.count(|seen| seen.sort == Sort::Watch && seen.path.ends_with("/pods"));
            rig.proxy.cut_watches();
            wait::until("a silent watch", LIMIT, async || Ok((silenced() > 0).then_some(()))).await?;
        }
        rig.on_write(move |seen| {
            match seen.sort == Sort::Release && seen.path.contains(&namespace) && seen.nth == 1 {
                true => fault(),
                false => Fault::Pass,
            }
        });
        scene.edit("s", json!({"suspend": false})).await?;
        let about = |sort: Sort, pod: &'static str| {
            let end = format!("/namespaces/{}/pods/{pod}", scene.namespace);
            move |seen: &Seen| seen.sort == sort && seen.path.ends_with(&end)
        };
        if silent {
            let looked = || rig.count(about(Sort::Look, "one"));
            wait::until(&format!("{what}: a look"), LIMIT, async || Ok((looked() > 0).then_some(()))).await?;
            scene.released("one").await?;
            scene.ready("one").await?;
            // Only the watch can report that the pod is ready.
            rig.on_watch(|_| WatchFault::Pass);
            rig.proxy.cut_watches();
        }
        scene.phase("s", "Completed").await.with_context(|| format!("{what}\n{}", controller.log()))?;
        let seen = (rig.count(about(Sort::Release, "one")), rig.count(about(Sort::Look, "one")));
        ensure!(
            seen == (releases, looks),
            "{what}: {} releases, {} looks\n{}",
            seen.0,
            seen.1,
            controller.log()
        );
        ensure!(rig.count(about(Sort::Release, "two")) == 1 && rig.count(about(Sort::Look, "two")) == 0);
        scene.done().await?;
    }
    Ok(())
}
