//! The kinds that the embedded cluster serves.

use rollcall_api::definition::Custom;
use rollcall_api::names;
use rollcall_api::resource::Resource;
use rollcall_core::kind::Kind as WatchedKind;

/// A kind of object. Prerequisites of other kinds come first, so that objects can be created in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Namespace,
    Node,
    CsiNode,
    PriorityClass,
    ServiceAccount,
    ConfigMap,
    Secret,
    Service,
    ResourceQuota,
    PersistentVolumeClaim,
    PodDisruptionBudget,
    PodSequence,
    Order,
    Ticket,
    Deployment,
    StatefulSet,
    DaemonSet,
    CronJob,
    Job,
    ReplicaSet,
    ControllerRevision,
    Pod,
    Lease,
    Event,
}

/// How the API serves a kind.
#[derive(Debug)]
pub struct Info {
    pub kind: Kind,
    /// Empty for the core group.
    pub group: &'static str,
    pub version: &'static str,
    pub name: &'static str,
    pub plural: &'static str,
    pub namespaced: bool,
    /// Whether it has the `status` subresource.
    pub status: bool,
    /// Whether `metadata.generation` counts changes of its spec.
    pub generation: bool,
}

const fn info(
    kind: Kind,
    (group, version): (&'static str, &'static str),
    (name, plural): (&'static str, &'static str),
    [namespaced, status, generation]: [bool; 3],
) -> Info {
    Info { kind, group, version, name, plural, namespaced, status, generation }
}

const CORE: (&str, &str) = ("", "v1");
const APPS: (&str, &str) = ("apps", "v1");
const BATCH: (&str, &str) = ("batch", "v1");
const KORDER: (&str, &str) = (names::KORDER_GROUP, names::KORDER_VERSION);

// kind, group and version, names, [namespaced, status, generation]
static INFOS: [Info; 24] = [
    info(Kind::Namespace, CORE, ("Namespace", "namespaces"), [false, true, false]),
    info(Kind::Node, CORE, ("Node", "nodes"), [false, true, false]),
    info(Kind::CsiNode, ("storage.k8s.io", "v1"), ("CSINode", "csinodes"), [false, false, false]),
    info(
        Kind::PriorityClass,
        ("scheduling.k8s.io", "v1"),
        ("PriorityClass", "priorityclasses"),
        [false, false, true],
    ),
    info(Kind::ServiceAccount, CORE, ("ServiceAccount", "serviceaccounts"), [true, false, false]),
    info(Kind::ConfigMap, CORE, ("ConfigMap", "configmaps"), [true, false, false]),
    info(Kind::Secret, CORE, ("Secret", "secrets"), [true, false, false]),
    info(Kind::Service, CORE, ("Service", "services"), [true, true, false]),
    info(Kind::ResourceQuota, CORE, ("ResourceQuota", "resourcequotas"), [true, true, false]),
    info(
        Kind::PersistentVolumeClaim,
        CORE,
        ("PersistentVolumeClaim", "persistentvolumeclaims"),
        [true, true, false],
    ),
    info(
        Kind::PodDisruptionBudget,
        ("policy", "v1"),
        ("PodDisruptionBudget", "poddisruptionbudgets"),
        [true, true, true],
    ),
    info(
        Kind::PodSequence,
        (names::SEQUENCE_GROUP, names::SEQUENCE_VERSION),
        (names::SEQUENCE_KIND, names::SEQUENCE_PLURAL),
        [true, true, true],
    ),
    info(Kind::Order, KORDER, (names::ORDER_KIND, names::ORDER_PLURAL), [true, true, true]),
    info(Kind::Ticket, KORDER, (names::TICKET_KIND, names::TICKET_PLURAL), [true, true, true]),
    info(Kind::Deployment, APPS, ("Deployment", "deployments"), [true, true, true]),
    info(Kind::StatefulSet, APPS, ("StatefulSet", "statefulsets"), [true, true, true]),
    info(Kind::DaemonSet, APPS, ("DaemonSet", "daemonsets"), [true, true, true]),
    info(Kind::CronJob, BATCH, ("CronJob", "cronjobs"), [true, true, true]),
    info(Kind::Job, BATCH, ("Job", "jobs"), [true, true, true]),
    info(Kind::ReplicaSet, APPS, ("ReplicaSet", "replicasets"), [true, true, true]),
    info(Kind::ControllerRevision, APPS, ("ControllerRevision", "controllerrevisions"), [true, false, false]),
    info(Kind::Pod, CORE, ("Pod", "pods"), [true, true, true]),
    info(Kind::Lease, ("coordination.k8s.io", "v1"), ("Lease", "leases"), [true, false, false]),
    info(Kind::Event, ("events.k8s.io", "v1"), ("Event", "events"), [true, false, false]),
];

impl Kind {
    pub fn all() -> impl Iterator<Item = Kind> {
        INFOS.iter().map(|info| info.kind)
    }

    pub fn info(self) -> &'static Info {
        &INFOS[self as usize]
    }

    /// The definition of a custom resource; `None` for built-in kinds.
    pub fn custom(self) -> Option<Custom> {
        match self {
            Kind::PodSequence => Some(Custom::PodSequence),
            Kind::Order => Some(Custom::Order),
            Kind::Ticket => Some(Custom::Ticket),
            _ => None,
        }
    }

    /// The kind served at an API path such as `apps`, `v1`, `deployments`.
    pub fn served(group: &str, version: &str, plural: &str) -> Option<Kind> {
        let at = |info: &&Info| info.group == group && info.version == version && info.plural == plural;
        INFOS.iter().find(at).map(|info| info.kind)
    }

    /// The kind under which objects of a watched kind are stored.
    pub fn of_watched(kind: WatchedKind) -> Option<Kind> {
        let resource = Resource::from_kind(kind);
        Kind::named(resource.api_version, resource.kind)
    }

    /// The kind with this `apiVersion` and `kind`.
    pub fn named(api_version: &str, name: &str) -> Option<Kind> {
        let named = |info: &&Info| info.name == name && info.api_version() == api_version;
        INFOS.iter().find(named).map(|info| info.kind)
    }
}

impl Info {
    pub fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// The name in messages of the API server: `pods`, `deployments.apps`.
    pub fn qualified(&self) -> String {
        match self.group {
            "" => self.plural.to_owned(),
            group => format!("{}.{group}", self.plural),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_kinds() {
        for (at, info) in INFOS.iter().enumerate() {
            assert_eq!(info.kind as usize, at, "{}", info.name);
        }
    }

    /// The table agrees with the definitions of the custom resources.
    #[test]
    fn custom_resources_are_served_as_they_are_defined() {
        for custom in Custom::ALL {
            let mut kinds = Kind::all().filter(|kind| kind.custom() == Some(*custom));
            let info = kinds.next().expect("every one is served").info();
            let (spec, version) = (custom.crd().spec, &custom.crd().spec.versions[0]);
            assert_eq!((info.name, info.plural), (custom.kind(), spec.names.plural.as_str()));
            assert_eq!((info.group, info.version), (spec.group.as_str(), version.name.as_str()));
            assert_eq!(info.namespaced, spec.scope == "Namespaced");
            let status = version.subresources.as_ref().is_some_and(|parts| parts.status.is_some());
            assert_eq!((info.status, info.generation), (status, true));
        }
    }

    #[test]
    fn found_by_place_and_by_name() {
        assert_eq!(Kind::served("apps", "v1", "deployments"), Some(Kind::Deployment));
        assert_eq!(Kind::served("", "v1", "pods"), Some(Kind::Pod));
        assert_eq!(Kind::served("apps", "v1", "pods"), None);
        assert_eq!(Kind::named("batch/v1", "Job"), Some(Kind::Job));
        assert_eq!(Kind::named("v1", "Job"), None);
        assert_eq!(Kind::Deployment.info().qualified(), "deployments.apps");
    }
}
