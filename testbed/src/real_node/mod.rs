//! A real node: containerd and a kubelet on this machine. It needs root and Debian packages.
//!
//! Everything is in the cluster's directory, except for the kernel's objects: two addresses on the loopback device, two
//! routes, a control group, mounts and network namespaces. [`cleanup`] removes all of them.

pub(crate) mod cleanup;
mod forward;
mod packages;

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::Mutex;

use crate::cluster::Cluster;
use crate::image::Image;
use crate::kubeconfig::{self, Identity};
use crate::ports::free_port;
use crate::process::{Process, Spec};
use crate::{nodes, wait};

const CONTAINERD_CONFIG: &str = include_str!("../../assets/containerd.toml");
const KUBELET_CONFIG: &str = include_str!("../../assets/kubelet.yaml");

/// Time limit for the start of a node, which takes about 12 s.
const LIMIT: Duration = Duration::from_secs(120);

/// After this time, the user is told that the test waits for another real node.
const PATIENCE: Duration = Duration::from_secs(3);

/// The objects that the node creates on the machine. They are recorded in a file before they are created, because the
/// supervisor process removes them.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Claims {
    /// `10.A.B.1`, the address of the API server for pods.
    service_ip: Ipv4Addr,
    /// `10.A.B.2`, the address of the node.
    node_ip: Ipv4Addr,
    /// `10.A.B.10`, the usual address of the cluster DNS. Here it appears only in the pods' settings.
    dns_ip: Ipv4Addr,
    service_cidr: String,
    pod_cidr: String,
    /// The name of the control group below the root of each hierarchy.
    cgroup: String,
    /// The name of the pod network.
    network: String,
    /// The previous value of `net.ipv4.ip_forward`, which the network plugin sets.
    ip_forward: String,
    /// Directories outside of ours that did not exist, and that containerd, the CNI library and the kubelet create.
    made: Vec<PathBuf>,
}

impl Claims {
    fn new(cluster: &Cluster) -> Result<Claims> {
        let [a, b, c] = cluster.layout.service_net;
        let name = cluster.dir().file_name().and_then(|name| name.to_str());
        let name = name.context("the cluster's directory has no name")?;
        Ok(Claims {
            service_ip: cluster.layout.service_ip(),
            node_ip: Ipv4Addr::new(a, b, c, 2),
            dns_ip: Ipv4Addr::new(a, b, c, 10),
            service_cidr: cluster.layout.service_cidr(),
            pod_cidr: format!("{a}.{}.{c}.0/24", b + 32),
            cgroup: name.to_owned(),
            network: name.to_owned(),
            ip_forward: fs::read_to_string(cleanup::IP_FORWARD)?.trim().to_owned(),
            made: cleanup::FOREIGN_DIRS.iter().map(PathBuf::from).filter(|dir| !dir.exists()).collect(),
        })
    }
}

/// A kubelet with containerd. It ends with its cluster.
#[derive(Debug)]
pub struct RealNode {
    name: String,
    dir: PathBuf,
    kubelet: Mutex<Process>,
    containerd: Mutex<Process>,
    _forward: forward::Forward,
}

impl Cluster {
    /// Starts a real node and waits until it accepts pods. A machine can have only one real node, so the call first
    /// waits for those of other processes to end. Installs missing Debian packages.
    ///
    /// The node has the image `localhost/busybox:test` and those added by [`RealNode::import_image`]; pods must set
    /// `imagePullPolicy: Never`. The node's label is `testbed.rollcall.dev/node: real`.
    pub async fn start_real_node(&self, name: &str) -> Result<RealNode> {
        let supervisor = self.supervisor.clone();
        let mut ready = tokio::task::spawn_blocking(move || {
            supervisor.lock_node()?;
            packages::install()
        });
        match tokio::time::timeout(PATIENCE, &mut ready).await {
            Ok(result) => result??,
            Err(_) => {
                eprintln!("testbed: waiting for another real node on this machine to end, or for packages");
                ready.await??;
            }
        }
        let dir = cleanup::node_dir(self.dir());
        fs::create_dir(&dir).context("a cluster can have one real node")?;
        let claims = Claims::new(self)?;
        fs::write(dir.join(cleanup::CLAIMS), serde_json::to_vec_pretty(&claims)?)?;
        take(&claims)?;
        let (containerd, kubelet) = self.node_processes(name, &dir, &claims)?;
        let node = RealNode {
            name: name.to_owned(),
            kubelet: Mutex::new(Process::new(kubelet, self.dir())),
            containerd: Mutex::new(Process::new(containerd, self.dir())),
            _forward: forward::Forward::start(claims.service_ip, self.layout.api_port)?,
            dir,
        };
        node.boot(self).await.with_context(|| format!("real node {name}; logs: {}", self.dir().display()))?;
        Ok(node)
    }

    /// The command lines of containerd and the kubelet, and their files.
    fn node_processes(&self, name: &str, dir: &Path, claims: &Claims) -> Result<(Spec, Spec)> {
        let at = dir.display().to_string();
        fs::create_dir(dir.join("cni"))?;
        fs::write(dir.join("cni/10-ptp.conflist"), network(dir, claims).to_string())?;
        let config = dir.join("containerd.toml");
        fs::write(&config, CONTAINERD_CONFIG.replace("DIR", &at))?;
        let args = vec![format!("--config={}", config.display()), "--log-level=info".into()];
        let containerd = Spec { name: "containerd", program: packages::CONTAINERD.into(), args };

        let config = dir.join("kubelet.yaml");
        let text = KUBELET_CONFIG
            .replace("DIR", &at)
            .replace("CGROUP", &claims.cgroup)
            .replace("ADDRESS", &claims.node_ip.to_string())
            .replace("DNS", &claims.dns_ip.to_string())
            .replace("PORT", &free_port()?.to_string());
        fs::write(&config, text)?;
        self.authority.issue_client(dir, "kubelet", &format!("system:node:{name}"), "system:nodes")?;
        let (crt, key) = (dir.join("kubelet.crt"), dir.join("kubelet.key"));
        let kubeconfig = dir.join("kubelet.kubeconfig");
        let who = Identity::Certificate(&crt, &key);
        kubeconfig::write(&kubeconfig, &self.server(), Some(&self.ca()), "default", who)?;
        let args = vec![
            format!("--config={}", config.display()),
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--root-dir={at}/kubelet"),
            format!("--cert-dir={at}/kubelet-pki"),
            format!("--hostname-override={name}"),
            format!("--node-ip={}", claims.node_ip),
            "--node-labels=testbed.rollcall.dev/node=real".into(),
        ];
        Ok((containerd, Spec { name: "kubelet", program: self.bin_dir().join("kubelet"), args }))
    }
}

impl RealNode {
    pub fn name(&self) -> &str {
        &self.name
    }

    async fn boot(&self, cluster: &Cluster) -> Result<()> {
        self.containerd.lock().await.start()?;
        wait::until("containerd", LIMIT, async || {
            self.containerd.lock().await.check()?;
            Ok(self.ctr(&["version"]).is_ok().then_some(()))
        })
        .await?;
        let pause = Image::new("localhost/pause:test").file("/bin/pause", &cluster.bin_dir().join("pause"));
        self.import(&pause.entrypoint(&["/bin/pause"]), "pause.tar")?;
        self.import(&busybox()?, "busybox.tar")?;
        self.kubelet.lock().await.start()?;
        let nodes = Api::<Node>::all(cluster.client());
        wait::until("the node", LIMIT, async || {
            self.kubelet.lock().await.check()?;
            Ok(nodes.get_opt(&self.name).await?.filter(nodes::takes_pods))
        })
        .await?;
        Ok(())
    }

    fn import(&self, image: &Image, file: &str) -> Result<()> {
        let archive = self.dir.join(file);
        image.write(&archive)?;
        self.import_image(&archive)
    }

    /// Imports a docker-archive or OCI archive: that of an [`Image`], or of `buildah push IMAGE
    /// docker-archive:FILE:NAME`.
    pub fn import_image(&self, archive: &Path) -> Result<()> {
        let archive = archive.to_str().context("the archive's path is not UTF-8")?;
        self.ctr(&["images", "import", archive])?;
        Ok(())
    }

    /// Runs containerd's client in the kubelet's namespace.
    fn ctr(&self, args: &[&str]) -> Result<String> {
        let output = Command::new("ctr")
            .arg("--address")
            .arg(self.dir.join("containerd.sock"))
            .args(["--namespace", "k8s.io"])
            .args(args)
            .output()
            .context("run ctr")?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "ctr {args:?} exited with {}: {stderr}", output.status);
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// A folder of the node with shared mount propagation, as everywhere on an ordinary machine. Volumes with
    /// `mountPropagation` must be in it.
    pub fn shared_folder(&self) -> Result<PathBuf> {
        let folder = self.dir.join("shared");
        if !folder.exists() {
            fs::create_dir(&folder)?;
            share(&folder)?;
        }
        Ok(folder)
    }

    /// Simulates a power failure: ends all processes of the node at once, and removes the state that a machine loses:
    /// mounts, and the state of containerd.
    pub async fn power_cut(&self) -> Result<()> {
        let cluster_dir = self.dir.parent().context("the node's directory has no parent")?;
        self.kubelet.lock().await.kill()?;
        cleanup::end_containers(cluster_dir, &self.dir, std::time::Instant::now() + LIMIT)?;
        self.containerd.lock().await.kill()?;
        cleanup::unmount_below(&self.dir)?;
        fs::remove_dir_all(self.dir.join("state"))?;
        let folder = self.dir.join("shared");
        if folder.exists() { share(&folder) } else { Ok(()) }
    }

    /// Restarts the node after [`RealNode::power_cut`]. The kubelet restarts its pods in an arbitrary order.
    pub async fn power_on(&self, cluster: &Cluster) -> Result<()> {
        self.boot(cluster).await
    }

    /// Stops the kubelet; containers keep running.
    pub async fn stop_kubelet(&self) -> Result<()> {
        self.kubelet.lock().await.stop().await
    }

    pub async fn start_kubelet(&self) -> Result<()> {
        self.kubelet.lock().await.start()
    }

    /// Sends SIGSTOP: the node becomes unresponsive until it is resumed.
    pub async fn pause_kubelet(&self) -> Result<()> {
        self.kubelet.lock().await.signal(Signal::STOP)
    }

    pub async fn resume_kubelet(&self) -> Result<()> {
        self.kubelet.lock().await.signal(Signal::CONT)
    }
}

/// The pod network: point-to-point links. Pods can reach only this machine.
fn network(dir: &Path, claims: &Claims) -> serde_json::Value {
    json!({
        "cniVersion": "0.4.0",
        "name": claims.network,
        "plugins": [{
            "type": "ptp",
            "ipMasq": false,
            "ipam": {
                "type": "host-local",
                "dataDir": dir.join("ipam"),
                "ranges": [[{"subnet": claims.pod_cidr}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }],
    })
}

/// Makes a folder a mount of its own, so that it can be shared even if the root mount of the machine is not.
fn share(folder: &Path) -> Result<()> {
    use rustix::mount::{MountPropagationFlags, mount_bind, mount_change};
    mount_bind(folder, folder).with_context(|| format!("mount {}", folder.display()))?;
    mount_change(folder, MountPropagationFlags::SHARED).with_context(|| format!("share {}", folder.display()))
}

/// Creates addresses, routes and control groups.
fn take(claims: &Claims) -> Result<()> {
    for address in [claims.service_ip, claims.node_ip] {
        cleanup::ip(&["address", "add", &format!("{address}/32"), "dev", "lo"])?;
    }
    // Packets for a Service without pods, or for a deleted pod, must not leave the machine.
    for cidr in [&claims.service_cidr, &claims.pod_cidr] {
        cleanup::ip(&["route", "add", "unreachable", cidr])?;
    }
    for dir in cleanup::cgroup_dirs(&claims.cgroup)? {
        fs::create_dir(&dir).with_context(|| format!("create {}", dir.display()))?;
    }
    Ok(())
}

fn busybox() -> Result<Image> {
    let mut image = Image::new("localhost/busybox:test").file("/bin/busybox", Path::new(packages::BUSYBOX));
    let output = Command::new(packages::BUSYBOX).arg("--list").output().context("run busybox")?;
    for applet in String::from_utf8(output.stdout)?.lines().filter(|name| *name != "busybox") {
        image = image.link(&format!("/bin/{applet}"), "busybox");
    }
    Ok(image.entrypoint(&["/bin/sh"]))
}
