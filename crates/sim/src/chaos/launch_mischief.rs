//! Faults of pods whose containers start in order, at planned times.

use super::fault::Fault;
use super::mischief::{FAULT_LASTS, Mischief};
use super::world;
use crate::actors::kubelet::STOPPED;
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::store::{Key, Stored};
use rollcall_api::names;
use rollcall_core::launch::ranks::barrier_name;
use serde_json::{Value, json};
use tokio::time::sleep;

impl Mischief {
    pub(super) async fn strike_launch(&mut self, fault: Fault) {
        if fault == Fault::KubeletAway {
            return self.stop_kubelet().await;
        }
        let Some(pod) = self.any_pod() else { return };
        match fault {
            Fault::BarrierDeleted => self.act(|cluster| cluster.delete(&barrier_key(&pod)).is_ok()),
            Fault::LaunchGateTaken => self.act(|cluster| take_gate(cluster, &pod)),
            Fault::BarrierInTheWay => {
                self.put_barrier_in_the_way(&pod).await;
                true
            }
            _ => true,
        };
    }

    async fn stop_kubelet(&mut self) {
        let node = world::NODES[self.chance.below(world::NODES.len() as u64) as usize];
        let stop = |value: Value| {
            self.act(|cluster| {
                let _ = cluster.update(&Key::new(Kind::Node, "", node), |node| {
                    node["metadata"]["annotations"][STOPPED] = value;
                });
            });
        };
        stop("true".into());
        sleep(FAULT_LASTS).await;
        stop("false".into());
    }

    async fn put_barrier_in_the_way(&self, pod: &Stored) {
        let (key, barrier) = (Key::from_object(Kind::Pod, pod), barrier_key(pod));
        let foreign = json!({ "metadata": { "namespace": barrier.namespace, "name": barrier.name }, "data": { "a": "b" } });
        self.act(|cluster| {
            let _ = cluster.delete_now(&key);
            let _ = cluster.delete(&barrier);
            let _ = cluster.create(Kind::ConfigMap, foreign);
            self.recreate_pod(cluster, pod);
        });
        sleep(FAULT_LASTS).await;
        self.act(|cluster| {
            if cluster.store.get(&barrier).is_some_and(|there| there["metadata"]["ownerReferences"].is_null())
            {
                let _ = cluster.delete(&barrier);
            }
        });
    }
}

pub fn barrier_key(pod: &Value) -> Key {
    let Key { namespace, name, .. } = Key::from_object(Kind::Pod, pod);
    Key::new(Kind::ConfigMap, &namespace, &barrier_name(&name))
}

/// Removes the launch gate. Does nothing while the ConfigMap of an earlier pod with this name exists: removing the gate
/// then would give up the order.
fn take_gate(cluster: &mut Cluster, pod: &Stored) -> bool {
    let barrier = cluster.store.get(&barrier_key(pod));
    if barrier.is_some_and(|there| there["metadata"]["ownerReferences"][0]["uid"] != pod.uid()) {
        return false;
    }
    let taken = cluster.update(&Key::from_object(Kind::Pod, pod), |pod| {
        if let Some(gates) = pod["spec"]["schedulingGates"].as_array_mut() {
            gates.retain(|gate| gate["name"] != names::LAUNCH_GATE);
        }
    });
    taken.is_ok()
}
