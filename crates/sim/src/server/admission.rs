//! Rollcall's admission of new pods and nodes, in clusters where it is installed: `config/admission` or the webhook, with
//! the same effect. The simulation calls the webhook's review function with the currently stored sequences and Orders.

use super::patch::{self, Style};
use super::refusal::Refusal;
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::store::Store;
use base64::{Engine, engine::general_purpose::STANDARD};
use rollcall_api::launch::asks_for_order;
use rollcall_api::load;
use rollcall_api::names;
use rollcall_core::index::Index;
use rollcall_core::kind::Kind as Watched;
use rollcall_core::roster::Roster;
use rollcall_webhook::Asked;
use serde_json::{Value, json};

pub struct Admission {
    pub installed: bool,
    /// Whether a controller hands out tickets. Otherwise no pod is held for one.
    pub serves_reservations: bool,
    index: Index,
    roster: Roster,
    /// The version of the store that `index` and `roster` reflect.
    seen: u64,
}

impl Default for Admission {
    fn default() -> Admission {
        // Only Full mode has admission.
        let (index, roster) = (Index::of_full_mode(), Roster::default());
        Admission { installed: false, serves_reservations: false, index, roster, seen: 0 }
    }
}

/// The kinds that determine the sequence or Order of a new pod.
const READ: [Watched; 7] = [
    Watched::Namespace,
    Watched::Sequence,
    Watched::Order,
    Watched::Deployment,
    Watched::ReplicaSet,
    Watched::CronJob,
    Watched::Job,
];

/// Applies Rollcall's admission to a new object, or rejects the object. `generated` means that the API server generates its
/// name later.
pub fn review(cluster: &mut Cluster, kind: Kind, object: &mut Value, generated: bool) -> Result<(), Refusal> {
    if !cluster.admission.installed {
        return Ok(());
    }
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
    // One after the other, in the order of the names of their configurations, as the API server does.
    for asked in [Asked::Launch, Asked::Sequences] {
        let concerned = match (asked, kind) {
            (Asked::Launch, Kind::Pod) => asks_for_order(object),
            (Asked::Sequences, Kind::Pod) => is_enabled(cluster, &namespace),
            (Asked::Sequences, Kind::Node) => true,
            _ => false,
        };
        if concerned {
            ask(cluster, asked, kind, &namespace, object, generated)?;
        }
    }
    Ok(())
}

fn ask(
    cluster: &mut Cluster,
    asked: Asked,
    kind: Kind,
    namespace: &str,
    object: &mut Value,
    generated: bool,
) -> Result<(), Refusal> {
    if kind == Kind::Pod && asked == Asked::Sequences {
        cluster.refresh_roster();
    }
    let mut seen = object.clone();
    // If the first review has set a name, the second one sees it.
    if let (true, Some(metadata)) = (generated && !is_ordered(object), seen["metadata"].as_object_mut()) {
        metadata.remove("name");
    }
    let request = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": object["metadata"]["uid"], "operation": "CREATE", "namespace": namespace, "object": seen,
            "resource": { "group": kind.info().group, "version": kind.info().version, "resource": kind.info().plural },
        },
    });
    let answer = rollcall_webhook::review(asked, &request, &cluster.admission.roster);
    let response = &answer["response"];
    if response["allowed"] == false {
        let message = response["status"]["message"].as_str().unwrap_or_default();
        return Err(Refusal::denied(names::LAUNCH_WEBHOOK, message));
    }
    if let Some(encoded) = response["patch"].as_str() {
        let patch = STANDARD.decode(encoded).expect("our own answer is base64");
        patch::apply(Style::Json, object, &patch)
            .expect("our own patch fits the object that it was created for");
    }
    Ok(())
}

/// Whether the launch order was reviewed.
fn is_ordered(pod: &Value) -> bool {
    let gates = pod["spec"]["schedulingGates"].as_array();
    gates.into_iter().flatten().any(|gate| gate["name"] == names::LAUNCH_GATE)
}

/// Whether the namespace opts in, as the bindings of the policies and the webhook require.
fn is_enabled(cluster: &Cluster, namespace: &str) -> bool {
    let there = cluster.store.find(Kind::Namespace, "", namespace);
    there.is_some_and(|there| there["metadata"]["labels"][names::ENABLED_LABEL] == names::ENABLED_VALUE)
}

impl Cluster {
    /// Updates the roster with the stored objects.
    fn refresh_roster(&mut self) {
        let Admission { serves_reservations, index, roster, seen, .. } = &mut self.admission;
        READ.iter().for_each(|kind| read(index, &self.store, *kind, *seen));
        *seen = self.store.version();
        let touched = index.take_touched();
        roster.follow(index, &touched);
        roster.orders.set_served(*serves_reservations);
        roster.completed();
    }
}

/// Updates the index with the objects of a kind that changed since a version of the store.
fn read(index: &mut Index, store: &Store, kind: Watched, seen: u64) {
    let stored = Kind::of_watched(kind).expect("the embedded cluster serves every watched kind");
    if let Some(changes) = store.since(stored, seen) {
        for change in changes {
            match load::object(kind, &change.object.value) {
                Some(object) if change.deleted => index.delete(object),
                Some(object) => index.apply(object),
                None => {}
            }
        }
        return;
    }
    index.list_begins(kind, store.version());
    let objects = store.list(stored, None).filter_map(|(_, object)| load::object(kind, &object.value));
    let listed = objects.map(|object| {
        let listed = object.listed();
        index.apply(object);
        listed
    });
    let listed = listed.collect();
    index.list_ended(kind, &listed);
}
