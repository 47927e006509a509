//! What happens to the cluster itself, and to the processes, at times that the plan names.

use super::fault::{Fault, Place, Planned};
use super::faulty::Faults;
use super::process::Handle;
use super::world;
use crate::chance::Chance;
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::server::Shared;
use crate::store::{Author, Key};
use rollcall_api::names;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// How long what is taken away stays away.
const AWAY: Duration = Duration::from_secs(3);
/// Longer than any lease.
const PAUSED: Duration = Duration::from_secs(40);
const FOREIGN_WRITES: usize = 20;

/// Does what is planned, in its order.
pub async fn make(
    planned: Vec<Planned>,
    shared: Arc<Shared>,
    faults: Faults,
    processes: [Handle; 2],
    seed: u64,
) {
    let begun = Instant::now();
    let mut planned: Vec<Planned> = planned
        .into_iter()
        .filter(|plan| matches!(plan.fault.place(), Place::Process | Place::Cluster))
        .collect();
    planned.sort_by_key(|plan| plan.when);
    let mut chance = Chance::seeded(seed ^ 0x6d69_7363);
    for plan in planned {
        sleep_until(begun + Duration::from_millis(plan.when)).await;
        faults.struck(plan.fault);
        match plan.fault.place() {
            Place::Process => process(plan.fault, &processes[0], &mut chance).await,
            _ => cluster(plan.fault, &shared, &mut chance).await,
        }
    }
}

async fn process(fault: Fault, process: &Handle, chance: &mut Chance) {
    match fault {
        Fault::Kill => process.crash.now(),
        Fault::Restart => process.stop(),
        Fault::Pause => {
            process.pause(true);
            sleep(PAUSED).await;
            process.pause(false);
        }
        Fault::ClockJump => {
            let hour = 3_600_000;
            process.skew(chance.below(2 * hour) as i64 - hour as i64);
            process.crash.now();
        }
        // A second leader is there from the beginning.
        _ => {}
    }
}

/// Does something as a user of the cluster, and lets the actors know.
fn act<T>(shared: &Arc<Shared>, deed: impl FnOnce(&mut Cluster) -> T) -> T {
    let mut cluster = shared.lock();
    let others = std::mem::replace(&mut cluster.store.author, Author::User);
    let done = deed(&mut cluster);
    cluster.store.author = others;
    drop(cluster);
    shared.notify();
    done
}

fn any_pod(chance: &mut Chance) -> &'static str {
    let (_, pods) = world::GROUPS[chance.below(world::GROUPS.len() as u64) as usize];
    pods[chance.below(pods.len() as u64) as usize]
}

async fn cluster(fault: Fault, shared: &Arc<Shared>, chance: &mut Chance) {
    let pod = any_pod(chance);
    match fault {
        Fault::Recreated => act(shared, |cluster| {
            let _ = cluster.delete_now(&world::pod_key(pod));
            world::create_pod(cluster, pod);
        }),
        Fault::Evicted => {
            act(shared, |cluster| cluster.delete(&world::pod_key(pod)).is_ok());
            sleep(AWAY).await;
            act(shared, |cluster| {
                let _ = cluster.delete_now(&world::pod_key(pod));
                world::create_pod(cluster, pod);
            });
        }
        Fault::Flap => {
            let was = act(shared, |cluster| set_ready(cluster, pod, "False"));
            sleep(AWAY).await;
            if was {
                act(shared, |cluster| set_ready(cluster, pod, "True"));
            }
        }
        Fault::NodeGone => {
            let node = world::NODES[chance.below(world::NODES.len() as u64) as usize];
            let lost = act(shared, |cluster| take_node(cluster, node));
            sleep(AWAY).await;
            act(shared, |cluster| {
                world::create_node(cluster, node);
                lost.iter().for_each(|pod| world::create_pod(cluster, pod));
            });
        }
        Fault::GateTaken => act(shared, |cluster| {
            let _ = cluster.update(&world::pod_key(pod), |pod| pod["spec"]["schedulingGates"] = Value::Null);
        }),
        Fault::ForeignWrites => {
            for turn in 0..FOREIGN_WRITES {
                act(shared, |cluster| {
                    for key in [world::pod_key(pod), world::sequence_key()] {
                        let _ = cluster.update(&key, |object| {
                            object["metadata"]["annotations"]["example.com/turn"] = turn.to_string().into();
                        });
                    }
                });
                sleep(Duration::from_millis(100)).await;
            }
        }
        Fault::ForeignTaint => {
            let node = Key::new(Kind::Node, "", world::NODES[0]);
            let set = |shared: &Arc<Shared>, taints: Value| {
                act(shared, |cluster| {
                    let _ = cluster.update(&node, |node| node["spec"]["taints"] = taints);
                });
            };
            set(shared, json!([{ "key": "example.com/foreign", "effect": "NoSchedule" }]));
            sleep(AWAY).await;
            set(shared, Value::Null);
        }
        Fault::Edited => {
            let set = |shared: &Arc<Shared>, spec: Value| {
                act(shared, |cluster| {
                    let _ = cluster.update(&world::sequence_key(), |sequence| sequence["spec"] = spec);
                });
            };
            let mut edited = world::spec();
            if let Some(groups) = edited["podGroups"].as_array_mut() {
                groups.insert(1, json!({ "name": "extra", "pods": ["not-there"] }));
            }
            set(shared, edited);
            sleep(AWAY).await;
            set(shared, world::spec());
        }
        Fault::Compacted => act(shared, |cluster| cluster.store.compact()),
        Fault::NamespaceGone => {
            let own = Key::new(Kind::Namespace, "", names::OWN_NAMESPACE);
            act(shared, |cluster| cluster.delete(&own).is_ok());
            sleep(AWAY).await;
            act(shared, world::create_own_namespace);
        }
        Fault::SequenceRecreated => {
            act(shared, |cluster| cluster.delete(&world::sequence_key()).is_ok());
            sleep(AWAY).await;
            act(shared, world::create_sequence);
        }
        _ => {}
    }
}

/// Says whether there was something to change.
fn set_ready(cluster: &mut Cluster, pod: &str, status: &str) -> bool {
    let key = world::pod_key(pod);
    let ready = cluster.store.get(&key).is_some_and(|pod| world::has_arrived(pod));
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
    cluster.update_status(&key, write).is_ok()
}

/// A node goes, and its pods with it. Says which.
fn take_node(cluster: &mut Cluster, node: &str) -> Vec<String> {
    let on_it = cluster.store.list(Kind::Pod, Some(world::NAMESPACE));
    let on_it: Vec<Key> =
        on_it.filter(|(_, pod)| pod["spec"]["nodeName"] == node).map(|(key, _)| key.clone()).collect();
    let _ = cluster.delete(&Key::new(Kind::Node, "", node));
    on_it.iter().for_each(|key| drop(cluster.delete_now(key)));
    on_it.iter().map(|key| key.name.to_string()).collect()
}
