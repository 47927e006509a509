//! A cluster with Full mode and launch order; the controller runs on this machine.

use crate::common::*;
use anyhow::{Context, ensure};
use rollcall_api::names::LAUNCH_CONFIGURATION;
use rollcall_core::launch::ranks::Spelling;
use rollcall_testbed::{AuditEvent, Image, RealNode};
use std::collections::BTreeMap;
use std::path::Path;

pub struct LaunchLab {
    pub lab: Lab,
    pub controller: Controller,
}

impl LaunchLab {
    /// Installs it as described in the README.
    pub async fn start(options: rollcall_testbed::Options) -> Result<LaunchLab> {
        let lab = Lab::full(options).await?;
        lab.apply_file("config/webhook/launch.yaml")?;
        let controller = Controller::start(&lab, Options::default()).await?;
        lab.call_launch_webhook(controller.webhook)?;
        let launch = LaunchLab { lab, controller };
        launch.in_force().await?;
        Ok(launch)
    }

    /// Kills the controller and starts another one at the same address.
    pub async fn restart(&mut self) -> Result<()> {
        self.controller.kill()?;
        let options = Options { webhook: Some(self.controller.webhook), ..Options::default() };
        self.controller = Controller::start(&self.lab, options).await?;
        Ok(())
    }

    /// Waits until the certificate is served and trusted.
    pub async fn in_force(&self) -> Result<()> {
        let namespace = self.lab.cluster().namespace("in-force").await?;
        let pod = super::pods::pod(
            "p",
            &super::pods::spec(super::pods::containers(super::pods::PROPOSED, &[0, 1])),
        );
        wait::until(&format!("{LAUNCH_CONFIGURATION} to take effect"), LIMIT, async || {
            Ok(self.dry_run(&namespace, &pod).ok().map(drop))
        })
        .await
    }

    /// Returns the pod as it would be created.
    pub fn dry_run(&self, namespace: &str, pod: &Value) -> Result<Value> {
        let file = self.file(pod)?;
        let create = ["create", "-n", namespace, "-f", &file, "--dry-run=server", "-o", "json"];
        Ok(serde_json::from_str(&self.lab.cluster().kubectl_ok(&create)?)?)
    }

    pub fn create(&self, namespace: &str, objects: &[Value]) -> Result<()> {
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
        let file = self.file(&list)?;
        self.lab.cluster().kubectl_ok(&["create", "-n", namespace, "-f", &file]).map(drop)
    }

    fn file(&self, object: &Value) -> Result<String> {
        let path = self.lab.cluster().dir().join(format!("{:?}.json", std::thread::current().id()));
        std::fs::write(&path, object.to_string())?;
        Ok(path.display().to_string())
    }

    pub fn get(&self, namespace: &str, what: &str) -> Result<Value> {
        self.lab.cluster().read(namespace, what)
    }

    pub fn explain(&self, namespace: &str, pod: &str) -> Result<String> {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_rollcall"))
            .args(["explain", &format!("pod/{pod}"), "-n", namespace])
            .env("KUBECONFIG", self.lab.cluster().kubeconfig())
            .env("NO_COLOR", "1")
            .output()?;
        ensure!(output.status.success(), "explain: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Waits until this many pods exist, and all their containers are ready or have finished.
    pub async fn all_ready(&self, namespace: &str, number: usize) -> Result<Vec<Value>> {
        let what = format!("{number} ready pods in {namespace}");
        let ready = wait::until(&what, LIMIT * 2, async || {
            let list = self.get(namespace, "pods")?;
            let pods: Vec<Value> = list["items"].as_array().cloned().unwrap_or_default();
            let alive: Vec<Value> =
                pods.into_iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).collect();
            let ready = alive.iter().filter(|pod| is_through(pod)).count();
            Ok((ready == number && alive.len() == number).then_some(alive))
        });
        match ready.await {
            Ok(pods) => Ok(pods),
            Err(error) => {
                let pods = self.lab.cluster().kubectl_ok(&["describe", "pods", "-n", namespace])?;
                let tail: String =
                    self.controller.log().lines().rev().take(60).collect::<Vec<_>>().join("\n");
                Err(error.context(pods).context(tail))
            }
        }
    }

    /// Returns the times in seconds when each container started and became ready, from the containers' logs.
    pub fn times(&self, namespace: &str, pod: &Value) -> Result<BTreeMap<String, (f64, f64)>> {
        let pod_name = pod["metadata"]["name"].as_str().context("a name")?;
        let containers = pod["spec"]["containers"].as_array().context("containers")?;
        let names = containers.iter().filter_map(|container| container["name"].as_str());
        let time = |name: &str| -> Result<(f64, f64)> {
            let log = self.lab.cluster().kubectl_ok(&["logs", "-n", namespace, pod_name, "-c", name])?;
            let at = |word: &str| -> Result<f64> {
                let line = log.lines().find(|line| line.starts_with(word));
                let line = line.with_context(|| format!("{pod_name}/{name} does not say {word}: {log}"))?;
                Ok(line.split(' ').nth(1).context("a time")?.parse()?)
            };
            Ok((at("begun")?, at("ready")?))
        };
        names.map(|name| Ok((name.to_owned(), time(name)?))).collect()
    }

    /// Checks invariant S5 from the logs: no container starts before all containers of higher ranks are ready. Returns the
    /// longest step.
    pub fn judge(&self, namespace: &str, pod: &Value) -> Result<f64> {
        let times = self.times(namespace, pod)?;
        let ranks = ranks_of(pod)?;
        ensure!(ranks.len() == times.len(), "{ranks:?}");
        let mut longest = 0f64;
        for (name, rank) in &ranks {
            let above: Vec<f64> =
                ranks.iter().filter(|(_, other)| *other > rank).map(|(other, _)| times[other].1).collect();
            let Some(last) = above.iter().copied().reduce(f64::max) else { continue };
            let begun = times[name].0;
            ensure!(
                begun >= last,
                "{name} started at {begun}, before higher ranks were ready at {last}: {times:?}"
            );
            longest = longest.max(begun - last);
        }
        Ok(longest)
    }

    /// Returns the controller's writes to a pod and to its ConfigMap.
    pub fn writes(&self, namespace: &str, pod: &str) -> Result<Vec<AuditEvent>> {
        let barrier = format!("{pod}-barrier");
        self.lab.events(|event| {
            let target = match event.resource.as_str() {
                "pods" => pod,
                "configmaps" => &barrier,
                _ => return false,
            };
            let name = match event.name.is_empty() {
                true => event.request_object["metadata"]["name"].as_str().unwrap_or_default(),
                false => &event.name,
            };
            event.namespace == namespace && event.user == ACCOUNT && event.is_committed() && name == target
        })
    }
}

/// Returns the priority of each container, from its barrier variable.
pub fn ranks_of(pod: &Value) -> Result<BTreeMap<String, i32>> {
    let containers = pod["spec"]["containers"].as_array().context("containers")?;
    let rank = |container: &Value| {
        let env = container["env"].as_array().into_iter().flatten();
        let mut found = env.filter_map(|variable| {
            let spelling = Spelling::of_barrier(variable["name"].as_str()?)?;
            spelling.priority_of_key(variable["valueFrom"]["configMapKeyRef"]["key"].as_str()?)
        });
        let name = container["name"].as_str().context("a name")?;
        Ok((
            name.to_owned(),
            found.next_back().with_context(|| format!("{name} has no barrier: {container}"))?,
        ))
    };
    containers.iter().map(rank).collect()
}

fn is_through(pod: &Value) -> bool {
    let statuses = pod["status"]["containerStatuses"].as_array().cloned().unwrap_or_default();
    let number = pod["spec"]["containers"].as_array().map_or(0, Vec::len);
    let through = |status: &Value| status["ready"] == true || status["state"]["terminated"]["exitCode"] == 0;
    statuses.len() == number && statuses.iter().all(through)
}

/// Imports a substitute for `busybox:latest`, which cannot be pulled in this test.
pub fn import_busybox(node: &RealNode, dir: &Path) -> Result<()> {
    rollcall_testbed::install_packages(&[("busybox-static", "/bin/busybox")])?;
    let mut image = Image::new(super::pods::IMAGE).file("/bin/busybox", Path::new("/bin/busybox"));
    for applet in ["sh", "sleep", "cat", "echo", "test", "touch", "true", "false", "expr"] {
        image = image.link(&format!("/bin/{applet}"), "busybox");
    }
    let archive = dir.join("busybox.tar");
    image.entrypoint(&["/bin/sh"]).write(&archive)?;
    node.import_image(&archive)
}
