//! Two controllers at the same time, with and without leader election.

use crate::common::faults::{self, Rig, Seen};
use crate::common::*;
use anyhow::{Context, ensure};
use rollcall_testbed::{AuditEvent, wait};
use rustix::process::Signal;

const ELECT: &[&str] = &["--leader-elect", "--lease-duration=3s"];

/// Whether the request is a write that only a leader sends.
fn acts(seen: &Seen) -> bool {
    seen.sort.is_write() && !seen.sort.is_lease()
}

/// Without leader election both act: the order is kept, the end state is the same, and the controllers finally agree.
#[tokio::test]
async fn both_act() -> Result<()> {
    let (_turn, lab) = Lab::turn().await?;
    let (one, two) = (Rig::new(lab)?, Rig::new(lab)?);
    let first = one.controller(&[]).await?;
    let calm = faults::calm(&one).await?;
    let second = two.controller(&[]).await?;
    one.forget();
    let scene = Scene::without_controller(lab, "both").await?;
    faults::twelve_pods(&scene).await?;
    scene.create(faults::three_by_four("calm")).await?;
    faults::ends_as(&scene, "calm", &calm.end).await?;
    ensure!(one.count(acts) > 0 && two.count(acts) > 0, "one of them did not act");
    // They recorded different times, and must not overwrite each other's times indefinitely.
    tokio::try_join!(one.quiet(), two.quiet())
        .with_context(|| format!("{}\n{}", first.log(), second.log()))?;
    faults::ends_as(&scene, "calm", &calm.end).await?;
    for controller in [&first, &second] {
        let violations: f64 = violations(controller).await?;
        ensure!(violations == 0.0, "{}", controller.log());
    }
    scene.done().await
}

async fn violations(controller: &Controller) -> Result<f64> {
    let metrics = controller.metrics().await?;
    Ok(metrics.iter().filter(|(name, _)| name.contains("violations")).map(|(_, value)| value).sum())
}

async fn leads(controller: &Controller) -> Result<bool> {
    Ok(controller.metrics().await?.get("rollcall_leader") == Some(&1.0))
}

/// Waits until a replica leads.
async fn leading(controller: &Controller) -> Result<()> {
    let told = wait::until("leadership", LIMIT, async || Ok(leads(controller).await?.then_some(())));
    told.await.with_context(|| controller.log())
}

/// Runs a sequence of two pods to completion.
async fn small(lab: &Lab, name: &str) -> Result<()> {
    let scene = Scene::without_controller(lab, "elected").await?;
    scene.pods(&["one", "two"]).await?;
    scene.sequence(name, &[make::named("1", &["one"]), make::named("2", &["two"])]).await?;
    scene.phase(name, "Completed").await?;
    scene.done().await
}

/// Returns the successive holders of the lease, according to the writes to it.
fn holders(lab: &Lab) -> Result<Vec<String>> {
    let ours = |event: &&AuditEvent| event.resource == "leases" && event.is_committed();
    let ours = lab.events(|event| ours(event) && event.namespace == lab::OWN_NAMESPACE)?;
    let holder = |event: &AuditEvent| {
        event.response_object["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
    };
    let mut holders: Vec<String> = ours.iter().map(holder).collect();
    holders.dedup();
    Ok(holders.into_iter().map(|holder| holder.split('_').next().unwrap_or_default().to_owned()).collect())
}

struct Replica<'a> {
    rig: Rig<'a>,
    controller: Controller,
}

async fn replica<'a>(lab: &'a Lab, name: &str) -> Result<Replica<'a>> {
    let rig = Rig::new(lab)?;
    let mut options = rig.options(ELECT);
    options.env.push(("POD_NAME".into(), name.into()));
    let controller = Controller::start(lab, options).await?;
    Ok(Replica { rig, controller })
}

/// Only one replica acts at a time. A stopped leader hands over the lease at once; after a killed one, it expires. A leader
/// that was paused beyond the expiry stops acting.
#[tokio::test]
async fn one_acts() -> Result<()> {
    let (_turn, lab) = Lab::turn().await?;
    let mut first = replica(lab, "first").await?;
    leading(&first.controller).await?;
    let mut second = replica(lab, "second").await?;
    small(lab, "one").await.with_context(|| first.controller.log())?;
    ensure!(first.rig.count(acts) > 0 && second.rig.count(acts) == 0, "the follower acted");
    ensure!(leads(&first.controller).await? && !leads(&second.controller).await?);

    // SIGTERM: the lease is released.
    ensure!(first.controller.stop().await?.success(), "{}", first.controller.log());
    leading(&second.controller).await?;
    let before = first.rig.count(acts);
    small(lab, "two").await.with_context(|| second.controller.log())?;
    ensure!(first.rig.count(acts) == before && second.rig.count(acts) > 0);

    // SIGKILL: the lease expires.
    let third = replica(lab, "third").await?;
    second.controller.kill()?;
    leading(&third.controller).await?;
    small(lab, "three").await.with_context(|| third.controller.log())?;

    // Paused beyond the expiry of its lease, with work to do in the meantime.
    let Replica { rig, controller: mut paused } = third;
    let fourth = replica(lab, "fourth").await?;
    let scene = Scene::without_controller(lab, "paused").await?;
    scene.unready_pods(&["one"]).await?;
    scene.pods(&["two"]).await?;
    scene.sequence("s", &[make::named("1", &["one"]), make::named("2", &["two"])]).await?;
    scene.released("one").await?;
    scene.phase("s", "InProgress").await?;
    paused.signal(Signal::STOP)?;
    let acted = rig.count(acts);
    leading(&fourth.controller).await?;
    scene.make_ready("one").await?;
    paused.signal(Signal::CONT)?;
    let ended = paused.ended().await?;
    ensure!(ended.code() == Some(1), "the paused replica ended with {ended}: {}", paused.log());
    scene.phase("s", "Completed").await.with_context(|| fourth.controller.log())?;
    ensure!(rig.count(acts) == acted, "it acted after its lease expired: {:?}", rig.seen());
    scene.done().await?;

    let holders: Vec<String> = holders(lab)?.into_iter().skip_while(|holder| holder != "first").collect();
    ensure!(holders == ["first", "", "second", "third", "fourth"], "held by {holders:?}");
    Ok(())
}

/// The leader keeps the lease if the answer to a renewal is lost or delayed; a deleted lease is re-created.
#[tokio::test]
async fn a_lease_survives_faults() -> Result<()> {
    use faults::Sort;
    use rollcall_testbed::Fault;
    let (_turn, lab) = Lab::turn().await?;
    let mut only = replica(lab, "only").await?;
    leading(&only.controller).await?;
    let renewals = |rig: &Rig<'_>| rig.count(|seen| seen.sort == Sort::LeasePatch);
    for fault in
        [|| Fault::LoseAnswer, || Fault::Drop, || Fault::Status(http::StatusCode::INTERNAL_SERVER_ERROR)]
    {
        only.rig.pass();
        only.rig.on_write(move |seen| match seen.sort == Sort::LeasePatch && seen.nth == 1 {
            true => fault(),
            false => Fault::Pass,
        });
        wait::until("three more renewals", LIMIT, async || Ok((renewals(&only.rig) >= 4).then_some(())))
            .await?;
        ensure!(only.controller.exited()?.is_none(), "{}", only.controller.log());
        ensure!(leads(&only.controller).await?, "{}", only.controller.log());
    }
    only.rig.pass();
    lab.cluster().kubectl_ok(&["-n", lab::OWN_NAMESPACE, "delete", "lease", "--all"])?;
    let made = async || Ok((only.rig.count(|seen| seen.sort == Sort::LeaseCreate) > 0).then_some(()));
    wait::until("a new lease", LIMIT, made).await?;
    small(lab, "again").await.with_context(|| only.controller.log())?;
    ensure!(only.controller.stop().await?.success(), "{}", only.controller.log());
    Ok(())
}
