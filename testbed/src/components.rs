//! The command lines of the control plane.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::cluster::Options;
use crate::ports::free_port;
use crate::process::Spec;

const AUDIT_POLICY: &str = include_str!("../assets/audit-policy.yaml");
const KWOK_CONFIG: &str = include_str!("../assets/kwok.yaml");

/// The paths, ports and networks of a cluster.
#[derive(Debug, Clone)]
pub struct Layout {
    pub dir: PathBuf,
    pub bin: PathBuf,
    pub etcd_port: u16,
    pub etcd_peer_port: u16,
    pub api_port: u16,
    /// The first three bytes of the service network, a /24.
    pub service_net: [u8; 3],
}

impl Layout {
    pub fn new(dir: PathBuf, bin: PathBuf) -> Result<Layout> {
        let noise = random::<2>()?;
        Ok(Layout {
            dir,
            bin,
            etcd_port: free_port()?,
            etcd_peer_port: free_port()?,
            api_port: free_port()?,
            // Each cluster has a network of its own, because a real node puts its first address on this machine's
            // loopback device.
            service_net: [10, 96 + noise[0] % 32, noise[1]],
        })
    }

    pub fn pki(&self) -> PathBuf {
        self.dir.join("pki")
    }

    pub fn audit_log(&self) -> PathBuf {
        self.dir.join("audit.log")
    }

    /// The address of the `kubernetes` Service.
    pub fn service_ip(&self) -> Ipv4Addr {
        let [a, b, c] = self.service_net;
        Ipv4Addr::new(a, b, c, 1)
    }

    pub fn service_cidr(&self) -> String {
        let [a, b, c] = self.service_net;
        format!("{a}.{b}.{c}.0/24")
    }

    pub fn kubeconfig(&self, user: &str) -> PathBuf {
        self.dir.join(format!("{user}.kubeconfig"))
    }

    pub fn server(&self) -> String {
        format!("https://127.0.0.1:{}", self.api_port)
    }

    fn spec(&self, name: &'static str, args: Vec<String>) -> Spec {
        Spec { name, program: self.bin.join(name), args }
    }
}

/// Writes the audit policy and kwok's stages.
pub fn write_configs(layout: &Layout, options: &Options) -> Result<()> {
    let level = if options.audit_bodies { "RequestResponse" } else { "Metadata" };
    fs::write(layout.dir.join("audit-policy.yaml"), AUDIT_POLICY.replace("BODIES", level))?;
    fs::write(layout.dir.join("kwok.yaml"), KWOK_CONFIG)?;
    Ok(())
}

pub fn etcd(layout: &Layout) -> Spec {
    let client = format!("http://127.0.0.1:{}", layout.etcd_port);
    let peer = format!("http://127.0.0.1:{}", layout.etcd_peer_port);
    let args = vec![
        format!("--data-dir={}", path(&layout.dir.join("etcd"))),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        // Data need not survive a power failure, and tens of thousands of pods must fit.
        "--unsafe-no-fsync".into(),
        "--quota-backend-bytes=8589934592".into(),
        "--log-level=warn".into(),
    ];
    layout.spec("etcd", args)
}

pub fn api_server(layout: &Layout, options: &Options) -> Spec {
    let file = |name: &str| path(&layout.pki().join(name));
    let mut args = vec![
        format!("--etcd-servers=http://127.0.0.1:{}", layout.etcd_port),
        "--bind-address=127.0.0.1".into(),
        "--advertise-address=127.0.0.1".into(),
        "--endpoint-reconciler-type=none".into(),
        format!("--secure-port={}", layout.api_port),
        format!("--tls-cert-file={}", file("apiserver.crt")),
        format!("--tls-private-key-file={}", file("apiserver.key")),
        format!("--client-ca-file={}", file("ca.crt")),
        "--service-account-issuer=https://kubernetes.default.svc".into(),
        format!("--service-account-key-file={}", file("sa.pub")),
        format!("--service-account-signing-key-file={}", file("sa.key")),
        format!("--service-cluster-ip-range={}", layout.service_cidr()),
        "--authorization-mode=Node,RBAC".into(),
        format!("--token-auth-file={}", file("tokens.csv")),
        "--allow-privileged=true".into(),
        format!("--cert-dir={}", file("")),
        format!("--audit-policy-file={}", path(&layout.dir.join("audit-policy.yaml"))),
        format!("--audit-log-path={}", path(&layout.audit_log())),
        // In blocking mode, an event is written before the client gets the response. The log is never rotated (the
        // number is MiB).
        "--audit-log-mode=blocking".into(),
        "--audit-log-maxsize=1000000".into(),
        "--kubelet-preferred-address-types=InternalIP".into(),
        // Requests to the Service of a webhook go directly to its pods, because there is no kube-proxy.
        "--enable-aggregator-routing=true".into(),
        "--profiling=false".into(),
        // The limits of the API server must not affect benchmarks.
        "--max-requests-inflight=3000".into(),
        "--max-mutating-requests-inflight=1500".into(),
        // Time until a terminating server closes its watches; otherwise it waits for them for a minute.
        "--shutdown-watch-termination-grace-period=1s".into(),
    ];
    args.extend(options.api_server_args.iter().cloned());
    layout.spec("kube-apiserver", args)
}

pub fn controller_manager(layout: &Layout, options: &Options) -> Spec {
    let mut args = client_args(layout, "controller-manager");
    args.extend([
        // Otherwise nodes keep the not-ready taint.
        "--use-service-account-credentials=true".into(),
        format!("--service-account-private-key-file={}", path(&layout.pki().join("sa.key"))),
        format!("--root-ca-file={}", path(&layout.pki().join("ca.crt"))),
        // The controller only writes a hint for kubelets to every node, several times while nodes are added.
        "--controllers=*,-ttl-controller".into(),
        "--concurrent-replicaset-syncs=20".into(),
        "--concurrent-job-syncs=20".into(),
    ]);
    args.extend(options.controller_manager_args.iter().cloned());
    layout.spec("kube-controller-manager", args)
}

pub fn scheduler(layout: &Layout, options: &Options) -> Spec {
    let mut args = client_args(layout, "scheduler");
    args.extend(options.scheduler_args.iter().cloned());
    layout.spec("kube-scheduler", args)
}

fn client_args(layout: &Layout, user: &str) -> Vec<String> {
    let kubeconfig = path(&layout.kubeconfig(user));
    vec![
        format!("--kubeconfig={kubeconfig}"),
        format!("--authentication-kubeconfig={kubeconfig}"),
        format!("--authorization-kubeconfig={kubeconfig}"),
        "--leader-elect=false".into(),
        "--secure-port=0".into(),
        "--profiling=false".into(),
        "--kube-api-qps=1000".into(),
        "--kube-api-burst=1000".into(),
    ]
}

pub fn kwok(layout: &Layout) -> Spec {
    let args = vec![
        format!("--kubeconfig={}", path(&layout.kubeconfig("kwok"))),
        format!("--config={}", path(&layout.dir.join("kwok.yaml"))),
    ];
    layout.spec("kwok", args)
}

fn path(path: &Path) -> String {
    path.display().to_string()
}

pub fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut file = fs::File::open("/dev/urandom").context("open /dev/urandom")?;
    std::io::Read::read_exact(&mut file, &mut bytes)?;
    Ok(bytes)
}

pub fn random_hex<const N: usize>() -> Result<String> {
    Ok(random::<N>()?.iter().map(|byte| format!("{byte:02x}")).collect())
}
