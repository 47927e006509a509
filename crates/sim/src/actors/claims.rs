//! Volumes for claims: every claim gets one at once.

use super::common::text;
use super::{Actor, Agenda};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::store::Change;
use jiff::Timestamp;

#[derive(Default)]
pub struct Claims {
    agenda: Agenda,
}

impl Actor for Claims {
    fn heard(&mut self, change: &Change, _: &Cluster) {
        if change.key.kind == Kind::PersistentVolumeClaim && change.before.is_none() {
            self.agenda.add(change.key.clone());
        }
    }

    fn act(&mut self, cluster: &mut Cluster) -> Option<Timestamp> {
        while let Some(key) = self.agenda.pop(cluster.now()) {
            let Some(claim) = cluster.store.get(&key) else { continue };
            if claim["status"]["phase"] == "Bound" {
                continue;
            }
            let volume = match text(&claim["spec"]["volumeName"]) {
                "" => format!("pvc-{}", claim.uid()),
                name => name.to_owned(),
            };
            // A claim that is gone needs no volume.
            let _ = cluster.update(&key, |claim| claim["spec"]["volumeName"] = volume.into());
            let _ = cluster.update_status(&key, |claim| {
                let modes = claim["spec"]["accessModes"].clone();
                let storage = claim["spec"]["resources"]["requests"]["storage"].clone();
                claim["status"]["phase"] = "Bound".into();
                claim["status"]["accessModes"] = modes;
                claim["status"]["capacity"]["storage"] = storage;
            });
        }
        None
    }
}
