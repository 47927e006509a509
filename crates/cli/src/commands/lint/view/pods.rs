//! Pods, and the pod templates of workloads.

use crate::commands::lint::field::Field;
use crate::commands::lint::manifests::{Manifests, Object};
use rollcall_api::names;
use rollcall_api::watch::labels;
use rollcall_core::labels::Labels;
use rollcall_sim::kinds::Kind;

/// A pod or a pod template, with the object that defines it.
#[derive(Clone, Debug)]
pub struct PodTemplate<'a> {
    pub object: &'a Object,
    pub kind: Kind,
    /// The pod itself, or the template.
    pub pod: Field<'a>,
    pub metadata: Field<'a>,
    pub spec: Field<'a>,
    pub labels: Labels,
}

/// Templates of all objects, in their order.
pub fn templates<'a>(manifests: &'a Manifests) -> Vec<PodTemplate<'a>> {
    manifests.objects.iter().filter_map(PodTemplate::from_object).collect()
}

/// Templates of the objects of one kind.
pub fn templates_of<'a>(manifests: &'a Manifests, kind: Kind) -> Vec<PodTemplate<'a>> {
    manifests.of_kind(kind).filter_map(PodTemplate::from_object).collect()
}

impl<'a> PodTemplate<'a> {
    pub fn from_object(object: &'a Object) -> Option<PodTemplate<'a>> {
        let kind = object.kind?;
        let pod = match kind {
            Kind::Pod => object.root(),
            Kind::Deployment | Kind::StatefulSet | Kind::DaemonSet | Kind::ReplicaSet | Kind::Job => {
                object.field("spec.template")
            }
            Kind::CronJob => object.field("spec.jobTemplate.spec.template"),
            _ => return None,
        };
        // Users change the template of the owner instead.
        if object.value["metadata"]["ownerReferences"].is_array() {
            return None;
        }
        let metadata = pod.get("metadata");
        let annotation = |key: &str| metadata.value["annotations"][key].as_str();
        let written = metadata.value["labels"].as_object().into_iter().flatten();
        let labels = labels(
            written.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default())),
            annotation(names::POD_SEQUENCE_NAME),
            annotation(names::POD_SEQUENCE_GROUP),
        );
        Some(PodTemplate { object, kind, metadata, spec: pod.get("spec"), labels, pod })
    }

    pub fn annotation(&self, key: &str) -> &'a str {
        self.metadata.get("annotations").get(key).text()
    }

    /// Init containers, followed by regular containers.
    pub fn all_containers(&self) -> Vec<Field<'a>> {
        [self.spec.get("initContainers").items(), self.containers()].concat()
    }

    pub fn containers(&self) -> Vec<Field<'a>> {
        self.spec.get("containers").items()
    }

    pub fn has_gate(&self, gate: &str) -> bool {
        self.gates().iter().any(|name| name.text() == gate)
    }

    pub fn gates(&self) -> Vec<Field<'a>> {
        self.spec.get("schedulingGates").items().iter().map(|gate| gate.get("name")).collect()
    }

    /// Whether its pods can run to completion.
    pub fn ends(&self) -> bool {
        matches!(self.kind, Kind::Job | Kind::CronJob)
            || ["Never", "OnFailure"].contains(&self.spec.get("restartPolicy").text())
    }

    /// Number of pods; `None` for a DaemonSet, where it depends on the nodes.
    pub fn size(&self) -> Option<i64> {
        let spec = self.object.spec();
        let job = |spec: Field| {
            let parallelism = spec.get("parallelism").number().unwrap_or(1);
            spec.get("completions").number().map_or(parallelism, |completions| completions.min(parallelism))
        };
        match self.kind {
            Kind::Pod => Some(1),
            Kind::DaemonSet => None,
            Kind::Job => Some(job(spec)),
            Kind::CronJob => Some(job(spec.down("jobTemplate.spec"))),
            _ => Some(spec.get("replicas").number().unwrap_or(1)),
        }
    }

    /// The spec of a Job, or of the Jobs that a CronJob creates.
    pub fn job(&self) -> Option<Field<'a>> {
        match self.kind {
            Kind::Job => Some(self.object.spec()),
            Kind::CronJob => Some(self.object.field("spec.jobTemplate.spec")),
            _ => None,
        }
    }

    /// Least number of seconds from the start of the containers until a pod can be ready, by its probes.
    pub fn earliest_ready(&self) -> i64 {
        let first_success = |probe: &Field| {
            let number = |field: &str, default: i64| probe.get(field).number().unwrap_or(default);
            let more = (number("successThreshold", 1) - 1).max(0) * number("periodSeconds", 10);
            if probe.is_missing() { 0 } else { number("initialDelaySeconds", 0).max(0) + more }
        };
        let of = |container: &Field| {
            first_success(&container.get("startupProbe")).max(first_success(&container.get("readinessProbe")))
        };
        self.containers().iter().map(of).max().unwrap_or_default()
    }
}
