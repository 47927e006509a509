//! The API path of each kind of object.

use crate::names;
use rollcall_core::cluster::Target;
use rollcall_core::kind::Kind;

/// The names of a kind in the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    pub api_version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
}

impl Resource {
    pub fn from_kind(kind: Kind) -> Resource {
        let (api_version, kind, plural) = match kind {
            Kind::Pod => ("v1", "Pod", "pods"),
            Kind::Deployment => ("apps/v1", "Deployment", "deployments"),
            Kind::ReplicaSet => ("apps/v1", "ReplicaSet", "replicasets"),
            Kind::StatefulSet => ("apps/v1", "StatefulSet", "statefulsets"),
            Kind::DaemonSet => ("apps/v1", "DaemonSet", "daemonsets"),
            Kind::Job => ("batch/v1", "Job", "jobs"),
            Kind::CronJob => ("batch/v1", "CronJob", "cronjobs"),
            Kind::Namespace => ("v1", "Namespace", "namespaces"),
            Kind::Sequence => (names::SEQUENCE_API_VERSION, names::SEQUENCE_KIND, names::SEQUENCE_PLURAL),
            Kind::Note => ("v1", "ConfigMap", "configmaps"),
            Kind::Node => ("v1", "Node", "nodes"),
            Kind::Barrier => ("v1", "ConfigMap", "configmaps"),
            Kind::CsiNode => ("storage.k8s.io/v1", "CSINode", "csinodes"),
            Kind::Order => (names::KORDER_API_VERSION, names::ORDER_KIND, names::ORDER_PLURAL),
            Kind::Ticket => (names::KORDER_API_VERSION, names::TICKET_KIND, names::TICKET_PLURAL),
            Kind::PriorityClass => ("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses"),
        };
        Resource { api_version, kind, plural }
    }

    /// The path of the list that contains `target`.
    pub fn path_beside(target: &Target) -> String {
        let Target { kind, namespace, .. } = target;
        Resource::from_kind(*kind).path(kind.is_namespaced().then_some(namespace))
    }

    /// The path of `target`.
    pub fn path_to(target: &Target) -> String {
        format!("{}/{}", Resource::path_beside(target), target.name)
    }

    /// The path of the list of all objects of this kind, in one namespace or in all.
    pub fn path(self, namespace: Option<&str>) -> String {
        let Resource { api_version, plural, .. } = self;
        let root = if api_version.contains('/') { "/apis" } else { "/api" };
        match namespace {
            Some(namespace) => format!("{root}/{api_version}/namespaces/{namespace}/{plural}"),
            None => format!("{root}/{api_version}/{plural}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_as_the_api_server_has_them() {
        assert_eq!(Resource::from_kind(Kind::Pod).path(None), "/api/v1/pods");
        assert_eq!(Resource::from_kind(Kind::Job).path(Some("shop")), "/apis/batch/v1/namespaces/shop/jobs");
    }
}
