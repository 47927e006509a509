//! ResourceQuotas: recomputes the usage when pods are deleted or end.

use super::common::pods;
use super::{Actor, Agenda};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::server::quota;
use crate::store::Change;
use jiff::Timestamp;

#[derive(Default)]
pub struct Quotas {
    agenda: Agenda,
}

impl Actor for Quotas {
    fn on_change(&mut self, change: &Change, cluster: &Cluster) {
        match change.key.kind {
            Kind::ResourceQuota if change.deleted => self.agenda.forget(&change.key),
            Kind::ResourceQuota => {
                let hard = &change.object["spec"]["hard"];
                if change.before.as_ref().is_none_or(|before| before["spec"]["hard"] != *hard) {
                    self.agenda.add(change.key.clone());
                }
            }
            // New pods were charged at their admission.
            Kind::Pod => {
                let was_over = change.before.as_ref().is_some_and(|before| pods::is_over(before));
                if change.deleted || !was_over && pods::is_over(&change.object) {
                    for (key, _) in cluster.store.list(Kind::ResourceQuota, Some(&change.key.namespace)) {
                        self.agenda.add(key.clone());
                    }
                }
            }
            _ => {}
        }
    }

    fn act(&mut self, cluster: &mut Cluster) -> Option<Timestamp> {
        while let Some(key) = self.agenda.pop(cluster.now()) {
            let Some(found) = cluster.store.get(&key).cloned() else { continue };
            let used = quota::count(cluster, &key, &found);
            quota::write_used(cluster, &key, &found, &used);
        }
        None
    }
}
