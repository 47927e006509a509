//! Tests of `rollcall stop`, `start` and `restart` on a real cluster with the shared controller. The order of writes is read
//! from the audit log, never from the output of the program.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::make::{self, by_ref, daemon_set, deployment, job, stateful_set};
use crate::common::*;
use anyhow::{Context, ensure};
use rollcall_testbed::AuditEvent;

/// The exit code of a run of the program, and its stdout followed by its stderr.
#[derive(Debug)]
struct Run {
    code: Option<i32>,
    text: String,
}

/// Runs the program in the namespace of a scene, with the permissions of an administrator.
fn rollcall(scene: &Scene<'_>, line: &str) -> Result<Run> {
    run_as(&scene.lab.cluster().kubeconfig(), scene, line)
}

fn run_as(kubeconfig: &Path, scene: &Scene<'_>, line: &str) -> Result<Run> {
    let output = command(kubeconfig, scene, line).output().context("run rollcall")?;
    let text = [output.stdout, output.stderr].concat();
    Ok(Run { code: output.status.code(), text: String::from_utf8(text)? })
}

fn command(kubeconfig: &Path, scene: &Scene<'_>, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rollcall"));
    command.args(line.split_whitespace()).args(["-n", &scene.namespace]).env("KUBECONFIG", kubeconfig);
    command.env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

impl Run {
    fn ends_with_code(self, code: i32) -> Result<Run> {
        ensure!(self.code == Some(code), "exit code {:?}:\n{}", self.code, self.text);
        Ok(self)
    }

    fn says(self, text: &str) -> Result<Run> {
        ensure!(self.text.contains(text), "{text:?} is not in\n{}", self.text);
        Ok(self)
    }
}

/// Sets a slow termination for the pods of a workload.
fn slow_end(workload: Value) -> Value {
    let annotations = json!({"testbed.rollcall.dev/slow-delete": "300ms"});
    let spec = json!({"terminationGracePeriodSeconds": 30});
    workload.with(json!({"spec": {"template": {"metadata": {"annotations": annotations}, "spec": spec}}}))
}

/// Creates a database, a migration, two servers, and an agent on every node.
async fn shop(scene: &mut Scene<'_>) -> Result<()> {
    for (group, members) in [("db", 2), ("migrate", 1), ("app", 2), ("web", 1), ("agent", 3)] {
        scene.expect("shop", group, members);
    }
    let groups = [
        by_ref("StatefulSet", "db"),
        by_ref("Job", "migrate"),
        by_ref("Deployment", "app"),
        by_ref("Deployment", "web"),
        by_ref("DaemonSet", "agent"),
    ];
    scene.sequence("shop", &groups).await?;
    let tiers = [slow_end(stateful_set("db", 2)), job("migrate"), slow_end(deployment("app", 2))];
    scene.create_all(tiers).await?;
    scene.create_all([slow_end(deployment("web", 1)), daemon_set("agent")]).await?;
    scene.phase("shop", "Completed").await?;
    Ok(())
}

const TIERS: [(&str, &str, u64); 3] =
    [("StatefulSet", "db", 2), ("Deployment", "app", 2), ("Deployment", "web", 1)];

/// Returns the sizes and stop notes of the three tiers that have a size.
async fn sizes(scene: &Scene<'_>) -> Result<Vec<(u64, Option<String>)>> {
    let mut sizes = Vec::new();
    for (kind, name, _) in TIERS {
        let object = scene.get(kind, name).await?;
        let note = object["metadata"]["annotations"]["rollcall.dev/before-stop"].as_str();
        sizes.push((object["spec"]["replicas"].as_u64().unwrap_or(1), note.map(str::to_owned)));
    }
    Ok(sizes)
}

async fn is_stopped(scene: &Scene<'_>) -> Result<()> {
    let notes = TIERS.map(|(_, _, size)| (0, Some(format!("{{\"replicas\":{size}}}"))));
    assert_eq!(sizes(scene).await?, notes);
    for (_, name, _) in TIERS {
        scene.pods_are(name, 0, |_| true).await?;
    }
    Ok(())
}

async fn is_started(scene: &Scene<'_>) -> Result<()> {
    assert_eq!(sizes(scene).await?, TIERS.map(|(_, _, size)| (size, None)));
    scene.phase("shop", "Completed").await?;
    Ok(())
}

/// Fails if the program scaled down a tier while pods of a later tier still existed. `stop` is the number of the stop, from 0.
fn went_backwards(scene: &Scene<'_>, stop: usize) -> Result<()> {
    let events = scene.lab.audited(&scene.namespace)?;
    let is_of = |event: &&AuditEvent, app: &str| {
        event.resource == "pods" && event.response_object["metadata"]["labels"]["app"] == app
    };
    let scaled = |kind: &str, name: &str| {
        let plural = format!("{}s", kind.to_lowercase());
        let mine = events.iter().filter(|event| event.resource == plural && event.name == name);
        let mine = mine.filter(|event| event.is_committed() && event.verb == "patch");
        let by_program = mine.filter(|event| !event.user.starts_with("system:serviceaccount:kube-system"));
        // Writes of stop and start alternate.
        by_program.map(|event| event.request_received).nth(2 * stop)
    };
    for later in 1..TIERS.len() {
        let (kind, name, _) = TIERS[later - 1];
        let at = scaled(kind, name).with_context(|| format!("{name} was not scaled"))?;
        let app = TIERS[later].1;
        let made: Vec<&AuditEvent> = events
            .iter()
            .filter(|event| is_of(event, app) && event.verb == "create" && event.stage_time < at)
            .collect();
        ensure!(!made.is_empty(), "no pods of {app} in the log");
        for pod in made {
            let uid = &pod.response_object["metadata"]["uid"];
            let gone = events.iter().any(|event| {
                event.resource == "pods"
                    && event.verb == "delete"
                    && event.is_committed()
                    && event.response_object["metadata"]["uid"] == *uid
                    && event.response_object["metadata"]["deletionGracePeriodSeconds"] == 0
                    && event.request_received <= at
            });
            ensure!(gone, "{name} was scaled while {} existed", pod.response_object["metadata"]["name"]);
        }
    }
    Ok(())
}

/// Fails unless, among pods created after `since`, all pods of each tier were ready before the next tier's first release.
fn came_in_order(scene: &Scene<'_>, since: u64) -> Result<()> {
    let history = scene.history()?;
    let lives = |app: &str| {
        let app = app.to_owned();
        history.pods.values().filter(move |life| {
            let first = life.versions.first();
            first.is_some_and(|first| first.rv > since && first.object["metadata"]["labels"]["app"] == *app)
        })
    };
    for later in 1..TIERS.len() {
        let (earlier, later) = (TIERS[later - 1], TIERS[later]);
        let released = lives(later.1).filter_map(|life| {
            let open = life.versions.iter().find(|version| !scene::has_gate(&version.object, GATE));
            open.map(|version| version.rv)
        });
        let released = released.min().with_context(|| format!("{} was never released", later.1))?;
        let ready = lives(earlier.1).filter(|life| {
            life.versions.iter().any(|version| version.rv < released && scene::is_ready(&version.object))
        });
        let ready = ready.count() as u64;
        ensure!(ready == earlier.2, "{ready} of {} were ready when {} was released", earlier.1, later.1);
    }
    Ok(())
}

/// Returns the current resourceVersion of the sequence.
async fn version(scene: &Scene<'_>) -> Result<u64> {
    let sequence = scene.get("PodSequence", "shop").await?;
    Ok(sequence["metadata"]["resourceVersion"].as_str().context("a version")?.parse()?)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shop_stops_backwards_and_starts_in_order_again_and_again() -> Result<()> {
    let mut scene = Scene::new("stop").await?;
    shop(&mut scene).await?;
    let plan = rollcall(&scene, "stop shop --dry-run")?.ends_with_code(0)?;
    let at = |text: &str| plan.text.find(text).with_context(|| format!("{text} is not in\n{}", plan.text));
    ensure!(at("deployment/web: 1 → 0")? < at("deployment/app: 2 → 0")?, "{}", plan.text);
    ensure!(at("deployment/app: 2 → 0")? < at("statefulset/db: 2 → 0")?, "{}", plan.text);
    is_started(&scene).await?;
    for round in 0..2 {
        rollcall(&scene, "stop shop")?.ends_with_code(0)?.says("daemonset/agent is not stopped")?;
        is_stopped(&scene).await?;
        went_backwards(&scene, round)?;
        scene.blocked_by("shop", "deployment/web", "WorkloadStopped").await?;
        // A second stop changes nothing, and no size is lost.
        rollcall(&scene, "stop shop")?.ends_with_code(0)?;
        is_stopped(&scene).await?;
        let since = version(&scene).await?;
        if round == 1 {
            // The last start was requested by a client whose clock is far ahead. The value is only compared, so this does no
            // harm.
            let ahead = Some("2199-01-01T00:00:00Z");
            scene.annotate("PodSequence", "shop", "podsequence.example.com/begin-again", ahead).await?;
            scene.status("shop", "begun", |status| status["begunAgain"] == "2199-01-01T00:00:00Z").await?;
        }
        rollcall(&scene, "start shop")?.ends_with_code(0)?;
        is_started(&scene).await?;
        came_in_order(&scene, since)?;
    }
    // Only one migration Job was created.
    let jobs = scene.history()?.pods.into_values().filter(|life| life.name.starts_with("migrate")).count();
    assert_eq!(jobs, 1);
    rollcall(&scene, "start shop")?.ends_with_code(0)?.says("podsequence/shop has no stopped workloads")?;
    scene.done().await
}

/// Runs the program until it has printed `lines` lines that contain `text`, then kills it. Returns whether it was killed.
fn killed_after(scene: &Scene<'_>, line: &str, text: &str, lines: usize) -> Result<bool> {
    let mut command = command(&scene.lab.cluster().kubeconfig(), scene, line);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut left = lines;
    for said in BufReader::new(child.stdout.take().context("stdout")?).lines() {
        if said?.contains(text) {
            left -= 1;
        }
        if left == 0 {
            child.kill()?;
            break;
        }
    }
    let code = child.wait()?.code();
    Ok(code.is_none())
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_every_step_and_repeated_nothing_is_lost() -> Result<()> {
    let mut scene = Scene::new("killed").await?;
    shop(&mut scene).await?;
    for _ in 0..TIERS.len() {
        killed_after(&scene, "stop shop", "→ 0", 1)?;
    }
    rollcall(&scene, "stop shop")?.ends_with_code(0)?;
    is_stopped(&scene).await?;
    let since = version(&scene).await?;
    killed_after(&scene, "start shop", "new start requested", 1)?;
    for _ in 0..TIERS.len() {
        killed_after(&scene, "start shop", "0 → ", 1)?;
    }
    rollcall(&scene, "start shop")?.ends_with_code(0)?;
    is_started(&scene).await?;
    came_in_order(&scene, since)?;
    scene.done().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_sets_back_is_said_and_the_next_tier_untouched() -> Result<()> {
    let mut scene = Scene::new("back").await?;
    for (group, members) in [("db", 1), ("web", 1)] {
        scene.expect("shop", group, members);
    }
    scene.sequence("shop", &[by_ref("StatefulSet", "db"), by_ref("Deployment", "web")]).await?;
    let template = json!({"metadata": {"annotations": {"testbed.rollcall.dev/slow-delete": "1h"}}, "spec": {"terminationGracePeriodSeconds": 30}});
    scene.create(stateful_set("db", 1)).await?;
    scene.create(deployment("web", 1).with(json!({"spec": {"template": template}}))).await?;
    scene.phase("shop", "Completed").await?;
    // A stop that exceeds its timeout names the remaining pods and the next step.
    let late = rollcall(&scene, "stop shop --timeout 2s")?.ends_with_code(3)?;
    late.says("--timeout: \"web\"")?.says("not stopped yet: pod/web-")?.says("kubectl describe pod/web-")?;
    assert_eq!(scene.get("StatefulSet", "db").await?["spec"]["replicas"], 1);
    let kubeconfig = scene.lab.cluster().kubeconfig();
    let mut again = command(&kubeconfig, &scene, "stop shop");
    let mut child = again.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    // Its first output shows that it has read the workloads.
    let mut shown = BufReader::new(child.stdout.take().context("stdout")?);
    shown.read_line(&mut String::new())?;
    scene.patch("Deployment", "web", json!({"spec": {"replicas": 2}})).await?;
    std::io::copy(&mut shown, &mut std::io::sink())?;
    let mut said = String::new();
    child.stderr.take().context("stderr")?.read_to_string(&mut said)?;
    let code = child.wait()?.code();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("deployment/web has 2 replicas again"), "{said}");
    assert_eq!(scene.get("StatefulSet", "db").await?["spec"]["replicas"], 1);
    scene.done().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_goes_tier_by_tier_and_a_tier_that_fails_ends_it() -> Result<()> {
    let mut scene = Scene::new("restart").await?;
    for (group, members) in [("db", 1), ("app", 1), ("web", 1)] {
        scene.expect("shop", group, members);
    }
    let groups = [by_ref("StatefulSet", "db"), by_ref("Deployment", "app"), by_ref("Deployment", "web")];
    scene.sequence("shop", &groups).await?;
    let spec = json!({"progressDeadlineSeconds": 4, "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}});
    scene
        .create_all([
            stateful_set("db", 1),
            deployment("app", 1).with(json!({"spec": spec})),
            deployment("web", 1),
        ])
        .await?;
    scene.phase("shop", "Completed").await?;
    let restarted_at = async |kind: &str, name: &str| -> Result<Value> {
        let object = scene.get(kind, name).await?;
        Ok(object["spec"]["template"]["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"].clone())
    };
    let since = version(&scene).await?;
    rollcall(&scene, "restart shop")?.ends_with_code(0)?.says("\"web\" is restarted")?;
    let created = |app: &str| -> Result<u64> {
        let pods = scene.history()?.pods.into_values();
        let new = pods.filter_map(|life| life.versions.first().cloned()).filter(|first| first.rv > since);
        let mine = new.filter(|first| first.object["metadata"]["labels"]["app"] == app).map(|first| first.rv);
        mine.min().with_context(|| format!("{app} was not restarted"))
    };
    ensure!(created("db")? < created("app")? && created("app")? < created("web")?, "out of order");
    let former = restarted_at("Deployment", "app").await?;
    assert!(former.is_string());

    // The quota has no space for another pod, so the new pod of `app` cannot be created.
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {"pods": "3"}}});
    scene.create(quota).await?;
    scene.until("ResourceQuota", "few", "counted", |quota| quota["status"]["used"]["pods"] == "3").await?;
    let failed = rollcall(&scene, "restart shop --timeout 60s")?.ends_with_code(1)?;
    failed.says("deployment/app does not become ready")?.says("restart shop --undo")?;
    let web = scene.get("Deployment", "web").await?;
    assert!(web["metadata"]["annotations"]["rollcall.dev/before-restart"].is_null(), "{web}");
    let app = scene.get("Deployment", "app").await?;
    assert_eq!(app["metadata"]["annotations"]["rollcall.dev/before-restart"], former);
    rollcall(&scene, "restart shop --undo")?.ends_with_code(0)?.says("deployment/app: reverted")?;
    assert_eq!(restarted_at("Deployment", "app").await?, former);
    for (kind, name) in [("StatefulSet", "db"), ("Deployment", "app"), ("Deployment", "web")] {
        let notes = &scene.get(kind, name).await?["metadata"]["annotations"]["rollcall.dev/before-restart"];
        assert!(notes.is_null(), "{name}: {notes}");
    }
    // A paused Deployment would not be rolled out.
    scene.patch("Deployment", "web", json!({"spec": {"paused": true}})).await?;
    let refused = rollcall(&scene, "restart shop")?.ends_with_code(2)?;
    refused.says(&format!("kubectl rollout resume deployment/web -n {}", scene.namespace))?;
    scene.done().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stateful_set_that_cannot_go_on_is_recognised_and_freed() -> Result<()> {
    let mut scene = Scene::new("stuck").await?;
    scene.expect("shop", "db", 2);
    scene.sequence("shop", &[by_ref("StatefulSet", "db")]).await?;
    scene.create(stateful_set("db", 2)).await?;
    scene.phase("shop", "Completed").await?;
    let never = json!({"spec": {"template": {"metadata": {"annotations": {"testbed.rollcall.dev/never-ready": "true"}}}}});
    scene.patch("StatefulSet", "db", never).await?;
    let broken = |pod: &Value| {
        !scene::is_ready(pod)
            && pod["metadata"]["annotations"]["testbed.rollcall.dev/never-ready"] == "true"
            && pod["status"]["phase"] == "Running"
    };
    scene.until("Pod", "db-1", "broken", broken).await?;
    // The template is correct again, but the StatefulSet still waits for the broken pod.
    let right = json!({"spec": {"template": {"metadata": {"annotations": {"testbed.rollcall.dev/never-ready": null}}}}});
    scene.patch("StatefulSet", "db", right).await?;
    let delete = format!("kubectl delete pod db-1 -n {}", scene.namespace);
    rollcall(&scene, "restart shop")?.ends_with_code(1)?.says(&delete)?;
    scene.kubectl(&["delete", "pod", "db-1"])?;
    rollcall(&scene, "restart shop")?.ends_with_code(0)?;
    // Both pods are unready: the StatefulSet does not delete the highest one before the lowest one is ready.
    scene.make_unready("db-0").await?;
    scene.make_unready("db-1").await?;
    scene.until("Pod", "db-1", "unready", |pod| !scene::is_ready(pod)).await?;
    scene.until("Pod", "db-0", "unready", |pod| !scene::is_ready(pod)).await?;
    rollcall(&scene, "stop shop")?.ends_with_code(1)?.says(&delete)?;
    scene.kubectl(&["delete", "pod", "db-1"])?;
    rollcall(&scene, "stop shop")?.ends_with_code(0)?;
    assert_eq!(
        scene.get("StatefulSet", "db").await?["metadata"]["annotations"]["rollcall.dev/before-stop"],
        "{\"replicas\":2}"
    );
    scene.done().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_undo_it_is_said_first_and_what_would_lose_data_is_refused() -> Result<()> {
    let mut scene = Scene::new("said").await?;
    for (group, members) in [("db", 1), ("web", 1)] {
        scene.expect("shop", group, members);
    }
    scene
        .sequence(
            "shop",
            &[by_ref("StatefulSet", "db"), by_ref("Deployment", "web"), by_ref("CronJob", "nightly")],
        )
        .await?;
    let flux = json!({"kustomize.toolkit.fluxcd.io/name": "apps", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"});
    let retention = json!({"whenScaled": "Delete", "whenDeleted": "Retain"});
    let db = stateful_set("db", 1).with(json!({"spec": {"persistentVolumeClaimRetentionPolicy": retention}}));
    let web = deployment("web", 1).with(json!({"metadata": {"labels": flux}}));
    scene.create_all([db, web, make::cron_job("nightly")]).await?;
    scene.kubectl(&["create", "job", "--from=cronjob/nightly", "nightly-now"])?;
    scene.kubectl(&["autoscale", "deployment", "web", "--min=1", "--max=3", "--cpu=50%"])?;
    scene.phase("shop", "Completed").await?;
    let refused = rollcall(&scene, "stop shop")?.ends_with_code(2)?;
    refused
        .says("statefulset/db would lose its data")?
        .says("deployment/web is scaled by HorizontalPodAutoscaler web")?
        .says("flux suspend kustomization apps -n flux-system")?;
    assert_eq!(scene.get("Deployment", "web").await?["spec"]["replicas"], 1);
    let retain = json!({"spec": {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Retain"}}});
    scene.patch("StatefulSet", "db", retain).await?;

    // A user with permission to read everything, but not to write everything.
    scene.kubectl(&["create", "serviceaccount", "reader"])?;
    scene.kubectl(&[
        "create",
        "role",
        "reader",
        "--verb=get,list,watch,patch",
        "--resource=pods,deployments.apps,podsequences.scheduling.example.com",
    ])?;
    scene.kubectl(&[
        "create",
        "role",
        "looker",
        "--verb=get,list,watch",
        "--resource=statefulsets.apps,daemonsets.apps,replicasets.apps,jobs.batch,cronjobs.batch",
    ])?;
    for role in ["reader", "looker"] {
        let account = format!("--serviceaccount={}:reader", scene.namespace);
        scene.kubectl(&["create", "rolebinding", role, &format!("--role={role}"), &account])?;
    }
    let reader = scene.lab.cluster().service_account_kubeconfig(&scene.namespace, "reader").await?;
    let refused = run_as(&reader, &scene, "stop shop")?.ends_with_code(2)?;
    refused
        .says("not allowed to patch")?
        .says("statefulsets")?
        .says("nothing was changed")?
        .says("not allowed to list horizontalpodautoscalers")?;
    assert_eq!(scene.get("Deployment", "web").await?["spec"]["replicas"], 1);

    // A stop from the middle on: the database stays, and the CronJob is suspended.
    rollcall(&scene, "stop shop --from web")?.ends_with_code(0)?;
    assert_eq!(scene.get("StatefulSet", "db").await?["spec"]["replicas"], 1);
    let nightly = scene.get("CronJob", "nightly").await?;
    assert_eq!(nightly["spec"]["suspend"], true);
    assert_eq!(nightly["metadata"]["annotations"]["rollcall.dev/before-stop"], "{\"suspend\":false}");
    let over = scene.get("Job", "nightly-now").await?;
    assert!(over["metadata"]["annotations"]["rollcall.dev/before-stop"].is_null(), "it has finished: {over}");
    rollcall(&scene, "start shop")?.ends_with_code(0)?;
    assert_eq!(scene.get("CronJob", "nightly").await?["spec"]["suspend"], false);
    scene.done().await
}
