//! Runs the agent samples on the machine's one real node.

use crate::real::{Machine, MachineTurn};
use anyhow::{Context, Result, ensure};
use rollcall_testbed::{Image, wait};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub const NAMESPACE: &str = "memory-leak-demo";
pub const IMAGE: &str = "rollcall-node:latest";
pub const LIMIT: Duration = Duration::from_secs(180);

pub struct Lab {
    machine: MachineTurn,
    pub agent: String,
    pub application: String,
    /// The same application with the shell loop as its wait, under another name.
    pub with_busybox: String,
    images: tempfile::TempDir,
}

impl std::ops::Deref for Lab {
    type Target = Machine;

    fn deref(&self) -> &Machine {
        &self.machine
    }
}

impl Lab {
    pub async fn start() -> Result<Lab> {
        let images = tempfile::tempdir()?;
        let archive = images.path().join("node.tar");
        // Builds the image before it takes the machine's one node, because a build can take minutes.
        let variables = [format!("NODE_IMG={IMAGE}"), format!("NODE_IMG_TAR={}", archive.display())];
        tokio::task::spawn_blocking(move || {
            rollcall_testbed::install_packages(&[
                ("buildah", "/usr/bin/buildah"),
                ("busybox-static", "/bin/busybox"),
            ])?;
            make(&variables)
        })
        .await??;
        let machine = crate::real::turn().await?;
        let node = &machine.node;
        node.import_image(&archive)?;
        let busybox = images.path().join("busybox.tar");
        busybox_image()?.write(&busybox)?;
        node.import_image(&busybox)?;
        // The test must not mount into the machine's own folders, so it uses the same paths below a folder of its own.
        let shared = node.shared_folder()?.display().to_string();
        let sample = |name: &str| -> Result<String> {
            let text =
                fs::read_to_string(crate::common::docs::root().join("config/samples/agent").join(name))?;
            let moved = text.replace("path: /mnt", &format!("path: {shared}/mnt"));
            let moved =
                moved.replace("rollcall.dev/marker: /mnt", &format!("rollcall.dev/marker: {shared}/mnt"));
            Ok(moved.replace("path: /var/lib/", &format!("path: {shared}/")))
        };
        let with_busybox =
            sample("deployment-busybox.yaml")?.replace(": memory-leak-app\n", ": memory-leak-app-busybox\n");
        let (agent, application) = (sample("daemonset-volume.yaml")?, sample("deployment.yaml")?);
        ensure!(agent.contains(&format!("path: {shared}/dump-storage")), "the sample's paths have changed");
        Ok(Lab { machine, agent, application, with_busybox, images })
    }

    pub fn apply(&self, manifest: &str) -> Result<()> {
        self.cluster.apply(manifest).map(drop)
    }

    /// Writes a manifest to a file, for commands that need one.
    pub fn file(&self, name: &str, manifest: &str) -> Result<String> {
        let path = self.images.path().join(name);
        fs::write(&path, manifest)?;
        Ok(path.display().to_string())
    }

    pub fn marker(&self) -> PathBuf {
        self.target().join(".ready")
    }

    /// The path `/mnt/dump` of the node.
    fn target(&self) -> PathBuf {
        self.node.shared_folder().expect("the shared folder exists").join("mnt/dump")
    }

    /// The folder that the agent mounts there.
    pub fn storage(&self) -> PathBuf {
        self.node.shared_folder().expect("the shared folder exists").join("dump-storage")
    }

    /// Counts the mounts at the target.
    pub fn mounts(&self) -> Result<usize> {
        let table = fs::read_to_string("/proc/self/mountinfo")?;
        let target = self.target().display().to_string();
        Ok(table.lines().filter(|line| line.split(' ').nth(4) == Some(&target)).count())
    }

    /// Waits until the agent has unmounted the target. Checks that no marker remains and that nothing was written below the
    /// mount.
    pub async fn bare_target(&self) -> Result<()> {
        wait::until("no mount", LIMIT, async || Ok((self.mounts()? == 0).then_some(()))).await?;
        let left: Vec<_> = fs::read_dir(self.target())?.flatten().map(|entry| entry.file_name()).collect();
        ensure!(left.is_empty(), "written before the mount existed: {left:?}");
        Ok(())
    }

    pub fn forget_dumps(&self) -> Result<()> {
        match fs::remove_dir_all(self.storage().join(NAMESPACE)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Returns the newest pod of an application that is not being deleted.
    pub fn pod_of(&self, app: &str) -> Result<String> {
        self.pods_of(app)?.pop().with_context(|| format!("no pod of {app}"))
    }

    fn pods_of(&self, app: &str) -> Result<Vec<String>> {
        let mut pods = self.cluster.read_items(NAMESPACE, &format!("pods?labelSelector=app%3D{app}"))?;
        pods.sort_by_key(|pod| pod["metadata"]["creationTimestamp"].as_str().map(str::to_owned));
        let alive = pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        Ok(alive.filter_map(|pod| pod["metadata"]["name"].as_str().map(str::to_owned)).collect())
    }

    /// Waits until the application's init container runs.
    pub async fn waits(&self, app: &str) -> Result<()> {
        wait::until(&format!("the wait of {app}"), LIMIT, async || {
            let Some(pod) = self.pods_of(app)?.pop() else { return Ok(None) };
            let pod = self.cluster.read(NAMESPACE, &format!("pod/{pod}"))?;
            let running = &pod["status"]["initContainerStatuses"][0]["state"]["running"];
            Ok((!running.is_null()).then_some(()))
        })
        .await
    }

    /// Waits until the application's dump is in the volume, and returns its pod.
    pub async fn dumped(&self, app: &str) -> Result<String> {
        let what = format!("the dump of {app}");
        let found = wait::until(&what, LIMIT, async || {
            let Some(pod) = self.pods_of(app)?.pop() else { return Ok(None) };
            let dump = self.storage().join(NAMESPACE).join(format!("{pod}.hprof"));
            Ok(fs::read_to_string(dump).ok().filter(|text| text.contains(&pod)).map(|_| pod))
        });
        match found.await {
            Ok(pod) => Ok(pod),
            Err(error) => {
                Err(error.context(self.cluster.kubectl_ok(&["describe", "pods", "-n", NAMESPACE])?))
            }
        }
    }

    pub fn rolled_out(&self) -> Result<()> {
        for workload in ["daemonset/dump-volume-manager", "deployment/memory-leak-app"] {
            self.cluster.kubectl_ok(&["rollout", "status", "-n", NAMESPACE, workload, "--timeout=90s"])?;
        }
        Ok(())
    }

    pub async fn restart_application(&self) -> Result<()> {
        self.forget_dumps()?;
        let old = self.pod_of("memory-leak-app")?;
        self.cluster.kubectl_ok(&["delete", "pod", "-n", NAMESPACE, &old])?;
        let new = self.dumped("memory-leak-app").await?;
        ensure!(new != old, "the old pod's dump");
        Ok(())
    }

    pub fn log(&self, pod: &str) -> Result<String> {
        self.cluster.kubectl_ok(&["logs", "-n", NAMESPACE, pod, "-c", "wait-for-volume-manager"])
    }

    pub fn explain(&self, pod: &str) -> Result<String> {
        let output = Command::new(env!("CARGO_BIN_EXE_rollcall"))
            .args(["explain", &format!("pod/{pod}"), "-n", NAMESPACE])
            .env("KUBECONFIG", self.cluster.kubeconfig())
            .output()?;
        ensure!(output.status.success(), "explain: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }

    pub fn delete(&self, kind: &str, names: &[&str]) -> Result<()> {
        let foreground = ["delete", "-n", NAMESPACE, kind, "--cascade=foreground", "--timeout=60s"];
        self.cluster.kubectl_ok(&[&foreground, names].concat()).map(drop)
    }

    /// Waits for exactly one mount with a marker other than `old`.
    pub async fn mounted_anew(&self, old: &str) -> Result<String> {
        let new = wait::until("a new marker in the mount", LIMIT, async || {
            let marker = fs::read_to_string(self.marker()).ok().filter(|marker| marker != old);
            Ok(marker.filter(|_| self.mounts().is_ok_and(|number| number == 1)))
        });
        match new.await {
            Ok(marker) => Ok(marker),
            Err(error) => {
                let (mounts, marker) = (self.mounts()?, fs::read_to_string(self.marker()));
                let logs = ["logs", "-n", NAMESPACE, "daemonset/dump-volume-manager"];
                let logs = self.cluster.kubectl_ok(&logs).unwrap_or_default();
                let pods = self.cluster.kubectl_ok(&["describe", "pods", "-n", NAMESPACE])?;
                Err(error.context(format!("{mounts} mounts, {marker:?}, before {old:?}\n{logs}\n{pods}")))
            }
        }
    }

    /// Sends SIGKILL to the agent, like the kernel's OOM killer, so that the agent cannot clean up.
    pub fn kill_agent(&self) -> Result<()> {
        let cluster = self.cluster.dir().file_name().context("no name")?.to_string_lossy().into_owned();
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc")?.flatten() {
            let read = |file: &str| fs::read(entry.path().join(file)).unwrap_or_default();
            let line = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
            // Only agents in containers of this cluster, not of other clusters on the machine.
            let ours = String::from_utf8_lossy(&read("cgroup")).contains(&cluster);
            if ours && line.starts_with("/bin/rollcall-node volume ") {
                found.extend(entry.file_name().to_str().and_then(|pid| pid.parse::<i32>().ok()));
            }
        }
        ensure!(found.len() == 1, "{found:?} agents");
        Ok(kill_process(Pid::from_raw(found[0]).context("a pid")?, Signal::KILL)?)
    }

    /// Creates a pod in `default` that only waits, with a folder of the node at `/agents`.
    pub fn run(&self, name: &str, args: &[&str], folder: Option<&Path>, spec: Value) -> Result<()> {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "wait", "image": IMAGE, "imagePullPolicy": "Never", "args": args}],
            },
        });
        if let Some(folder) = folder {
            pod["spec"]["volumes"] = json!([{"name": "agents", "hostPath": {"path": folder}}]);
            pod["spec"]["containers"][0]["volumeMounts"] =
                json!([{"name": "agents", "mountPath": "/agents"}]);
        }
        for (key, value) in spec.as_object().into_iter().flatten() {
            pod["spec"][key] = value.clone();
        }
        self.apply(&pod.to_string())
    }

    /// Returns the exit code of such a pod.
    pub fn exit_code(&self, pod: &str) -> Result<Option<i64>> {
        let pod = self.cluster.read("default", &format!("pod/{pod}"))?;
        Ok(pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"].as_i64())
    }
}

fn make(variables: &[String]) -> Result<()> {
    let output = Command::new("make")
        .arg("docker-build-node")
        .args(variables)
        // The dev profile builds the same code faster than a build optimised for size.
        .env("IMAGE_PROFILE", "dev")
        .current_dir(crate::common::docs::root())
        .output()
        .context("run make")?;
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(
        output.status.success(),
        "make docker-build-node ended with {}:\n{stdout}\n{stderr}",
        output.status
    );
    Ok(())
}

/// Builds a substitute for `busybox:latest`, which cannot be pulled in this test.
fn busybox_image() -> Result<Image> {
    let busybox = Path::new("/bin/busybox");
    let mut image = Image::new("docker.io/library/busybox:latest").file("/bin/busybox", busybox);
    for applet in ["sh", "sleep", "hostname", "echo", "test", "["] {
        image = image.link(&format!("/bin/{applet}"), "busybox");
    }
    Ok(image.entrypoint(&["/bin/sh"]))
}
