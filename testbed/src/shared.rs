//! One cluster for all tests of a process.

use std::sync::OnceLock;

use crate::cluster::{Capacity, Cluster, Options};

/// The process's cluster with three nodes, started by the first caller.
///
/// Every test has a runtime of its own, so the start runs on a thread with one that belongs to no test. Nothing of
/// a cluster hangs on a runtime afterwards. The cluster ends with the process.
pub async fn shared() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    let start = || CLUSTER.get_or_init(|| std::thread::spawn(start).join().expect("the cluster's thread"));
    tokio::task::spawn_blocking(start).await.expect("the start of the shared cluster")
}

/// Creates a fresh namespace in the shared cluster.
pub async fn namespace(prefix: &str) -> String {
    shared().await.namespace(prefix).await.expect("create a namespace")
}

fn start() -> Cluster {
    let options = Options { nodes: 3, capacity: Capacity::huge(), ..Options::default() };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.expect("a runtime").block_on(Cluster::start(options)).expect("start the shared cluster")
}
