//! The controller crashes at a write, before or after the write is committed; the next controller reaches the same end state.

use crate::common::faults::{self, Calm, Moment, Rig, Seen, Sort};
use crate::common::*;
use anyhow::{Context, ensure};
use rollcall_testbed::wait;

/// A point in a run with three groups of four pods: the nth write of a kind.
struct Point {
    sort: Sort,
    nth: usize,
    /// Whether some gates must be removed and some still present at this point.
    middle: bool,
}

const fn point(sort: Sort, nth: usize, middle: bool) -> Point {
    Point { sort, nth, middle }
}

/// Every kind of write in a run. Releases: the first and the last of a group, and one in between. Statuses: "a" complete (its
/// settle time begins), and completed. The fault runs on the embedded cluster crash at every write.
const POINTS: [Point; 7] = [
    point(Sort::NoteCreate, 1, false),
    point(Sort::Release, 4, true),
    point(Sort::Release, 5, true),
    point(Sort::Release, 7, true),
    point(Sort::Status, 2, true),
    point(Sort::Status, 4, false),
    point(Sort::Event, 1, true),
];

const ONE_AT_A_TIME: &[&str] = &["--max-in-flight", "1"];

async fn crash_once(
    rig: &Rig<'_>,
    controller: &mut Controller,
    calm: &Calm,
    at: &Point,
    moment: Moment,
) -> Result<()> {
    let what = format!("{moment:?} {:?} {}", at.sort, at.nth);
    let scene = Scene::without_controller(rig.lab, "crash").await?;
    faults::twelve_pods(&scene).await?;
    let wanted = faults::nth(at.sort, at.nth, &scene.namespace);
    let held = rig.arm(moment, wanted);
    scene.create(faults::three_by_four("calm")).await?;
    rig.strike(controller, held).await.with_context(|| what.clone())?;
    let (gone, held) = faults::gone_and_held(&scene).await?;
    if at.middle {
        ensure!(gone > 0 && held > 0, "{what}: not half-way: {gone} gates removed, {held} held");
    }
    if at.sort == Sort::NoteCreate {
        ensure!(gone == 0, "{what}: {gone} gates were removed before the note existed");
    }
    *controller = rig.controller(ONE_AT_A_TIME).await?;
    faults::ends_as(&scene, "calm", &calm.end).await.with_context(|| controller.log())?;
    scene.done().await.with_context(|| what)
}

#[tokio::test]
async fn at_every_kind_of_write() -> Result<()> {
    let (_turn, lab) = Lab::turn().await?;
    let rig = Rig::new(lab)?;
    let mut controller = rig.controller(ONE_AT_A_TIME).await?;
    let calm = faults::calm(&rig).await?;
    for at in &POINTS {
        for moment in [Moment::Before, Moment::After] {
            crash_once(&rig, &mut controller, calm, at, moment).await?;
        }
    }
    rig.quiet().await
}

/// Each controller crashes at its first write about this sequence, before or after the write is committed, and another one
/// takes over.
#[tokio::test]
async fn at_every_single_write_of_one_run() -> Result<()> {
    let (_turn, lab) = Lab::turn().await?;
    let rig = Rig::new(lab)?;
    let mut controller = rig.controller(ONE_AT_A_TIME).await?;
    let calm = faults::calm(&rig).await?;
    controller.kill()?;
    let scene = Scene::without_controller(rig.lab, "dying").await?;
    faults::twelve_pods(&scene).await?;
    scene.create(faults::three_by_four("calm")).await?;
    let (mut crashes, mut middle) = (0, 0);
    // Alternately before and after the commit, so each write is lost once and then done once.
    for moment in [Moment::Before, Moment::After].into_iter().cycle() {
        let namespace = scene.namespace.clone();
        let wanted = move |seen: &Seen| seen.sort != Sort::Event && seen.is_about(&namespace);
        let held = rig.arm(moment, wanted);
        controller = Controller::spawn(rig.lab, &rig.options(ONE_AT_A_TIME)).await?;
        tokio::select! {
            biased;
            struck = rig.strike(&mut controller, held) => struck?,
            finished = scene.phase("calm", "Completed") => {
                finished?;
                break;
            }
        }
        crashes += 1;
        let (gone, held) = faults::gone_and_held(&scene).await?;
        middle += usize::from(gone > 0 && held > 0);
        ensure!(crashes < 200, "the run does not end");
    }
    // A note, twelve releases and four statuses: each was lost once and done once.
    ensure!(crashes >= 28 && middle >= 20, "only {crashes} crashes, {middle} of them half-way");
    controller.kill()?;
    rig.pass();
    let controller = rig.controller(&[]).await?;
    faults::ends_as(&scene, "calm", &calm.end).await.with_context(|| controller.log())?;
    scene.done().await
}

/// Crashes at notes that are patched after an edit or deleted after a deletion, and at the releases of a deleted sequence.
#[tokio::test]
async fn at_the_notes_of_edits_and_deletions() -> Result<()> {
    let (_turn, lab) = Lab::turn().await?;
    let rig = Rig::new(lab)?;
    let mut controller = rig.controller(ONE_AT_A_TIME).await?;
    for moment in [Moment::Before, Moment::After] {
        for (sort, nth) in
            [(Sort::NotePatch, 1), (Sort::Release, 1), (Sort::Release, 4), (Sort::NoteDelete, 1)]
        {
            let what = format!("{moment:?} {sort:?} {nth}");
            let scene = Scene::without_controller(lab, "notes").await?;
            faults::create_all(&scene, faults::A.iter().map(|name| pod(name).kwok("never-ready", "true")))
                .await?;
            faults::create_all(&scene, [faults::B, faults::C].concat().iter().map(|name| pod(name))).await?;
            let groups = [make::named("a", &faults::A), make::named("b", &faults::B)];
            scene.sequence("edited", &groups).await?;
            for name in faults::A {
                scene.released(name).await?;
            }
            let wanted = faults::nth(sort, nth, &scene.namespace);
            let all = [groups.to_vec(), vec![make::named("c", &faults::C)]].concat();
            let held = rig.arm(moment, wanted);
            scene.edit("edited", json!({"podGroups": all})).await?;
            if sort != Sort::NotePatch {
                scene.status("edited", "the edit", |_| true).await?;
                scene.delete("PodSequence", "edited").await?;
            }
            rig.strike(&mut controller, held).await.with_context(|| what.clone())?;
            let (gone, held) = faults::gone_and_held(&scene).await?;
            let (first, last) = (sort == Sort::NotePatch || nth == 1, sort == Sort::NoteDelete);
            ensure!(
                gone >= 4 && (last || held > 0) && (first || gone > 4),
                "{what}: {gone} gone, {held} held"
            );
            if sort == Sort::NotePatch {
                // The sequence is deleted while the controller is down: group "c" is released only if the note already
                // contained it.
                scene.delete_and_wait("PodSequence", "edited").await?;
            }
            controller = rig.controller(ONE_AT_A_TIME).await?;
            let noted = sort != Sort::NotePatch || moment == Moment::After;
            let let_go = if noted { 12 } else { 8 };
            wait::until(&format!("{what}: {let_go} pods released and the note deleted"), LIMIT, async || {
                let (gone, _) = faults::gone_and_held(&scene).await?;
                Ok((gone == let_go && faults::notes_about(&scene).await? == 0).then_some(()))
            })
            .await
            .with_context(|| controller.log())?;
            scene.done().await.with_context(|| what)?;
        }
    }
    Ok(())
}

/// Crashes when the lease is created, taken over and renewed.
#[tokio::test]
async fn at_the_lease() -> Result<()> {
    let (_turn, lab) = Lab::turn().await?;
    let rig = Rig::new(lab)?;
    const ELECT: &[&str] = &["--leader-elect", "--lease-duration=3s"];
    let leases = ["-n", lab::OWN_NAMESPACE, "delete", "lease", "--all"];
    for (sort, nth, moment) in [
        (Sort::LeaseCreate, 1, Moment::Before),
        (Sort::LeaseCreate, 1, Moment::After),
        (Sort::LeasePatch, 1, Moment::Before),
        (Sort::LeasePatch, 2, Moment::After),
    ] {
        let what = format!("{moment:?} {sort:?} {nth}");
        if sort == Sort::LeaseCreate {
            lab.cluster().kubectl_ok(&leases)?;
        }
        let scene = Scene::without_controller(lab, "lease").await?;
        scene.pods(&["one", "two"]).await?;
        scene.sequence("s", &[make::named("1", &["one"]), make::named("2", &["two"])]).await?;
        let held = rig.arm(moment, move |seen| seen.sort == sort && seen.nth == nth);
        let mut controller = Controller::spawn(lab, &rig.options(ELECT)).await?;
        rig.strike(&mut controller, held).await.with_context(|| what.clone())?;
        if nth == 1 {
            let (gone, _) = faults::gone_and_held(&scene).await?;
            ensure!(gone == 0, "{what}: a controller without the lease acted");
        }
        let mut controller = rig.controller(ELECT).await?;
        scene.phase("s", "Completed").await.with_context(|| controller.log())?;
        ensure!(controller.stop().await?.success());
        scene.done().await.with_context(|| what)?;
    }
    Ok(())
}

/// Several crashes during a run with 200 pods in ten groups.
#[tokio::test]
async fn in_the_middle_of_two_hundred_pods() -> Result<()> {
    let (_turn, lab) = Lab::turn().await?;
    let rig = Rig::new(lab)?;
    let mut ends = Vec::new();
    for crashing in [false, true] {
        let scene = Scene::without_controller(rig.lab, "many").await?;
        let names: Vec<Vec<String>> =
            (0..10).map(|group| (0..20).map(|pod| format!("g{group}-{pod:02}")).collect()).collect();
        faults::create_all(&scene, names.iter().flatten().map(|name| pod(name))).await?;
        let groups: Vec<Value> = names
            .iter()
            .enumerate()
            .map(|(group, names)| json!({"name": format!("g{group}"), "pods": names}))
            .collect();
        scene.sequence("many", &groups).await?;
        let points = [
            (Moment::Before, Sort::Release, 30),
            (Moment::After, Sort::Release, 20),
            (Moment::Before, Sort::Event, 1),
            (Moment::After, Sort::Release, 31),
            (Moment::Before, Sort::Release, 30),
        ];
        for (moment, sort, nth) in points.into_iter().filter(|_| crashing) {
            let held = rig.arm(moment, faults::nth(sort, nth, &scene.namespace));
            let mut dying = Controller::spawn(rig.lab, &rig.options(&[])).await?;
            rig.strike(&mut dying, held).await?;
            faults::in_the_middle(&scene, &format!("{moment:?} {sort:?} {nth}")).await?;
        }
        let mut controller = rig.controller(&[]).await?;
        ends.push(faults::end_state(&scene, "many").await.with_context(|| controller.log())?);
        controller.kill()?;
        scene.done().await?;
    }
    ensure!(ends[0] == ends[1], "without crashes {}\nwith crashes {}", ends[0], ends[1]);
    Ok(())
}
