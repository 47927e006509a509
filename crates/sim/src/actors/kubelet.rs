//! The kubelets: run what is bound to their nodes.

use super::{Actor, Agenda};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::server::pods::set_condition;
use crate::store::Change;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

/// How long a container takes to start if nobody says so.
const START: SignedDuration = SignedDuration::from_secs(1);

#[derive(Default)]
pub struct Kubelet {
    agenda: Agenda,
}

impl Actor for Kubelet {
    fn heard(&mut self, change: &Change, cluster: &Cluster) {
        if change.key.kind != Kind::Pod || change.deleted {
            return;
        }
        let bound = |pod: &serde_json::Value| pod["spec"]["nodeName"].is_string();
        let was = change.before.as_ref().is_some_and(|before| bound(before));
        if bound(&change.object) && !was {
            self.agenda.add_at(cluster.now() + START, change.key.clone());
        } else if change.object.is_terminating() {
            self.agenda.add(change.key.clone());
        }
    }

    fn act(&mut self, cluster: &mut Cluster) -> Option<Timestamp> {
        while let Some(key) = self.agenda.pop(cluster.now()) {
            let Some(pod) = cluster.store.get(&key) else { continue };
            if pod.is_terminating() {
                let _ = cluster.delete_now(&key);
                continue;
            }
            let stamp = cluster.stamp();
            let _ = cluster.update_status(&key, |pod| {
                pod["status"]["phase"] = "Running".into();
                for kind in ["Initialized", "Ready", "ContainersReady"] {
                    let condition = json!({ "type": kind, "status": "True", "lastTransitionTime": stamp });
                    set_condition(&mut pod["status"], condition);
                }
            });
        }
        self.agenda.next_moment()
    }
}
