//! An idle controller writes nothing.

use std::time::Duration;

use crate::common::make::named;
use crate::common::*;
use futures::StreamExt;
use futures::TryStreamExt;
use futures::stream;
use jiff::{SignedDuration, Timestamp};
use rollcall_testbed::{AuditEvent, Capacity};

const SEQUENCES: usize = 50;
/// Number of sequences that stay incomplete: the last pod of their open group is not ready.
const UNFINISHED: usize = 10;
/// Two groups of five pods each, 500 pods in total.
const GROUP: usize = 5;
/// More than twice the delay after which a status that is not urgent is written. The fault runs test longer idle times in
/// virtual time.
const QUIET: SignedDuration = SignedDuration::from_secs(25);
/// Time limit for the quiet period to begin; the last status is written at most 10 s after the last change.
const PATIENCE: Duration = Duration::from_secs(120);
/// Maximum number of concurrent requests of the test.
const AT_A_TIME: usize = 8;

fn name(sequence: usize, group: &str, pod: usize) -> String {
    format!("s{sequence}-{group}{pod}")
}

#[tokio::test]
async fn an_idle_controller_writes_nothing_and_then_the_next_ready_releases() -> Result<()> {
    let lab =
        &Lab::own(rollcall_testbed::Options { capacity: Capacity::huge(), ..Default::default() }).await?;
    let scene = Scene::without_controller(lab, "idle").await?;
    let controller =
        Controller::start(lab, Options::args(&["--leader-elect", "--lease-duration", "6s"])).await?;
    let sequences = (0..SEQUENCES).map(|n| {
        let names = |group: &str| (0..GROUP).map(|pod| name(n, group, pod)).collect::<Vec<_>>();
        let groups = ["a", "b"].map(|group| {
            let names = names(group);
            named(group, &names.iter().map(String::as_str).collect::<Vec<_>>())
        });
        make::sequence(&format!("s{n}"), &groups)
    });
    let pods = (0..SEQUENCES).flat_map(|n| {
        let pod = move |group: &str, number: usize| {
            let pod = pod(&name(n, group, number));
            let last = n < UNFINISHED && group == "a" && number == GROUP - 1;
            if last { pod.kwok("never-ready", "true") } else { pod }
        };
        (0..GROUP).flat_map(move |number| [pod("a", number), pod("b", number)])
    });
    let creations = sequences.chain(pods).map(|object| scene.create(object));
    stream::iter(creations).buffer_unordered(AT_A_TIME).try_collect::<Vec<_>>().await?;
    for n in 0..SEQUENCES {
        let sequence = format!("s{n}");
        match n < UNFINISHED {
            true => {
                let waiting = |status: &Value| status["groups"][0]["arrived"] == GROUP - 1;
                scene.status(&sequence, "all but one", waiting).await?;
            }
            false => drop(scene.phase(&sequence, "Completed").await?),
        }
    }

    let ours = |event: &&AuditEvent| event.user == ACCOUNT && event.is_write() && event.resource != "leases";
    let leases =
        |event: &&AuditEvent| event.user == ACCOUNT && event.resource == "leases" && event.is_write();
    assert!(lab.events(ours)?.len() > SEQUENCES * GROUP, "too few writes before the quiet period");
    let quiet_since = wait::until_every(Duration::from_secs(1), "a quiet period", PATIENCE, async || {
        let last =
            lab.events(ours)?.iter().map(|event| event.stage_time).max().expect("writes of the controller");
        Ok((Timestamp::now().duration_since(last) > QUIET).then_some(last))
    });
    let quiet_since = quiet_since.await?;
    // The controller was running all the time.
    let renewed = lab.events(leases)?.iter().filter(|event| event.stage_time > quiet_since).count();
    assert!(renewed > 3, "the lease was renewed {renewed} times");
    controller.probe("/livez").await?;

    let waiting: Vec<String> = (0..GROUP).map(|pod| name(0, "b", pod)).collect();
    scene.held(&waiting.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    scene.make_ready(&name(0, "a", GROUP - 1)).await?;
    scene.phase("s0", "Completed").await?;
    assert!(lab.events(ours)?.iter().any(|event| event.stage_time > quiet_since && event.name == waiting[0]));
    drop(controller);
    scene.done().await
}
