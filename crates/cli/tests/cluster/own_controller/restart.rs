//! The control plane or the controller goes down half-way and recovers, while the state of the cluster changes.

use crate::common::faults::{self, Rig, Seen, Sort};
use crate::common::*;
use anyhow::{Context, ensure};
use rollcall_testbed::{Component, WatchFault, wait};

/// Creates twelve pods in three groups, and stops half-way: the pods of group "a" are released but not ready.
async fn halfway<'a>(lab: &'a Lab, prefix: &str) -> Result<Scene<'a>> {
    let scene = Scene::without_controller(lab, prefix).await?;
    faults::create_all(&scene, faults::A.iter().map(|name| pod(name).kwok("never-ready", "true"))).await?;
    faults::create_all(&scene, [faults::B, faults::C].concat().iter().map(|name| pod(name))).await?;
    scene.create(faults::three_by_four("calm")).await?;
    for name in faults::A {
        scene.released(name).await?;
    }
    Ok(scene)
}

/// Makes the pods of group "a" ready.
async fn go_on(scene: &Scene<'_>) -> Result<()> {
    for name in faults::A {
        scene.make_ready(name).await?;
    }
    Ok(())
}

#[derive(Clone, Copy, Debug)]
enum Outage {
    Restart,
    Kill,
    EtcdToo,
}

/// The API server is restarted, killed, and restarted together with etcd.
#[tokio::test]
async fn of_the_control_plane() -> Result<()> {
    let (_turn, lab) = Lab::turn().await?;
    let rig = Rig::new(lab)?;
    let controller = rig.controller(&[]).await?;
    let calm = faults::calm(&rig).await?;
    let cluster = lab.cluster();
    for outage in [Outage::Restart, Outage::Kill, Outage::EtcdToo] {
        let scene = halfway(lab, "outage").await?;
        faults::in_the_middle(&scene, &format!("{outage:?}")).await?;
        // Releases are in progress during the outage.
        go_on(&scene).await?;
        match outage {
            Outage::Restart => cluster.restart_api_server().await?,
            Outage::Kill => {
                cluster.kill_api_server().await?;
                cluster.start_api_server().await?;
            }
            Outage::EtcdToo => {
                cluster.stop_api_server().await?;
                cluster.stop(Component::Etcd).await?;
                cluster.start_component(Component::Etcd).await?;
                cluster.start_api_server().await?;
            }
        }
        faults::ends_as(&scene, "calm", &calm.end).await.with_context(|| controller.log())?;
        // A killed API server loses unflushed audit events, so only the end state is checked.
        if !matches!(outage, Outage::Kill) {
            scene.done().await.with_context(|| format!("{outage:?}"))?;
        }
    }
    rig.quiet().await
}

/// The API server is down when the controller starts.
#[tokio::test]
async fn of_the_api_server_before_the_start() -> Result<()> {
    let (_turn, lab) = Lab::turn().await?;
    let rig = Rig::new(lab)?;
    let scene = Scene::without_controller(lab, "early").await?;
    faults::twelve_pods(&scene).await?;
    scene.create(faults::three_by_four("calm")).await?;
    let options = rig.options(&[]);
    // The token comes from the API server, so the options are prepared before the line is cut.
    rig.proxy.line(rollcall_testbed::Line::Cut);
    let mut controller = Controller::spawn(lab, &options).await?;
    wait::until("the live probe", LIMIT, async || Ok(controller.probe("/livez").await.ok())).await?;
    ensure!(controller.probe("/readyz").await.is_err());
    rig.proxy.line(rollcall_testbed::Line::Open);
    controller.ready().await?;
    faults::end_state(&scene, "calm").await?;
    scene.done().await
}

/// The controller is stopped with SIGTERM half-way and started again.
#[tokio::test]
async fn of_the_controller() -> Result<()> {
    let (_turn, lab) = Lab::turn().await?;
    let rig = Rig::new(lab)?;
    let mut controller = rig.controller(&[]).await?;
    let calm = faults::calm(&rig).await?;
    let scene = halfway(lab, "stopped").await?;
    ensure!(controller.stop().await?.success(), "{}", controller.log());
    go_on(&scene).await?;
    for name in faults::A {
        scene.ready(name).await?;
    }
    faults::in_the_middle(&scene, "stopped").await?;
    scene.held(&[faults::B, faults::C].concat()).await?;
    let controller = rig.controller(&[]).await?;
    faults::ends_as(&scene, "calm", &calm.end).await.with_context(|| controller.log())?;
    scene.done().await
}

/// The spec is edited half-way, with the controller running and stopped: a group is inserted, one is renamed, and one is
/// removed.
#[tokio::test]
async fn while_the_spec_is_edited() -> Result<()> {
    let (_turn, lab) = Lab::turn().await?;
    let rig = Rig::new(lab)?;
    let mut controller = rig.controller(&[]).await?;
    for away in [false, true] {
        let scene = halfway(lab, "edited").await?;
        scene.pods(&["between"]).await?;
        faults::in_the_middle(&scene, "edited").await?;
        if away {
            controller.kill()?;
        }
        let groups = [
            make::named("a", &faults::A),
            make::named("new", &["between"]),
            make::named("renamed", &faults::B),
            make::named("c", &faults::C[1..]),
        ];
        scene.edit("calm", json!({"podGroups": groups})).await?;
        if away {
            controller = rig.controller(&[]).await?;
        }
        go_on(&scene).await?;
        let status = scene.phase("calm", "Completed").await.with_context(|| controller.log())?;
        ensure!(status["groups"].as_array().map(Vec::len) == Some(4));
        // This pod belongs to no group any more, so its gate is not removed.
        scene.held(&faults::C[..1]).await?;
        scene.done().await?;
    }
    Ok(())
}

/// The sequence is deleted while the controller is down.
#[tokio::test]
async fn while_the_sequence_is_deleted() -> Result<()> {
    let (_turn, lab) = Lab::turn().await?;
    let rig = Rig::new(lab)?;
    let mut controller = rig.controller(&[]).await?;
    for policy in ["Release", "Hold"] {
        let scene = halfway(lab, "deleted").await?;
        scene.edit("calm", json!({"deletionPolicy": policy})).await?;
        scene.status("calm", "the edit", |_| true).await?;
        faults::in_the_middle(&scene, policy).await?;
        let notes = usize::from(policy == "Release");
        let noted = async || Ok((faults::notes_about(&scene).await? == notes).then_some(()));
        wait::until("its note", LIMIT, noted).await?;
        controller.kill()?;
        scene.delete_and_wait("PodSequence", "calm").await?;
        controller = rig.controller(&[]).await?;
        let rest = [faults::B, faults::C].concat();
        match policy {
            "Release" => {
                for name in &rest {
                    scene.released(name).await.with_context(|| controller.log())?;
                }
            }
            _ => scene.stays_held(&rest).await?,
        }
        let over = async || Ok((faults::notes_of(&scene, "calm").await? == 0).then_some(()));
        wait::until("deletion of its note", LIMIT, over).await.with_context(|| controller.log())?;
        scene.done().await?;
    }
    Ok(())
}

/// The CRD is missing at the start and is installed later.
#[tokio::test]
async fn before_the_crd_is_there() -> Result<()> {
    const CRD: &str = "podsequences.scheduling.example.com";
    let (_turn, lab) = Lab::turn().await?;
    let rig = Rig::new(lab)?;
    lab.cluster().kubectl_ok(&["delete", "crd", CRD])?;
    let scene = Scene::without_controller(lab, "crd").await?;
    faults::twelve_pods(&scene).await?;
    let mut controller = Controller::spawn(lab, &rig.options(&[])).await?;
    let asked = |seen: &Seen| seen.sort == Sort::List && seen.path.ends_with("/podsequences");
    wait::until("two list requests", LIMIT, async || Ok((rig.count(asked) >= 2).then_some(()))).await?;
    ensure!(controller.probe("/readyz").await.is_err() && controller.probe("/livez").await.is_ok());
    lab.apply_file("config/crd/podsequence-crd.yaml")?;
    lab.cluster().kubectl_ok(&["wait", "--for=condition=Established", "crd", CRD])?;
    controller.ready().await?;
    scene.create(faults::three_by_four("calm")).await?;
    faults::end_state(&scene, "calm").await.with_context(|| controller.log())?;
    scene.done().await
}

/// A watch that has gone silent is closed after 90 s. This test has a cluster of its own because it takes so long.
#[tokio::test]
async fn of_a_silent_watch() -> Result<()> {
    let lab = Lab::own(rollcall_testbed::Options::default()).await?;
    let rig = Rig::new(&lab)?;
    let pods = |seen: &Seen| seen.sort == Sort::Watch && seen.path.ends_with("/pods");
    rig.on_watch(move |seen| match pods(seen) && seen.nth <= 9 {
        true => WatchFault::SilentAfter(0),
        false => WatchFault::Pass,
    });
    let controller = rig.controller(&[]).await?;
    let scene = Scene::without_controller(&lab, "silent").await?;
    scene.pods(&["one", "two"]).await?;
    scene.sequence("s", &[make::named("1", &["one"]), make::named("2", &["two"])]).await?;
    let twice = async || Ok((rig.count(pods) >= 2).then_some(()));
    wait::until("a second watch", 2 * LIMIT, twice).await?;
    scene.phase("s", "Completed").await.with_context(|| controller.log())?;
    ensure!(controller.probe("/livez").await.is_ok());
    scene.done().await
}
