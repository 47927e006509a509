//! The ConfigMaps that containers wait for. They are not watched: their state is known from our writes and from one read.

use crate::act::{WriteAnswer, send_patch};
use crate::client::{self, Failure, Meaning, request};
use crate::engine::Engine;
use crate::watch::Item;
use kube::Client;
use rollcall_api::launch::{BarrierObject, add_keys, config_map};
use rollcall_api::names;
use rollcall_api::patch::delete_options;
use rollcall_api::resource::Resource;
use rollcall_core::Uid;
use rollcall_core::decision::{BarrierWrite, ToBarrier};
use rollcall_core::index::Object;
use rollcall_core::key::Key;
use rollcall_core::kind::Kind;
use rollcall_core::planted::{Bug, planted};
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::time::Instant;

/// Writes or reads the ConfigMap; returns its current state, or `None` if it does not exist.
pub async fn write_barrier(client: &Client, write: &BarrierWrite) -> WriteAnswer {
    let (all, one) = (Resource::path_beside(&write.target), Resource::path_to(&write.target));
    let found: BarrierObject = match &write.to {
        ToBarrier::Look => match client::get(client, &one).await {
            Err(failure) if failure.code == Some(404) => return Ok(None),
            found => found?,
        },
        ToBarrier::Create { keys } => {
            let path = format!("{all}?fieldManager={}", names::FIELD_MANAGER);
            let body = config_map(write, keys).to_string().into_bytes();
            client::send(client, request("POST", &path, Some(client::JSON), body)).await?
        }
        ToBarrier::AddKeys { keys, first } => {
            send_patch(client, &one, &add_keys(write, keys, *first)).await?
        }
        ToBarrier::Delete { config_map } => {
            lives(client, write).await?;
            let body = delete_options(Some(*config_map), false).to_string().into_bytes();
            let delete = request("DELETE", &one, Some(client::JSON), body);
            return match client::send::<IgnoredAny>(client, delete).await {
                Err(failure) if failure.code == Some(404) => Ok(None),
                answer => answer.map(|_| None),
            };
        }
    };
    Ok(Some(Item::plain(Object::Barrier(found.facts(write.pod)))))
}

/// Fails if the pod no longer exists: then our view was old, and the ConfigMap may belong to a later pod. While the pod exists,
/// all earlier pods of its name are deleted.
async fn lives(client: &Client, write: &BarrierWrite) -> Result<(), Failure> {
    let pods = Resource::from_kind(Kind::Pod).path(Some(&write.target.namespace));
    let there: LivePod = client::get(client, &format!("{pods}/{}", write.pod_name)).await?;
    match Uid::new(&there.metadata.uid) == write.pod || planted(Bug::OldViewDeletes) {
        true => Ok(()),
        false => Err(Failure { code: Some(409), message: "a different pod has this name now".into() }),
    }
}

#[derive(Deserialize)]
struct LivePod {
    metadata: LivePodMeta,
}

#[derive(Deserialize)]
struct LivePodMeta {
    uid: String,
}

impl Engine {
    /// Processes the answer to a write or read of the ConfigMap of a pod. Only added keys (`written`) count as progress. If the
    /// pod is already deleted, the garbage collector deletes each new ConfigMap, and without back-off the controller would
    /// re-create it at once.
    pub(crate) fn barrier_answered(&mut self, pod: Uid, written: bool, answer: WriteAnswer, now: Instant) {
        let key = Key::Launch(pod);
        match answer {
            Ok(found) => {
                if written {
                    self.queue.succeeded(key);
                }
                match found {
                    Some(item) => self.index.apply(item.object),
                    None => self.index.barrier_absent(pod),
                }
            }
            Err(failure) => {
                self.note_barrier_failure(pod, &failure);
                self.queue.failed(key, now);
            }
        }
    }

    fn note_barrier_failure(&mut self, pod: Uid, failure: &Failure) {
        match failure.meaning() {
            // It already exists, is deleted, or belongs to another pod. An unknown outcome may be any of these.
            Meaning::Moved | Meaning::Unknown => self.index.barrier_lost(pod),
            Meaning::Refused => {
                if let Some(refusal) = self.refusal(failure) {
                    self.index.launches.barrier_refused(pod, refusal);
                }
            }
        }
    }
}
