//! The workload kinds, read into one struct, because they differ in few fields.

use super::meta::{self, Annotations, REVISION};
use super::{KeptLabels, LabelText, Meta, pod};
use crate::names;
use rollcall_core::facts::{Job, Owner, OwnerKind};
use rollcall_core::labels::Labels;
use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
pub struct OwnerObject {
    pub metadata: Meta,
    #[serde(default)]
    spec: OwnerSpec,
    #[serde(default)]
    status: OwnerStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OwnerSpec {
    replicas: Option<u32>,
    parallelism: Option<u32>,
    completions: Option<u32>,
    suspend: Option<bool>,
    template: Template,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Template {
    metadata: TemplateMeta,
    spec: pod::TemplateSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct TemplateMeta {
    labels: Option<LabelText>,
    annotations: Option<Annotations>,
}

impl TemplateMeta {
    fn labels(&self, namespace: &str, kept: &KeptLabels) -> Labels {
        let annotation = |key: &str| self.annotations.as_ref().and_then(|annotations| annotations.get(key));
        let (name, group) = (annotation(names::POD_SEQUENCE_NAME), annotation(names::POD_SEQUENCE_GROUP));
        kept.pick(namespace, self.labels.as_ref(), |pairs| meta::labels(pairs, name, group))
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OwnerStatus {
    observed_generation: Option<i64>,
    desired_number_scheduled: Option<u32>,
    succeeded: Option<u32>,
    conditions: Option<Vec<pod::Condition>>,
}

impl OwnerObject {
    /// The facts about a workload, with all labels of its template. The items of a list do not contain their kind, so
    /// the caller passes it.
    pub fn facts(&self, kind: OwnerKind) -> Owner {
        self.facts_keeping(kind, &KeptLabels::all())
    }

    pub fn facts_keeping(&self, kind: OwnerKind, labels: &KeptLabels) -> Owner {
        let OwnerObject { metadata, spec, status } = self;
        Owner {
            uid: metadata.uid(),
            kind,
            namespace: metadata.namespace.as_str().into(),
            name: metadata.name.as_str().into(),
            version: metadata.version(),
            parent: metadata.controller(),
            created: metadata.created(),
            template_labels: spec.template.metadata.labels(&metadata.namespace, labels),
            desired: self.desired(kind),
            revision: metadata.annotation(REVISION).map(Into::into),
            job: (kind == OwnerKind::Job).then(|| Job {
                completions: spec.completions,
                succeeded: status.succeeded.unwrap_or_default(),
                complete: self.condition("Complete"),
                failed: self.condition("Failed"),
                suspended: spec.suspend.unwrap_or_default(),
                runs_to_completion: spec.template.spec.runs_to_completion(),
            }),
            placement: (kind == OwnerKind::DaemonSet).then(|| Box::new(spec.template.spec.placement())),
            stopped: metadata.annotation(names::BEFORE_STOP).is_some(),
            terminating: metadata.deletion_timestamp.is_some(),
        }
    }

    fn desired(&self, kind: OwnerKind) -> Option<u32> {
        let seen = self.status.observed_generation.unwrap_or_default();
        let current = seen >= self.metadata.generation.unwrap_or_default();
        match kind {
            OwnerKind::Deployment | OwnerKind::ReplicaSet | OwnerKind::StatefulSet => {
                current.then(|| self.spec.replicas.unwrap_or(1))
            }
            OwnerKind::DaemonSet => current.then(|| self.status.desired_number_scheduled.unwrap_or_default()),
            // The status of a Job has no `observedGeneration`.
            OwnerKind::Job => {
                let parallelism = self.spec.parallelism.unwrap_or(1);
                Some(self.spec.completions.map_or(parallelism, |completions| parallelism.min(completions)))
            }
            // A CronJob has no pods of its own; its Jobs have.
            OwnerKind::CronJob | OwnerKind::Other => None,
        }
    }

    fn condition(&self, kind: &str) -> bool {
        pod::condition(self.status.conditions.as_deref().unwrap_or_default(), kind)
            .is_some_and(pod::Condition::holds)
    }
}
