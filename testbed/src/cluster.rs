//! A Kubernetes control plane with kwok nodes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Once};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{Api, ObjectMeta, PostParams};
use rustix::process::Signal;
use tokio::sync::Mutex;

use crate::audit::AuditLog;
use crate::certs::Authority;
use crate::components::{self, Layout, random_hex};
use crate::kubeconfig::{self, Identity};
use crate::nodes;
use crate::process::{self, Process};
use crate::supervisor::{self, Supervisor};
use crate::{cache, wait};

/// Time limit for the start of the control plane; it takes about 6 s on two idle cores.
const START_LIMIT: Duration = Duration::from_secs(90);
/// Lifetime of a service account token, longer than any test.
const TOKEN_SECONDS: i64 = 24 * 3600;

/// The settings of a cluster.
#[derive(Debug, Clone)]
pub struct Options {
    /// The number of kwok nodes, named `node-0`, `node-1`, …
    pub nodes: usize,
    /// The capacity of each node.
    pub capacity: Capacity,
    /// Whether the audit log contains the objects of writes. Benchmarks log only metadata.
    pub audit_bodies: bool,
    /// Additional flags. They come after ours and so override them.
    pub api_server_args: Vec<String>,
    pub controller_manager_args: Vec<String>,
    pub scheduler_args: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            nodes: 1,
            capacity: Capacity::default(),
            audit_bodies: true,
            api_server_args: Vec::new(),
            controller_manager_args: Vec::new(),
            scheduler_args: Vec::new(),
        }
    }
}

/// Capacity and allocatable of a kwok node.
#[derive(Debug, Clone)]
pub struct Capacity {
    pub cpu: String,
    pub memory: String,
    pub pods: String,
}

impl Default for Capacity {
    fn default() -> Self {
        Capacity { cpu: "32".into(), memory: "256Gi".into(), pods: "110".into() }
    }
}

impl Capacity {
    /// The capacity of a node for tens of thousands of pods.
    pub fn huge() -> Self {
        Capacity { cpu: "100000".into(), memory: "1000Ti".into(), pods: "100000".into() }
    }
}

/// The parts of the control plane that a test can stop, kill or pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Component {
    Etcd,
    ApiServer,
    ControllerManager,
    Scheduler,
    Kwok,
}

#[derive(Debug)]
struct Components {
    etcd: Process,
    api_server: Process,
    controller_manager: Process,
    scheduler: Process,
    kwok: Process,
}

impl Components {
    fn get(&mut self, component: Component) -> &mut Process {
        match component {
            Component::Etcd => &mut self.etcd,
            Component::ApiServer => &mut self.api_server,
            Component::ControllerManager => &mut self.controller_manager,
            Component::Scheduler => &mut self.scheduler,
            Component::Kwok => &mut self.kwok,
        }
    }
}

/// A running Kubernetes cluster. It ends when it is dropped, or when the process ends for any reason.
pub struct Cluster {
    pub(crate) layout: Layout,
    pub(crate) authority: Authority,
    options: Options,
    admin_token: String,
    components: Mutex<Components>,
    pub(crate) supervisor: Arc<Supervisor>,
}

impl Cluster {
    /// Starts a cluster and waits until its nodes accept pods. The first call on a machine builds Kubernetes.
    pub async fn start(options: Options) -> Result<Cluster> {
        install_crypto();
        let bin = tokio::task::spawn_blocking(cache::bin_dir).await??;
        let (dir, supervisor) = tokio::task::spawn_blocking(|| {
            supervisor::sweep();
            let dir = tempfile::Builder::new().prefix(supervisor::PREFIX).tempdir()?;
            let supervisor = Supervisor::start(dir.path())?;
            // From now on, the supervisor removes the directory.
            anyhow::Ok((dir.keep(), supervisor))
        })
        .await??;
        let cluster = Cluster::prepare(Layout::new(dir, bin)?, options, supervisor)?;
        cluster.boot().await?;
        Ok(cluster)
    }

    /// Writes the files and builds the command lines. Nothing runs yet except the supervisor.
    fn prepare(layout: Layout, options: Options, supervisor: Supervisor) -> Result<Cluster> {
        let pki = layout.pki();
        std::fs::create_dir(&pki)?;
        std::fs::create_dir(layout.dir.join("logs"))?;
        let authority = Authority::create(&pki, layout.service_ip())?;
        let admin_token = random_hex::<16>()?;
        let users = [
            ("admin", "admin", "system:masters", admin_token.clone()),
            ("controller-manager", "system:kube-controller-manager", "", random_hex::<16>()?),
            ("scheduler", "system:kube-scheduler", "", random_hex::<16>()?),
            ("kwok", "system:kwok", "system:masters", random_hex::<16>()?),
        ];
        let mut csv = String::new();
        for (file, user, group, token) in &users {
            csv.push_str(&format!("{token},{user},{file},\"{group}\"\n"));
            let (file, server) = (layout.kubeconfig(file), layout.server());
            kubeconfig::write(&file, &server, Some(&pki.join("ca.crt")), "default", Identity::Token(token))?;
        }
        std::fs::write(pki.join("tokens.csv"), csv)?;
        components::write_configs(&layout, &options)?;
        let process = |spec| Process::new(spec, &layout.dir);
        let components = Components {
            etcd: process(components::etcd(&layout)),
            api_server: process(components::api_server(&layout, &options)),
            controller_manager: process(components::controller_manager(&layout, &options)),
            scheduler: process(components::scheduler(&layout, &options)),
            kwok: process(components::kwok(&layout)),
        };
        Ok(Cluster {
            layout,
            authority,
            options,
            admin_token,
            components: Mutex::new(components),
            supervisor: Arc::new(supervisor),
        })
    }

    async fn boot(&self) -> Result<()> {
        self.start_component(Component::Etcd).await?;
        self.start_api_server().await?;
        for component in [Component::ControllerManager, Component::Scheduler, Component::Kwok] {
            self.start_component(component).await?;
        }
        self.add_nodes(self.options.nodes).await?;
        // The API server rejects pods until their namespace has its service account.
        self.until("the default service account", async || {
            let accounts = Api::<ServiceAccount>::namespaced(self.client(), "default");
            Ok(accounts.get_opt("default").await?)
        })
        .await?;
        Ok(())
    }

    /// The directory of the cluster's files and logs.
    pub fn dir(&self) -> &Path {
        &self.layout.dir
    }

    /// The directory with kubectl and the other programs.
    pub fn bin_dir(&self) -> &Path {
        &self.layout.bin
    }

    /// The log of a component.
    pub async fn log(&self, component: Component) -> PathBuf {
        self.components.lock().await.get(component).log()
    }

    /// `https://127.0.0.1:PORT`
    pub fn server(&self) -> String {
        self.layout.server()
    }

    /// The path of the authority's certificate, as PEM.
    pub fn ca(&self) -> PathBuf {
        self.layout.pki().join("ca.crt")
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.layout.kubeconfig("admin")
    }

    /// A new client with administrator permissions, bound to the current runtime.
    pub fn client(&self) -> kube::Client {
        let mut config = kube::Config::new(self.server().parse().expect("our own address is a URL"));
        config.root_cert = Some(vec![self.authority.der()]);
        config.auth_info.token = Some(self.admin_token.clone().into());
        kube::Client::try_from(config).expect("a client from our own settings")
    }

    /// Runs kubectl as administrator, and returns its output regardless of its exit code.
    pub fn kubectl(&self, args: &[&str]) -> Result<Output> {
        self.kubectl_command().args(args).output().context("run kubectl")
    }

    /// Runs kubectl, and returns its standard output. Fails unless kubectl succeeds.
    pub fn kubectl_ok(&self, args: &[&str]) -> Result<String> {
        let output = self.kubectl(args)?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "kubectl {args:?} exited with {}: {stderr}", output.status);
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Applies a manifest with kubectl.
    pub fn apply(&self, manifest: &str) -> Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(self.dir())?;
        std::io::Write::write_all(&mut file, manifest.as_bytes())?;
        let path = file.path().to_str().context("the cluster's directory is not UTF-8")?;
        self.kubectl_ok(&["apply", "-f", path])?;
        Ok(())
    }

    /// A kubectl command without arguments; the caller adds them.
    pub fn kubectl_command(&self) -> Command {
        let mut command = Command::new(self.layout.bin.join("kubectl"));
        command.arg("--kubeconfig").arg(self.kubeconfig()).env_remove("KUBECONFIG");
        // Otherwise clusters that use the same port one after another would share a discovery cache.
        command.arg("--cache-dir").arg(self.dir().join("kubectl-cache"));
        command
    }

    /// Makes a process of the test end with the cluster, even if the test is killed.
    pub fn adopt<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        process::mark(command, self.dir());
        command
    }

    /// Writes a kubeconfig with a token of this service account, which must exist.
    pub async fn service_account_kubeconfig(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        self.service_account_kubeconfig_at(namespace, name, &self.server()).await
    }

    /// Like [`Cluster::service_account_kubeconfig`], for another server: a [`FaultProxy`](crate::FaultProxy).
    pub async fn service_account_kubeconfig_at(
        &self,
        namespace: &str,
        name: &str,
        server: &str,
    ) -> Result<PathBuf> {
        let token = self.service_account_token(namespace, name).await?;
        let file = self.dir().join(format!("sa-{namespace}-{name}-{}.kubeconfig", random_hex::<4>()?));
        let ca = server.starts_with("https:").then(|| self.ca());
        kubeconfig::write(&file, server, ca.as_deref(), namespace, Identity::Token(&token))?;
        Ok(file)
    }

    /// Writes an administrator's kubeconfig for another server: a [`FaultProxy`](crate::FaultProxy).
    pub fn kubeconfig_at(&self, server: &str) -> Result<PathBuf> {
        let file = self.dir().join(format!("admin-{}.kubeconfig", random_hex::<4>()?));
        let ca = server.starts_with("https:").then(|| self.ca());
        kubeconfig::write(&file, server, ca.as_deref(), "default", Identity::Token(&self.admin_token))?;
        Ok(file)
    }

    /// A token of this service account, valid for a day.
    pub async fn service_account_token(&self, namespace: &str, name: &str) -> Result<String> {
        let spec = TokenRequestSpec { expiration_seconds: Some(TOKEN_SECONDS), ..Default::default() };
        let request = TokenRequest { spec, ..Default::default() };
        let accounts = Api::<ServiceAccount>::namespaced(self.client(), namespace);
        let answer = accounts.create_token_request(name, &PostParams::default(), &request).await?;
        Ok(answer.status.context("a token request without status")?.token)
    }

    /// Creates a namespace `PREFIX-RANDOM`, waits until it accepts pods, and returns its name.
    pub async fn namespace(&self, prefix: &str) -> Result<String> {
        let name = format!("{prefix}-{}", random_hex::<4>()?);
        let client = self.client();
        let metadata = ObjectMeta { name: Some(name.clone()), ..Default::default() };
        let namespace = Namespace { metadata, ..Default::default() };
        Api::all(client.clone()).create(&PostParams::default(), &namespace).await?;
        let accounts = Api::<ServiceAccount>::namespaced(client, &name);
        self.until("the namespace's service account", async || Ok(accounts.get_opt("default").await?))
            .await?;
        Ok(name)
    }

    /// The audit log since the start of the cluster.
    pub fn audit(&self) -> AuditLog {
        AuditLog::new(self.layout.audit_log())
    }

    /// The audit log from now on.
    pub fn audit_from_now(&self) -> Result<AuditLog> {
        AuditLog::from_end(self.layout.audit_log())
    }

    /// Adds kwok nodes and waits until they accept pods; returns their names.
    pub async fn add_nodes(&self, count: usize) -> Result<Vec<String>> {
        nodes::add(self, count, &self.options.capacity).await
    }

    /// Adds a kwok node with this name and capacity, and waits until it accepts pods.
    pub async fn add_node(&self, name: &str, capacity: &Capacity) -> Result<()> {
        nodes::add_named(self, &[name.to_owned()], capacity).await
    }

    /// Deletes the Node object; its pods are then garbage-collected, as on a real cluster.
    pub async fn remove_node(&self, name: &str) -> Result<()> {
        nodes::remove(self, name).await
    }

    /// Starts a component that is not running.
    pub async fn start_component(&self, component: Component) -> Result<()> {
        self.components.lock().await.get(component).start()
    }

    /// Sends SIGTERM, and waits for the end of the process.
    pub async fn stop(&self, component: Component) -> Result<()> {
        self.components.lock().await.get(component).stop().await
    }

    /// Sends SIGKILL, and waits for the end of the process.
    pub async fn kill(&self, component: Component) -> Result<()> {
        self.components.lock().await.get(component).kill()
    }

    /// Sends SIGSTOP: the process keeps its connections open but does not answer.
    pub async fn pause(&self, component: Component) -> Result<()> {
        self.components.lock().await.get(component).signal(Signal::STOP)
    }

    /// Sends SIGCONT after [`Cluster::pause`].
    pub async fn resume(&self, component: Component) -> Result<()> {
        self.components.lock().await.get(component).signal(Signal::CONT)
    }

    /// Starts the API server and waits until it is ready.
    pub async fn start_api_server(&self) -> Result<()> {
        self.start_component(Component::ApiServer).await?;
        let client = self.client();
        self.until("the API server", async || {
            for component in [Component::Etcd, Component::ApiServer] {
                self.components.lock().await.get(component).check()?;
            }
            // The second request reads from etcd, which may have just restarted.
            for path in ["/readyz", "/api/v1/namespaces/default"] {
                let request = http::Request::get(path).body(Vec::new())?;
                if client.request_text(request).await.is_err() {
                    return Ok(None);
                }
            }
            Ok(Some(()))
        })
        .await?;
        Ok(())
    }

    pub async fn stop_api_server(&self) -> Result<()> {
        self.stop(Component::ApiServer).await
    }

    pub async fn kill_api_server(&self) -> Result<()> {
        self.kill(Component::ApiServer).await
    }

    /// Stops the API server gracefully, restarts it on the same port, and waits until it is ready.
    pub async fn restart_api_server(&self) -> Result<()> {
        self.stop_api_server().await?;
        self.start_api_server().await
    }

    pub(crate) async fn until<T>(
        &self,
        what: &str,
        probe: impl AsyncFnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        wait::until(what, START_LIMIT, probe).await.with_context(|| format!("logs: {}", self.dir().display()))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Err(error) = self.supervisor.finish() {
            eprintln!("testbed: {}: {error:#}", self.layout.dir.display());
        }
        let components = self.components.get_mut();
        for component in [
            Component::Kwok,
            Component::Scheduler,
            Component::ControllerManager,
            Component::ApiServer,
            Component::Etcd,
        ] {
            // The processes have ended; this only reaps them.
            if let Err(error) = components.get(component).kill() {
                eprintln!("testbed: {component:?}: {error:#}");
            }
        }
    }
}

/// Installs the rustls provider of the process; further calls have no effect.
fn install_crypto() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // An error means that the program has already installed a provider.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}
