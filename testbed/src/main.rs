//! `rollcall-testbed`: a throw-away Kubernetes cluster for developers, and the supervisor of the tests' clusters.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use rollcall_testbed::{Capacity, Cluster, KUBERNETES_VERSION, Options, bin_dir, supervisor};
use tokio::signal::unix::{SignalKind, signal};

#[derive(Parser)]
#[command(
    name = "rollcall-testbed",
    version,
    about = "A throw-away Kubernetes on this machine, without containers"
)]
struct Cli {
    #[command(subcommand)]
    command: Sub,
}

#[derive(Subcommand)]
enum Sub {
    /// Build Kubernetes, etcd and kwok into the cache if they are missing
    Build,
    /// Print the directory of the built programs, including kubectl
    BinDir,
    /// Start a cluster and run it until Ctrl-C, or until standard input closes if it is a pipe
    Up(Up),
    /// Watch standard input until it closes, then remove the cluster in this directory (internal)
    #[command(hide = true)]
    Supervise { dir: PathBuf },
}

#[derive(clap::Args)]
struct Up {
    /// Number of kwok nodes
    #[arg(long, default_value_t = 3)]
    nodes: usize,
    /// Give each node a capacity of 100,000 pods
    #[arg(long)]
    huge: bool,
    /// Add one real node (containerd and a kubelet; needs root and Debian)
    #[arg(long)]
    real_node: bool,
    /// Also write the kubeconfig to this file
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

fn main() -> Result<()> {
    match Cli::parse().command {
        Sub::Build => bin_dir().map(|_| ()),
        Sub::BinDir => {
            println!("{}", bin_dir()?.display());
            Ok(())
        }
        Sub::Up(up) => tokio::runtime::Runtime::new()?.block_on(run_up(up)),
        Sub::Supervise { dir } => supervisor::run(&dir),
    }
}

async fn run_up(up: Up) -> Result<()> {
    // The signal handlers are installed first, so that Ctrl-C during the start also ends the cluster cleanly.
    let (mut int, mut term) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let mut stopped = std::pin::pin!(async move {
        tokio::select! {
            _ = int.recv() => {}
            _ = term.recv() => {}
            () = end_of_input() => {}
        }
    });
    let capacity = if up.huge { Capacity::huge() } else { Capacity::default() };
    let options = Options { nodes: up.nodes, capacity, ..Options::default() };
    eprintln!("starting Kubernetes {KUBERNETES_VERSION} with {} kwok nodes …", up.nodes);
    let cluster = tokio::select! {
        cluster = Cluster::start(options) => cluster?,
        () = &mut stopped => return Ok(()),
    };
    let mut node = None;
    if up.real_node {
        eprintln!("starting a real node …");
        node = tokio::select! {
            node = cluster.start_real_node("real") => Some(node?),
            () = &mut stopped => return Ok(()),
        };
    }
    let mut kubeconfig = cluster.kubeconfig();
    if let Some(file) = up.kubeconfig {
        fs::copy(&kubeconfig, &file).with_context(|| format!("write {}", file.display()))?;
        kubeconfig = fs::canonicalize(file)?;
    }
    println!("export KUBECONFIG={}", kubeconfig.display());
    eprintln!("kubectl:  {}", cluster.bin_dir().join("kubectl").display());
    eprintln!("logs:     {}", cluster.dir().join("logs").display());
    eprintln!("Press Ctrl-C to end the cluster.");
    stopped.await;
    eprintln!("ending the cluster …");
    drop(cluster);
    drop(node);
    Ok(())
}

/// Waits until standard input closes, if it is a pipe: another program uses the pipe to control our lifetime. Otherwise
/// waits forever.
async fn end_of_input() {
    if !fs::metadata("/dev/stdin").is_ok_and(|stdin| stdin.file_type().is_fifo()) {
        std::future::pending::<()>().await;
    }
    let (closed, wait) = tokio::sync::oneshot::channel();
    // Uses a plain thread, because a runtime waits for its blocking reads before it ends.
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = closed.send(());
    });
    let _ = wait.await;
}
