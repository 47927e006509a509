//! The state of the embedded cluster: stored objects, virtual time and random decisions.

use crate::chance::Chance;
use crate::kinds::Kind;
use crate::program_behaviour::ProgramBehaviour;
use crate::server::admission::Admission;
use crate::server::refusal::Refusal;
use crate::server::{change, create, delete};
use crate::store::{Key, Store, Stored};
use jiff::Timestamp;
use rollcall_controller::clock::Clock;
use serde_json::{Value, json};
use std::sync::Arc;

/// Namespaces that exist in every new cluster.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Priority classes that exist in every new cluster.
pub const PRIORITY_CLASSES: [(&str, i64); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

pub struct Cluster {
    pub store: Store,
    pub clock: Clock,
    pub chance: Chance,
    /// How the programs in the containers behave.
    pub programs: ProgramBehaviour,
    /// Rollcall's admission, if it is installed.
    pub admission: Admission,
}

impl Cluster {
    pub fn new(clock: Clock, seed: u64) -> Cluster {
        let (store, chance) = (Store::default(), Chance::seeded(seed));
        let (programs, admission) = (ProgramBehaviour::default(), Admission::default());
        let mut cluster = Cluster { store, clock, chance, programs, admission };
        for name in NAMESPACES {
            let namespace = json!({ "metadata": { "name": name } });
            cluster.create(Kind::Namespace, namespace).expect("creating a namespace succeeds");
        }
        for (name, value) in PRIORITY_CLASSES {
            let class = json!({ "metadata": { "name": name }, "value": value });
            create::commit_as_is(&mut cluster, Kind::PriorityClass, class);
        }
        cluster
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The current time in whole seconds, as written into objects.
    pub fn stamp(&self) -> String {
        seconds(self.now())
    }

    /// Creates an object through the API, with all defaults and admission, as a controller of the cluster does.
    pub fn create(&mut self, kind: Kind, object: Value) -> Result<Arc<Stored>, Refusal> {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        create::create(self, kind, &namespace, object, false)
    }

    /// Changes an object. An unchanged object is not written.
    pub fn update(&mut self, key: &Key, change: impl FnOnce(&mut Value)) -> Result<Arc<Stored>, Refusal> {
        change::update(self, key, change::Part::Main, false, |object| {
            change(object);
            Ok(())
        })
    }

    /// Changes the status of an object.
    pub fn update_status(
        &mut self,
        key: &Key,
        change: impl FnOnce(&mut Value),
    ) -> Result<Arc<Stored>, Refusal> {
        change::update(self, key, change::Part::Status, false, |object| {
            change(object);
            Ok(())
        })
    }

    /// Deletes an object. Its dependents are deleted afterwards.
    pub fn delete(&mut self, key: &Key) -> Result<(), Refusal> {
        delete::delete(self, key, &delete::DeleteOptions::default()).map(drop)
    }

    /// Deletes an object without a grace period.
    pub fn delete_now(&mut self, key: &Key) -> Result<(), Refusal> {
        delete::delete(self, key, &delete::DeleteOptions { grace: Some(0), ..Default::default() }).map(drop)
    }
}

/// A time in whole seconds, as written into objects.
pub fn seconds(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}
