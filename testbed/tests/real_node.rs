//! A real kubelet runs real containers.

use std::fs;

use crate::common::{LIMIT, condition, is_ready, phase, status};
use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use rollcall_testbed::{Cluster, Options, RealNode, wait};
use serde_json::json;

fn busybox(name: &str, node: &str, script: &str) -> serde_json::Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "main",
                "image": "localhost/busybox:test",
                "imagePullPolicy": "Never",
                "command": ["sh", "-c", script],
            }],
        },
    })
}

/// Possible remains of a node on the machine: mounts, devices, addresses, routes, groups, files, processes.
fn traces(cluster: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for args in [&["address"][..], &["route", "show", "table", "all"]] {
        let output = std::process::Command::new("ip").args(args).output()?;
        let output = String::from_utf8(output.stdout)?;
        let lines = output.lines().map(str::trim);
        // Only lines about our network, because link-local addresses and lifetimes change by themselves.
        let ours = |line: &&str| line.contains("veth") || line.contains(" 10.");
        found.extend(lines.filter(ours).map(str::to_owned));
    }
    let dirs = [
        "/var/lib/cni/results",
        "/var/lib/kubelet/device-plugins",
        "/var/log/containers",
        "/run/containerd/s",
        "/run/netns",
    ];
    for dir in dirs {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        found.extend(entries.map(|entry| entry.path().display().to_string()));
    }
    for root in ["/sys/fs/cgroup", "/tmp"] {
        for entry in fs::read_dir(root)?.flatten() {
            let paths = [entry.path(), entry.path().join(cluster)];
            let ours = paths.iter().filter(|path| path.ends_with(cluster) && path.exists());
            found.extend(ours.map(|path| path.display().to_string()));
        }
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    found.extend(mounts.lines().filter(|line| line.contains(cluster)).map(str::to_owned));
    for entry in fs::read_dir("/proc")?.flatten() {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        found.extend(line.contains(cluster).then_some(line));
    }
    Ok(found)
}

async fn run_pods(cluster: &Cluster, node: &RealNode) -> Result<()> {
    let pods = Api::<Pod>::namespaced(cluster.client(), "default");
    let mut web = busybox(
        "web",
        node.name(),
        "echo serving; mkdir /www; echo hello > /www/index.html; httpd -f -p 80 -h /www",
    );
    web["spec"]["containers"][0]["readinessProbe"] =
        json!({"httpGet": {"path": "/index.html", "port": 80}, "periodSeconds": 1});
    // Connects to the API server at the address that in-cluster clients use.
    let mut client = busybox(
        "client",
        node.name(),
        "nc -w 5 $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT < /dev/null && touch /tmp/reached; sleep 1000",
    );
    client["spec"]["containers"][0]["readinessProbe"] =
        json!({"exec": {"command": ["test", "-e", "/tmp/reached"]}, "periodSeconds": 1});
    let job = busybox("fails", node.name(), "exit 3");
    for pod in [web, client, job] {
        let mut pod: Pod = serde_json::from_value(pod)?;
        pod.spec.as_mut().context("no spec")?.restart_policy = Some("Never".into());
        pods.create(&PostParams::default(), &pod).await?;
    }
    let web = wait::for_object(&pods, "web", LIMIT, is_ready).await?;
    assert_eq!(condition(&web, "ContainersReady"), "True");
    assert!(cluster.kubectl_ok(&["logs", "web"])?.contains("serving"));
    wait::for_object(&pods, "client", LIMIT, is_ready).await?;
    let failed = wait::for_object(&pods, "fails", LIMIT, |pod| phase(pod) == "Failed").await?;
    let containers = status(&failed).container_statuses.context("no container statuses")?;
    let code = containers[0].state.as_ref().and_then(|state| state.terminated.as_ref()).map(|t| t.exit_code);
    assert_eq!(code, Some(3));
    Ok(())
}

#[tokio::test]
async fn a_real_node_runs_pods_and_goes_without_a_trace() -> Result<()> {
    let before = traces("no cluster yet")?;
    let cluster = Cluster::start(Options { nodes: 0, ..Options::default() }).await?;
    // All paths, groups and networks of the cluster contain the name of its directory.
    let name = cluster.dir().file_name().context("no name")?.to_string_lossy().into_owned();
    let node = cluster.start_real_node("real").await?;
    run_pods(&cluster, &node).await?;

    let new = |traces: Vec<String>| traces.into_iter().filter(|t| !before.contains(t)).collect::<Vec<_>>();
    let during = new(traces(&name)?);
    assert!(during.len() > 20, "the test finds too few traces: {during:#?}");
    drop(cluster);
    drop(node);
    // Traces that did not exist during the test belong to another cluster, whose node started right after ours.
    let left: Vec<_> = traces(&name)?.into_iter().filter(|trace| during.contains(trace)).collect();
    assert_eq!(left, Vec::<String>::new());
    Ok(())
}
