//! Stops a sequence and starts it again while faults occur, as `rollcall stop` and `rollcall start` do.

use super::fault::Fault;
use super::mischief::Mischief;
use super::world;
use crate::kinds::Kind;
use crate::store::{Key, Stored};
use rollcall_api::names;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Workloads that re-create their pods and have a replica count.
const SCALED: [Kind; 2] = [Kind::Deployment, Kind::StatefulSet];
/// Time limit for the controller to confirm the restart. After that the workloads are scaled up anyway, and the gates hold
/// their pods.
const ANSWER: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(100);

/// The token that restarts a sequence. It has the length of a uid, so that [`super::seen`] can track it.
fn token(turn: u64) -> String {
    format!("00000000-0000-4000-8000-{turn:012}")
}

impl Mischief {
    pub(super) async fn begin_again(&mut self) {
        let (pods, sizes) = (self.bare_pods(), self.sizes());
        self.act(|cluster| {
            for pod in &pods {
                let _ = cluster.delete_now(&Key::from_object(Kind::Pod, pod));
            }
            for (key, size) in &sizes {
                let note = json!({ "replicas": size }).to_string();
                let _ = cluster.update(key, |workload| {
                    workload["metadata"]["annotations"][names::BEFORE_STOP] = note.into();
                    workload["spec"]["replicas"] = 0.into();
                });
            }
        });
        let begun = Instant::now();
        while sizes.iter().any(|(key, _)| self.has_pods(key)) && begun.elapsed() < ANSWER {
            sleep(POLL).await;
        }
        let (key, token) = (self.world.rules[0].key(), token(self.faults.counts()[&Fault::BegunAgain]));
        self.act(|cluster| {
            let _ = cluster.update(&key, |sequence| {
                sequence["metadata"]["annotations"][names::BEGIN_AGAIN] = token.as_str().into();
            });
        });
        let begun = Instant::now();
        let answered = || {
            let cluster = self.shared.lock();
            cluster.store.get(&key).is_some_and(|sequence| sequence["status"]["begunAgain"] == token.as_str())
        };
        while !answered() && begun.elapsed() < ANSWER {
            sleep(POLL).await;
        }
        self.act(|cluster| {
            pods.iter().for_each(|pod| self.recreate_pod(cluster, pod));
            for (key, size) in &sizes {
                let _ = cluster.update(key, |workload| {
                    if let Some(annotations) = workload["metadata"]["annotations"].as_object_mut() {
                        annotations.remove(names::BEFORE_STOP);
                    }
                    workload["spec"]["replicas"] = size.clone();
                });
            }
        });
    }

    /// The pods of the sequence without an owner.
    fn bare_pods(&self) -> Vec<Arc<Stored>> {
        let (rule, cluster) = (&self.world.rules[0], self.shared.lock());
        let pods = cluster.store.list(Kind::Pod, Some(world::NAMESPACE));
        let bare = |pod: &Value| !pod["metadata"]["ownerReferences"].is_array();
        pods.filter(|(key, pod)| bare(pod) && rule.group_of(&key.name, world::tier(pod)).is_some())
            .map(|(_, pod)| Arc::clone(pod))
            .collect()
    }

    /// The workloads of the sequence with their replica counts, ordered by group.
    fn sizes(&self) -> Vec<(Key, Value)> {
        let (rule, cluster) = (&self.world.rules[0], self.shared.lock());
        let group = |workload: &Value| rule.group_of("", world::tier(&workload["spec"]["template"]));
        let mut sizes: Vec<(usize, Key, Value)> = SCALED
            .iter()
            .flat_map(|kind| cluster.store.list(*kind, Some(world::NAMESPACE)))
            .filter_map(|(key, it)| Some((group(it)?, key.clone(), it["spec"]["replicas"].clone())))
            .collect();
        sizes.sort_by_key(|(group, ..)| *group);
        sizes.into_iter().map(|(_, key, size)| (key, size)).collect()
    }

    fn has_pods(&self, workload: &Key) -> bool {
        let cluster = self.shared.lock();
        let Some(workload) = cluster.store.get(workload) else { return false };
        let mut pods = cluster.store.list(Kind::Pod, Some(world::NAMESPACE));
        pods.any(|(_, pod)| world::tier(pod) == world::tier(&workload["spec"]["template"]))
    }
}
