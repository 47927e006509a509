//! The current state of the cluster: the sequence, its workloads with the relevant fields, and ownership and membership from the
//! core.

use crate::connect::Connection;
use crate::load::{self, has_code, list};
use anyhow::anyhow;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{GetParams, ListParams};
use kube::core::Request;
use rollcall_api::load::Loader;
use rollcall_api::names;
use rollcall_api::resource::Resource;
use rollcall_api::sequence::SequenceObject;
use rollcall_api::watch::{NamespaceObject, OwnerObject, PodObject};
use rollcall_core::Uid;
use rollcall_core::facts::{Owner, OwnerKind, Pod, PodPhase};
use rollcall_core::index::Index;
use rollcall_core::kind::Kind;
use rollcall_core::sequence::Spec;
use rollcall_core::sequence::index::SequenceEntry;
use rollcall_core::sequence::spec::WorkloadRef;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

pub struct World {
    pub index: Index,
    pub sequence: SequenceObject,
    pub workloads: BTreeMap<Uid, Workload>,
    /// `None` if the caller is not permitted to list them, or if they were not requested.
    pub autoscalers: Option<Vec<HorizontalPodAutoscaler>>,
}

/// Objects listed by the API server.
#[derive(Default)]
pub struct Listed {
    pub sequences: Vec<SequenceObject>,
    pub namespace: Option<NamespaceObject>,
    pub pods: Vec<PodObject>,
    pub workloads: Vec<(OwnerKind, Value)>,
    pub autoscalers: Option<Vec<HorizontalPodAutoscaler>>,
}

/// A workload with the fields that stop, start and restart need.
#[derive(Clone, Debug)]
pub struct Workload {
    pub kind: OwnerKind,
    pub fields: Fields,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Fields {
    pub metadata: ObjectMeta,
    pub spec: WorkloadSpec,
    pub status: WorkloadStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadSpec {
    pub replicas: Option<u32>,
    pub suspend: Option<bool>,
    pub paused: Option<bool>,
    pub pod_management_policy: Option<String>,
    pub ordinals: Ordinals,
    pub update_strategy: UpdateStrategy,
    pub persistent_volume_claim_retention_policy: Retention,
    pub template: Template,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Ordinals {
    pub start: u32,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UpdateStrategy {
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub rolling_update: RollingUpdate,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RollingUpdate {
    pub partition: Option<u32>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Retention {
    pub when_scaled: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Template {
    pub metadata: ObjectMeta,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadStatus {
    pub observed_generation: Option<i64>,
    pub replicas: u32,
    pub updated_replicas: u32,
    pub available_replicas: u32,
    pub update_revision: String,
    pub desired_number_scheduled: u32,
    pub updated_number_scheduled: u32,
    pub number_available: u32,
    pub conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    pub reason: Option<String>,
}

impl Workload {
    pub fn uid(&self) -> Uid {
        Uid::new(self.fields.metadata.uid.as_deref().unwrap_or_default())
    }

    pub fn name(&self) -> &str {
        self.fields.metadata.name.as_deref().unwrap_or_default()
    }

    /// Kind and name in the form of kubectl, such as `deployment/web`.
    pub fn title(&self) -> String {
        WorkloadRef { kind: self.kind, name: self.name().into() }.to_string()
    }

    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.fields.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// Desired number of pods.
    pub fn size(&self) -> u32 {
        self.fields.spec.replicas.unwrap_or(1)
    }

    /// Number of pods below the partition of a StatefulSet. An update does not replace them.
    pub fn below_partition(&self) -> u32 {
        let partition = self.fields.spec.update_strategy.rolling_update.partition;
        partition.filter(|_| self.kind == OwnerKind::StatefulSet).unwrap_or_default().min(self.size())
    }

    pub fn is_suspended(&self) -> bool {
        self.fields.spec.suspend == Some(true)
    }

    /// Whether a Job has completed or failed.
    pub fn is_finished(&self) -> bool {
        self.kind == OwnerKind::Job && (self.holds("Complete") || self.holds("Failed"))
    }

    pub fn holds(&self, condition: &str) -> bool {
        let mut conditions = self.fields.status.conditions.iter();
        conditions.any(|there| there.kind == condition && there.status == "True")
    }

    pub fn is_ordered_ready(&self) -> bool {
        self.kind == OwnerKind::StatefulSet
            && self.fields.spec.pod_management_policy.as_deref() != Some("Parallel")
    }

    /// Value of the template annotation that the last restart has set.
    pub fn restarted_at(&self) -> Option<&str> {
        let annotations = self.fields.spec.template.metadata.annotations.as_ref()?;
        annotations.get(names::RESTARTED_AT).map(String::as_str)
    }

    /// Whether its controller has observed its current generation.
    pub fn is_observed(&self) -> bool {
        let generation = self.fields.metadata.generation.unwrap_or_default();
        self.fields.status.observed_generation.unwrap_or_default() >= generation
    }
}

/// Why the world could not be read.
#[derive(Debug)]
pub struct Unread {
    pub error: anyhow::Error,
    /// Whether the error may be temporary, such as an unreachable API server.
    pub passes: bool,
}

impl Unread {
    fn new(connection: &Connection, error: kube::Error, doing: &str) -> Unread {
        let passes = match &error {
            kube::Error::Api(status) => status.code >= 500 || status.code == 429,
            _ => true,
        };
        Unread { error: connection.explained(error, doing), passes }
    }
}

impl From<anyhow::Error> for Unread {
    fn from(error: anyhow::Error) -> Unread {
        Unread { error, passes: false }
    }
}

impl World {
    pub fn new(sequence: SequenceObject, listed: Listed) -> Result<World, serde_json::Error> {
        let Listed { sequences, namespace, pods, workloads, autoscalers } = listed;
        // Only membership is needed; the index of Full mode computes it for both scopes.
        let mut loader = Loader::into_index(Index::of_full_mode());
        let mut found = BTreeMap::new();
        for (kind, value) in workloads {
            if let Some(watched) = Kind::of_owner(kind) {
                loader.add(watched, &[OwnerObject::deserialize(&value)?]);
            }
            let workload = Workload { kind, fields: Fields::deserialize(value)? };
            found.insert(workload.uid(), workload);
        }
        loader.add(Kind::Namespace, namespace.as_slice());
        loader.add(Kind::Pod, &pods);
        loader.add(Kind::Sequence, &sequences);
        // Added last, so that it replaces an older version in the list.
        loader.add(Kind::Sequence, std::slice::from_ref(&sequence));
        Ok(World { index: loader.index, sequence, workloads: found, autoscalers })
    }

    /// Reads the namespace of the pods. With `at_first`, also reads the autoscalers, which only warnings need.
    pub async fn load(
        connection: &Connection,
        sequence: SequenceObject,
        sequences: Vec<SequenceObject>,
        at_first: bool,
    ) -> Result<World, Unread> {
        let facts = sequence.facts();
        let spec =
            facts.spec.map_err(|invalid| anyhow!("podsequence {} is invalid: {invalid}", facts.name))?;
        let namespace = &*spec.pod_namespace;
        let all = ListParams::default();
        let unread = |error, what: &str| {
            Unread::new(connection, error, &format!("list {what} in namespace {namespace}"))
        };
        let mut listed = Listed { sequences, ..Listed::default() };
        for kind in OwnerKind::ALL {
            let Some(resource) = Kind::of_owner(kind).map(Resource::from_kind) else { continue };
            let there = list::<Value>(connection, &resource.path(Some(namespace)), &all).await;
            let there = there.map_err(|error| unread(error, resource.plural))?;
            listed.workloads.extend(there.into_iter().map(|value| (kind, value)));
        }
        // Listed after the workloads, so that the owner of each pod is known.
        let pods = list(connection, &Resource::from_kind(Kind::Pod).path(Some(namespace)), &all).await;
        listed.pods = pods.map_err(|error| unread(error, "pods"))?;
        if *namespace != *facts.namespace {
            let get = Request::new("/api/v1/namespaces").get(namespace, &GetParams::default());
            let doing = format!("get namespace {namespace}");
            let unread = |error| Unread::new(connection, error, &doing);
            let get = get.map_err(kube::Error::BuildRequest).map_err(unread)?;
            listed.namespace = Some(connection.client.request(get).await.map_err(unread)?);
        }
        if at_first {
            let path = format!("/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers");
            listed.autoscalers = match list(connection, &path, &all).await {
                Ok(autoscalers) => Some(autoscalers),
                Err(error) if has_code(&error, 403) => None,
                Err(error) => return Err(unread(error, "horizontalpodautoscalers")),
            };
        }
        World::new(sequence, listed).map_err(|error| anyhow!("cannot read a workload: {error}").into())
    }

    /// Reads the current state again.
    pub async fn again(&self, connection: &Connection) -> Result<World, Unread> {
        let meta = &self.sequence.metadata;
        let path = load::sequences_path(Some(&meta.namespace));
        let doing = format!("get podsequence {} again", meta.name);
        let unread = |error| Unread::new(connection, error, &doing);
        let get = Request::new(path).get(&meta.name, &GetParams::default());
        let get = get.map_err(kube::Error::BuildRequest).map_err(unread)?;
        let sequence: SequenceObject = connection.client.request(get).await.map_err(unread)?;
        if sequence.metadata.uid != meta.uid {
            return Err(anyhow!("podsequence {} was deleted and re-created", meta.name).into());
        }
        World::load(connection, sequence, Vec::new(), false).await
    }

    pub fn entry(&self) -> Option<&SequenceEntry> {
        self.index.sequences.get(self.sequence.metadata.uid())
    }

    pub fn spec(&self) -> Option<&Arc<Spec>> {
        self.entry()?.spec()
    }

    /// Namespace of the pods.
    pub fn namespace(&self) -> &str {
        self.spec().map_or(&self.sequence.metadata.namespace, |spec| &spec.pod_namespace)
    }

    /// The top-level owner: a Deployment rather than its ReplicaSet.
    pub fn top_of(&self, owner: Uid) -> Option<&Owner> {
        let owner = self.index.cluster.owner(owner)?;
        let above = owner.parent.and_then(|parent| self.index.cluster.owner(parent.uid));
        Some(above.unwrap_or(owner))
    }

    /// Pods of a workload that are neither Succeeded nor Failed, including terminating pods.
    pub fn pods_of(&self, workload: Uid) -> impl Iterator<Item = &Pod> {
        let below = self.index.cluster.pods_below(workload).into_iter();
        below.filter_map(move |uid| self.index.cluster.pod(uid)).filter(|pod| is_left(pod))
    }
}

/// Whether a pod still counts: it is neither Succeeded nor Failed.
pub fn is_left(pod: &Pod) -> bool {
    match pod.phase {
        PodPhase::Succeeded | PodPhase::Failed => false,
        PodPhase::Pending | PodPhase::Running | PodPhase::Unknown => true,
    }
}
