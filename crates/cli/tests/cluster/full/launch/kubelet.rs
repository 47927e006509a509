//! Launch order on a real kubelet with containerd.

use super::pods::{ORDERED, PROPOSED, SHIPPED, container, containers, pod, spec, with_priority, workload};
use super::scene::{LaunchLab, import_busybox, ranks_of};
use crate::common::*;
use anyhow::{Context, ensure};
use rollcall_testbed::{AuditEvent, RealNode};

/// One test with one cluster and one node: the machine supports only one real node, and starting it takes longer than most
/// scenarios.
#[tokio::test]
async fn containers_start_in_order() -> Result<()> {
    let mut launch = LaunchLab::start(rollcall_testbed::Options { nodes: 0, ..Default::default() }).await?;
    let images = launch.lab.cluster().dir().join("images");
    std::fs::create_dir(&images)?;
    let node = launch.lab.cluster().start_real_node("real").await?;
    import_busybox(&node, &images)?;
    let stumbling = stumble(&launch).await?;
    every_kind(&launch).await?;
    namesakes(&launch).await?;
    who_holds_up_whom(&launch).await?;
    many(&mut launch).await?;
    the_kubelet_restarts(&launch, &node).await?;
    let pods = launch.all_ready(&stumbling, 1).await?;
    launch.judge(&stumbling, &pods[0])?;
    undeployed(&launch).await
}

/// Creates a pod whose first container fails three times before it is ready. The kubelet's back-off takes more than a minute,
/// so the result is checked at the end.
async fn stumble(launch: &LaunchLab) -> Result<String> {
    let namespace = launch.lab.cluster().namespace("stumbles").await?;
    let mut stumbles = containers(PROPOSED, &[0, 1]);
    let script = "n=$(cat /kept/n || echo 0); echo $(expr $n + 1) > /kept/n; test $n -ge 3 || exit 1; \
                  echo begun $(cat /proc/uptime); echo ready $(cat /proc/uptime); touch /ready; exec sleep 100000";
    stumbles[1]["command"] = json!(["/bin/sh", "-c", script]);
    stumbles[1]["volumeMounts"] = json!([{ "name": "kept", "mountPath": "/kept" }]);
    let mut stumbles = pod("stumbles", &spec(stumbles));
    stumbles["spec"]["volumes"] = json!([{ "name": "kept", "emptyDir": {} }]);
    launch.create(&namespace, &[stumbles])?;
    Ok(namespace)
}

/// Both spellings of the variables, all owners, and other features of pods.
async fn every_kind(launch: &LaunchLab) -> Result<()> {
    let namespace = launch.lab.cluster().namespace("kinds").await?;
    let three = spec(containers(PROPOSED, &[0, 5, -5]));
    let mut by_label = pod("by-label", &spec(containers(PROPOSED, &[0, 0, 0])));
    by_label["metadata"]["labels"] = json!({ ORDERED: "Ordered" });
    let mut by_annotation = pod("by-annotation", &spec(containers(PROPOSED, &[0, 0])));
    by_annotation["metadata"]["annotations"] = json!({ ORDERED: "Ordered" });
    let mut beside = pod("beside", &three);
    beside["spec"]["initContainers"] = json!([
        { "name": "setup", "image": super::pods::IMAGE, "imagePullPolicy": "Never", "command": ["/bin/true"] },
        { "name": "native", "image": super::pods::IMAGE, "imagePullPolicy": "Never", "restartPolicy": "Always",
          "command": ["/bin/sleep", "100000"] },
    ]);
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "job" },
        "spec": { "template": { "spec": job_spec() } },
    });
    launch.create(
        &namespace,
        &[
            pod("three", &three),
            pod("five", &spec(containers(SHIPPED, &[1, 2, 3, 4, 5]))),
            by_label,
            by_annotation,
            by_hand("by-hand"),
            beside,
            job,
        ],
    )?;
    let pods = launch.all_ready(&namespace, 7).await?;
    for pod in &pods {
        let name = pod["metadata"]["name"].as_str().context("a name")?;
        launch.judge(&namespace, pod).with_context(|| name.to_owned())?;
        let ranks: std::collections::BTreeSet<i32> = ranks_of(pod)?.into_values().collect();
        let writes = launch.writes(&namespace, name)?;
        let summary: Vec<String> = writes
            .iter()
            .map(|event| format!("{} {} {}", event.verb, event.resource, event.request_object))
            .collect();
        // Nudges that are repeated because the machine is slow do not count.
        let counted = summary.iter().filter(|write| !write.contains("launch-nudge")).count();
        ensure!(counted <= 2 * ranks.len() + 1, "{name}: {summary:#?}");
        let done = &pod["metadata"]["annotations"]["apps.kruise.io/container-launch-priority-completed"];
        ensure!(done == "true", "{name}: {}", pod["metadata"]);
        let barrier = launch.get(&namespace, &format!("configmap/{name}-barrier"))?;
        let owner = &barrier["metadata"]["ownerReferences"][0]["uid"];
        ensure!(*owner == pod["metadata"]["uid"], "{barrier}");
        ensure!(barrier["data"].as_object().is_some_and(|data| data.len() == ranks.len()), "{barrier}");
    }
    let own = &pods.iter().find(|pod| pod["metadata"]["name"] == "three").context("three")?["spec"]["containers"]
        [1]["env"];
    ensure!(
        own[0]["name"] == "OWN" && own[1]["name"] == PROPOSED && own.as_array().map(Vec::len) == Some(3),
        "{own}"
    );
    // A deleted pod leaves no ConfigMap behind.
    launch.lab.cluster().kubectl_ok(&["delete", "pods,jobs", "--all", "-n", &namespace, "--wait=true"])?;
    wait::until("no ConfigMap", LIMIT, async || {
        let left = launch.get(&namespace, "configmaps")?;
        let left = left["items"].as_array().into_iter().flatten();
        let mut names = left.filter_map(|map| map["metadata"]["name"].as_str());
        Ok((!names.any(|name| name.ends_with("-barrier"))).then_some(()))
    })
    .await
}

/// Containers that finish: the second one starts after the first one has exited with code 0.
fn job_spec() -> Value {
    let task = |name: &str| {
        // Without a probe, a container is ready as soon as it runs.
        let script = "echo begun $(cat /proc/uptime); echo ready $(cat /proc/uptime); sleep 0.5";
        json!({ "name": name, "image": super::pods::IMAGE, "imagePullPolicy": "Never", "command": ["/bin/sh", "-c", script] })
    };
    let first = with_priority(task("first"), PROPOSED, "1");
    json!({ "restartPolicy": "Never", "containers": [task("second"), first] })
}

/// A pod as printed in the proposal, with the barrier variables already set.
fn by_hand(name: &str) -> Value {
    let barrier = |key: &str| {
        let reference = json!({ "name": format!("{name}-barrier"), "key": key });
        json!({ "name": "KRUISE_CONTAINER_LAUNCH_BARRIER", "valueFrom": { "configMapKeyRef": reference } })
    };
    let (mut main, mut sidecar) = (container("main", 1), container("sidecar", 3));
    main["env"] = json!([barrier("c_0")]);
    sidecar["env"] = json!([{ "name": PROPOSED, "value": "1" }, barrier("c_1")]);
    pod(name, &spec(vec![main, sidecar]))
}

/// A re-created pod of the same name finds the ConfigMap of its predecessor, which contains all keys.
async fn namesakes(launch: &LaunchLab) -> Result<()> {
    let namespace = launch.lab.cluster().namespace("namesakes").await?;
    launch.create(&namespace, &[workload("StatefulSet", "db", 1, &spec(containers(PROPOSED, &[0, 1])))])?;
    let mut before = String::new();
    for round in 0..4 {
        let pods = launch.all_ready(&namespace, 1).await?;
        let uid = pods[0]["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        ensure!(uid != before, "the same pod");
        launch.judge(&namespace, &pods[0]).with_context(|| format!("round {round}"))?;
        before = uid;
        launch.lab.cluster().kubectl_ok(&["delete", "pod", "-n", &namespace, "db-0", "--wait=true"])?;
    }
    launch.lab.cluster().kubectl_ok(&[
        "delete",
        "statefulset",
        "db",
        "-n",
        &namespace,
        "--cascade=foreground",
    ])?;
    Ok(())
}

/// The output of `explain` while a container holds up the others, and when a foreign ConfigMap has the name.
async fn who_holds_up_whom(launch: &LaunchLab) -> Result<()> {
    let namespace = launch.lab.cluster().namespace("explained").await?;
    let mut stuck = containers(PROPOSED, &[0, 1]);
    stuck[1]["readinessProbe"]["exec"]["command"] = json!(["/bin/false"]);
    let theirs = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "taken-barrier" }, "data": { "c_1": "true", "c_0": "true" } });
    launch.create(&namespace, &[theirs])?;
    launch.create(
        &namespace,
        &[pod("stuck", &spec(stuck)), pod("taken", &spec(containers(PROPOSED, &[0, 1])))],
    )?;
    wait::until("explain to name the unready container", LIMIT, async || {
        let said = launch.explain(&namespace, "stuck")?;
        let first = "stuck starts its containers in order: 0 of 2 ranks are ready";
        let waits =
            said.contains("rank 0 (c0) waits for c1") && said.contains("rank 1 (c1) has not been ready for");
        Ok((said.starts_with(first) && waits && said.contains("running but not ready")).then_some(()))
    })
    .await
    .with_context(|| launch.explain(&namespace, "stuck").unwrap_or_default())?;
    wait::until("the event about the foreign ConfigMap", LIMIT, async || {
        let events = launch.lab.cluster().kubectl_ok(&["events", "-n", &namespace, "--for", "pod/taken"])?;
        Ok(events.contains("ConfigMap taken-barrier belongs to no pod").then_some(()))
    })
    .await?;
    let said = launch.explain(&namespace, "taken")?;
    ensure!(
        said.starts_with("taken is held: the ConfigMap taken-barrier already exists and belongs to no pod"),
        "{said}"
    );
    let kept = launch.get(&namespace, "configmap/taken-barrier")?;
    ensure!(kept["data"] == json!({ "c_1": "true", "c_0": "true" }), "{kept}");
    launch.lab.cluster().kubectl_ok(&["delete", "configmap", "taken-barrier", "-n", &namespace])?;
    launch.lab.cluster().kubectl_ok(&["delete", "pod", "stuck", "-n", &namespace])?;
    let pods = launch.all_ready(&namespace, 1).await?;
    launch.judge(&namespace, &pods[0])?;
    launch.lab.cluster().kubectl_ok(&["delete", "namespace", &namespace, "--wait=false"]).map(drop)
}

/// A Deployment of twenty pods, while the controller is killed repeatedly.
async fn many(launch: &mut LaunchLab) -> Result<()> {
    let namespace = launch.lab.cluster().namespace("many").await?;
    let mut spec = spec(containers(PROPOSED, &[0, 2, 1]));
    spec["terminationGracePeriodSeconds"] = json!(0);
    launch.create(&namespace, &[workload("Deployment", "web", 20, &spec)])?;
    let mut seen = 0;
    for _ in 0..6 {
        // Killed after some more writes, so at another step each time.
        seen = wait::until("more writes", LIMIT, async || {
            let writes =
                launch.lab.events(|event| event.namespace == namespace && event.user == ACCOUNT)?.len();
            Ok((writes > seen).then_some(writes))
        })
        .await?;
        launch.restart().await?;
    }
    for pod in launch.all_ready(&namespace, 20).await? {
        launch.judge(&namespace, &pod)?;
    }
    launch
        .lab
        .cluster()
        .kubectl_ok(&["delete", "deployment", "web", "-n", &namespace, "--cascade=foreground"])
        .map(drop)
}

/// The kubelet is down while the second rank is released.
async fn the_kubelet_restarts(launch: &LaunchLab, node: &RealNode) -> Result<()> {
    let namespace = launch.lab.cluster().namespace("restarted").await?;
    let mut slow = containers(PROPOSED, &[0, 2, 1]);
    slow[1] = with_priority(container("c1", 20), PROPOSED, "2");
    launch.create(&namespace, &[pod("slow", &spec(slow))])?;
    wait::until("the first container", LIMIT, async || {
        let pod = launch.get(&namespace, "pod/slow")?;
        let statuses = pod["status"]["containerStatuses"].as_array().cloned().unwrap_or_default();
        Ok(statuses.iter().any(|status| !status["state"]["running"].is_null()).then_some(()))
    })
    .await?;
    node.stop_kubelet().await?;
    node.start_kubelet().await?;
    launch.all_ready(&namespace, 1).await?;
    reported_before_opened(launch, &namespace)?;
    launch.lab.cluster().kubectl_ok(&["delete", "pod", "slow", "-n", &namespace]).map(drop)
}

/// Uses the reports of the kubelet, not the logs of the containers: a restarted kubelet may report a container as ready before
/// it has run the probe.
fn reported_before_opened(launch: &LaunchLab, namespace: &str) -> Result<()> {
    let events = launch.lab.events(|event| event.namespace == namespace && event.is_committed())?;
    let says_ready = |event: &&AuditEvent| {
        let statuses = event.request_object["status"]["containerStatuses"].as_array();
        let is_ready = |status: &Value| status["name"] == "c1" && status["ready"] == true;
        event.resource == "pods"
            && event.subresource == "status"
            && statuses.is_some_and(|all| all.iter().any(is_ready))
    };
    let opens = |event: &&AuditEvent| {
        event.resource == "configmaps"
            && event.user == ACCOUNT
            && event.request_object.to_string().contains("c_1")
    };
    let ready = events.iter().find(says_ready).context("c1 is never reported ready")?;
    let opened = events.iter().find(opens).context("the second rank is never opened")?;
    ensure!(
        ready.stage_time <= opened.stage_time,
        "opened at {}, before the report: {ready:?}",
        opened.stage_time
    );
    Ok(())
}

/// `make undeploy` during a launch: no pod stays blocked, and new pods are created without Rollcall.
async fn undeployed(launch: &LaunchLab) -> Result<()> {
    let namespace = launch.lab.cluster().namespace("undeployed").await?;
    let mut stuck = containers(PROPOSED, &[0, 2, 1]);
    stuck[1]["readinessProbe"]["exec"]["command"] = json!(["/bin/false"]);
    launch.create(&namespace, &[pod("stuck", &spec(stuck.clone()))])?;
    wait::until("the first container", LIMIT, async || {
        let pod = launch.get(&namespace, "pod/stuck")?;
        Ok(pod["status"]["containerStatuses"].to_string().contains("startedAt").then_some(()))
    })
    .await?;
    let output = std::process::Command::new("make")
        .arg("undeploy")
        .arg(format!("KUBECTL={}", launch.lab.cluster().bin_dir().join("kubectl").display()))
        .env("KUBECONFIG", launch.lab.cluster().kubeconfig())
        .current_dir(crate::common::lab::repository(""))
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    launch.create(&namespace, &[pod("after", &spec(stuck))])?;
    wait::until("all containers run", LIMIT, async || {
        let list = launch.get(&namespace, "pods")?;
        let pods = list["items"].as_array().into_iter().flatten();
        let running = pods.filter(|pod| {
            let statuses = pod["status"]["containerStatuses"].as_array().cloned().unwrap_or_default();
            statuses.len() == 3 && statuses.iter().all(|status| !status["state"]["running"].is_null())
        });
        Ok((running.count() == 2).then_some(()))
    })
    .await
}
