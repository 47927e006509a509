//! `rollcall-testbed`: a throw-away Kubernetes for people, and the supervisor behind the tests' clusters.

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
    /// Build Kubernetes, etcd and kwok into the cache, if they are not there yet
    Build,
    /// Print the directory of the built programs (kubectl is one of them)
    BinDir,
    /// Start a cluster and keep it until Ctrl-C (or until standard input, if it is a pipe, closes)
    Up(Up),
    /// Guard a cluster directory until standard input closes, then remove the cluster (internal)
    #[command(hide = true)]
    Supervise { dir: PathBuf },
}

#[derive(clap::Args)]
struct Up {
    /// How many kwok nodes
    #[arg(long, default_value_t = 3)]
    nodes: usize,
    /// Make the nodes hold 100,000 pods each
    #[arg(long)]
    huge: bool,
    /// Add one real node (containerd and a kubelet; needs root and Debian)
    #[arg(long)]
    real_node: bool,
    /// Write the kubeconfig to this file, too
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
    // Before the start: a Ctrl-C meanwhile must end in order as well.
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

/// Standard input, when it is a pipe, is another program's hold on us: its end is ours. Otherwise never.
async fn end_of_input() {
    if !fs::metadata("/dev/stdin").is_ok_and(|stdin| stdin.file_type().is_fifo()) {
        std::future::pending::<()>().await;
    }
    let (closed, wait) = tokio::sync::oneshot::channel();
    // A thread, because a runtime waits for its blocking reads when it ends.
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = closed.send(());
    });
    let _ = wait.await;
}
