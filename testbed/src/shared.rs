//! Clusters that the tests of a process share.

use std::sync::OnceLock;

use crate::cluster::{Capacity, Cluster, Options};

/// A cluster with three nodes for several tests. The first caller starts it; it ends with the process.
///
/// Each test has a runtime of its own, so the cluster is started on a thread with a separate runtime. A running cluster
/// needs no runtime.
pub struct SharedCluster(OnceLock<Cluster>);

impl SharedCluster {
    #[allow(clippy::new_without_default, reason = "only for statics")]
    pub const fn new() -> SharedCluster {
        SharedCluster(OnceLock::new())
    }

    pub async fn get(&'static self) -> &'static Cluster {
        let start = || self.0.get_or_init(|| std::thread::spawn(start).join().expect("the cluster's thread"));
        tokio::task::spawn_blocking(start).await.expect("the start of the shared cluster")
    }
}

/// The default shared cluster of a test process.
pub async fn shared() -> &'static Cluster {
    static CLUSTER: SharedCluster = SharedCluster::new();
    CLUSTER.get().await
}

/// Creates a fresh namespace in the cluster of [`shared`].
pub async fn namespace(prefix: &str) -> String {
    shared().await.namespace(prefix).await.expect("create a namespace")
}

fn start() -> Cluster {
    let options = Options { nodes: 3, capacity: Capacity::huge(), ..Options::default() };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.expect("a runtime").block_on(Cluster::start(options)).expect("start the shared cluster")
}
