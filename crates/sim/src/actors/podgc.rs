//! Removes pods of deleted nodes.

use super::bound::Bound;
use super::{Actor, Agenda};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::server::pods::set_condition;
use crate::store::{Change, Key};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

/// Time that a missing node may still appear in.
const QUARANTINE: SignedDuration = SignedDuration::from_secs(40);

#[derive(Default)]
pub struct PodGc {
    agenda: Agenda,
    pods: Bound,
}

impl Actor for PodGc {
    fn on_change(&mut self, change: &Change, cluster: &Cluster) {
        let node = match change.key.kind {
            Kind::Node if change.deleted => &*change.key.name,
            _ => match self.pods.on_change(change) {
                Some(node) => node,
                None => return,
            },
        };
        if cluster.store.find(Kind::Node, "", node).is_none() {
            self.agenda.add_at(cluster.now() + QUARANTINE, Key::new(Kind::Node, "", node));
        }
    }

    fn act(&mut self, cluster: &mut Cluster) -> Option<Timestamp> {
        while let Some(node) = self.agenda.pop(cluster.now()) {
            if cluster.store.get(&node).is_none() {
                self.pods.on(&node.name).for_each(|pod| remove(cluster, pod));
            }
        }
        self.agenda.next_moment()
    }
}

fn remove(cluster: &mut Cluster, key: &Key) {
    let stamp = cluster.stamp();
    let _ = cluster.update_status(key, |pod| {
        if !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) {
            pod["status"]["phase"] = "Failed".into();
            let condition = json!({
                "type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC",
                "message": "PodGC: node no longer exists",
                "lastTransitionTime": stamp, "observedGeneration": pod["metadata"]["generation"],
            });
            set_condition(&mut pod["status"], condition);
        }
    });
    let _ = cluster.delete_now(key);
}
