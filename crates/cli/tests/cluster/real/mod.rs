//! Tests with a real kubelet and containerd. They take turns on the machine's one real node.

mod agent;
mod real_node;

use anyhow::Result;
use rollcall_testbed::{Cluster, Options, RealNode};
use std::sync::{Arc, Weak};
use tokio::sync::{Mutex, OwnedMutexGuard};

/// A cluster with one real node. Starting it takes longer than most tests on it.
pub struct Machine {
    pub cluster: Cluster,
    pub node: RealNode,
}

/// A test's turn on the machine. The machine is shut down after the last test that holds or awaits a turn, so that tests with a
/// real node of their own can start.
pub struct MachineTurn {
    machine: Arc<Machine>,
    _turn: OwnedMutexGuard<()>,
}

impl std::ops::Deref for MachineTurn {
    type Target = Machine;

    fn deref(&self) -> &Machine {
        &self.machine
    }
}

static RUNNING: Mutex<Weak<Machine>> = Mutex::const_new(Weak::new());

/// Waits until no other test uses the machine. The first caller starts it.
pub async fn turn() -> Result<MachineTurn> {
    static TURN: std::sync::LazyLock<Arc<Mutex<()>>> = std::sync::LazyLock::new(Arc::default);
    let machine = {
        let mut running = RUNNING.lock().await;
        match running.upgrade() {
            Some(machine) => machine,
            None => {
                let cluster = Cluster::start(Options { nodes: 0, ..Options::default() }).await?;
                let node = cluster.start_real_node("real").await?;
                let machine = Arc::new(Machine { cluster, node });
                *running = Arc::downgrade(&machine);
                machine
            }
        }
    };
    let turn = TURN.clone().lock_owned().await;
    Ok(MachineTurn { machine, _turn: turn })
}
