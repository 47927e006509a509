//! Faults of the cluster and of the processes, at planned times.

use super::fault::{Fault, Place, Planned};
use super::faults::{Faults, Outage};
use super::process::Handle;
use super::world::{self, World};
use crate::chance::Chance;
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::server::Shared;
use crate::store::{Author, Key, Stored};
use rollcall_api::names;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// Duration of a fault in the cluster.
pub(super) const FAULT_LASTS: Duration = Duration::from_secs(3);
/// Longer than any lease.
const PAUSED: Duration = Duration::from_secs(40);
/// How long a killed process stays down.
const LONG_AWAY: Duration = Duration::from_secs(20);
const FOREIGN_WRITES: usize = 20;

/// Injects the timed faults of a plan.
pub struct Mischief {
    pub world: &'static World,
    pub shared: Arc<Shared>,
    pub faults: Faults,
    pub processes: [Handle; 2],
    pub chance: Chance,
}

/// Performs an action as a user of the cluster, and notifies the actors.
pub fn act<T>(shared: &Arc<Shared>, action: impl FnOnce(&mut Cluster) -> T) -> T {
    let mut cluster = shared.lock();
    let others = std::mem::replace(&mut cluster.store.author, Author::User);
    let done = action(&mut cluster);
    cluster.store.author = others;
    drop(cluster);
    shared.notify();
    done
}

/// A write of a foreign actor to an object.
pub fn annotate(shared: &Arc<Shared>, key: &Key, turn: u64) {
    act(shared, |cluster| {
        let _ = cluster.update(key, |object| {
            object["metadata"]["annotations"]["example.com/turn"] = turn.to_string().into();
        });
    });
}

impl Mischief {
    /// Injects all timed faults, one after the other.
    pub async fn run(mut self, mut planned: Vec<Planned>) {
        let begun = Instant::now();
        planned.retain(|plan| plan.fault.is_timed());
        planned.sort_by_key(|plan| plan.when);
        for plan in planned {
            sleep_until(begun + Duration::from_millis(plan.when)).await;
            self.faults.struck(plan.fault);
            match plan.fault.place() {
                Place::Process => self.strike_process(plan.fault).await,
                Place::Nodes => self.strike_node(plan.fault).await,
                Place::Launch => self.strike_launch(plan.fault).await,
                Place::Reservation => self.strike_reservation(plan.fault).await,
                _ => self.strike_cluster(plan.fault).await,
            }
        }
    }

    async fn strike_process(&mut self, fault: Fault) {
        let process = &self.processes[0];
        match fault {
            Fault::Kill => process.crash.now(),
            Fault::Restart => process.stop(),
            Fault::Away => process.kill_for(LONG_AWAY),
            Fault::Pause => {
                process.pause(true);
                sleep(PAUSED).await;
                process.pause(false);
            }
            Fault::ClockJump => {
                let hour = 3_600_000;
                process.skew(self.chance.below(2 * hour) as i64 - hour as i64);
                process.crash.now();
            }
            // A second leader runs from the beginning.
            _ => {}
        }
    }

    pub(super) fn act<T>(&self, action: impl FnOnce(&mut Cluster) -> T) -> T {
        act(&self.shared, action)
    }

    /// A random pod of the sequence that faults target.
    pub(super) fn any_pod(&mut self) -> Option<Arc<Stored>> {
        let (rule, cluster) = (&self.world.rules[0], self.shared.lock());
        let pods = cluster.store.list(Kind::Pod, Some(world::NAMESPACE));
        let ours: Vec<&Arc<Stored>> = pods
            .filter(|(key, pod)| rule.group_of(&key.name, world::tier(pod)).is_some())
            .map(|(_, pod)| pod)
            .collect();
        let at = self.chance.below(ours.len() as u64) as usize;
        ours.get(at).map(|pod| Arc::clone(pod))
    }

    async fn strike_cluster(&mut self, fault: Fault) {
        match fault {
            Fault::Recreated | Fault::Evicted | Fault::Flap | Fault::GateTaken | Fault::ForeignWrites => {
                if let Some(pod) = self.any_pod() {
                    self.strike_pod(fault, &pod).await;
                }
            }
            Fault::NodeGone | Fault::ForeignTaint => self.strike_node(fault).await,
            Fault::Edited => {
                let mut edited = self.world.main_sequence()["spec"].take();
                let as_it_was = edited.clone();
                if let Some(groups) = edited["podGroups"].as_array_mut() {
                    groups.insert(1, json!({ "name": "extra", "pods": ["not-there"] }));
                }
                self.set_spec(edited);
                sleep(FAULT_LASTS).await;
                self.set_spec(as_it_was);
            }
            Fault::Unseen => {
                self.faults.set(Outage::Server, true);
                if let Some(pod) = self.any_pod() {
                    self.strike_pod(Fault::Recreated, &pod).await;
                }
                sleep(FAULT_LASTS).await;
                self.act(|cluster| cluster.store.compact());
                self.faults.set(Outage::Server, false);
            }
            Fault::Compacted => self.act(|cluster| cluster.store.compact()),
            Fault::ServerRestart => self.outage(Outage::Server).await,
            Fault::Quota => self.outage(Outage::Quota).await,
            Fault::KindAbsent => {
                self.processes[0].crash.now();
                self.outage(Outage::Kind).await;
            }
            Fault::NamespaceGone => {
                let own = Key::new(Kind::Namespace, "", names::OWN_NAMESPACE);
                self.act(|cluster| cluster.delete(&own).is_ok());
                sleep(FAULT_LASTS).await;
                self.act(world::create_own_namespace);
            }
            Fault::SequenceRecreated => {
                let (key, sequence) = (self.world.rules[0].key(), self.world.main_sequence());
                self.act(|cluster| cluster.delete(&key).is_ok());
                sleep(FAULT_LASTS).await;
                self.act(|cluster| cluster.create(Kind::PodSequence, sequence).is_ok());
            }
            Fault::BegunAgain => self.begin_again().await,
            _ => {}
        }
    }

    async fn outage(&self, outage: Outage) {
        self.faults.set(outage, true);
        sleep(FAULT_LASTS).await;
        self.faults.set(outage, false);
    }

    fn set_spec(&self, spec: Value) {
        let key = self.world.rules[0].key();
        self.act(|cluster| {
            let _ = cluster.update(&key, |sequence| sequence["spec"] = spec);
        });
    }

    async fn strike_pod(&self, fault: Fault, pod: &Stored) {
        let key = Key::from_object(Kind::Pod, pod);
        match fault {
            Fault::Recreated => self.act(|cluster| {
                let _ = cluster.delete_now(&key);
                self.recreate_pod(cluster, pod);
            }),
            Fault::Evicted => {
                self.act(|cluster| cluster.delete(&key).is_ok());
                sleep(FAULT_LASTS).await;
                self.act(|cluster| {
                    if cluster.store.get(&key).is_some_and(|there| there.uid() == pod.uid()) {
                        let _ = cluster.delete_now(&key);
                    }
                    self.recreate_pod(cluster, pod);
                });
            }
            Fault::Flap => {
                let was = self.act(|cluster| set_ready(cluster, &key, "False"));
                sleep(FAULT_LASTS).await;
                if was {
                    self.act(|cluster| set_ready(cluster, &key, "True"));
                }
            }
            Fault::GateTaken => self.act(|cluster| {
                let _ = cluster.update(&key, |pod| {
                    if let Some(gates) = pod["spec"]["schedulingGates"].as_array_mut() {
                        gates.retain(|gate| gate["name"] != names::SEQUENCE_GATE);
                    }
                });
            }),
            _ => {
                for turn in 0..FOREIGN_WRITES {
                    annotate(&self.shared, &key, turn as u64);
                    annotate(&self.shared, &self.world.rules[0].key(), turn as u64);
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    /// Re-creates a pod, unless a workload does.
    pub(super) fn recreate_pod(&self, cluster: &mut Cluster, pod: &Value) {
        if !pod["metadata"]["ownerReferences"].is_array() {
            self.world.create_pod_again(cluster, pod);
        }
    }
}

/// Sets the `Ready` condition. Returns whether it changed.
fn set_ready(cluster: &mut Cluster, key: &Key, status: &str) -> bool {
    let ready = cluster.store.get(key).is_some_and(|pod| world::has_arrived(pod));
    if ready != (status == "False") {
        return false;
    }
    let condition = json!({ "type": "Ready", "status": status, "lastTransitionTime": cluster.stamp() });
    let write = |pod: &mut Value| {
        if let Some(conditions) = pod["status"]["conditions"].as_array_mut() {
            conditions.retain(|is| is["type"] != "Ready");
            conditions.push(condition);
        }
    };
    cluster.update_status(key, write).is_ok()
}
