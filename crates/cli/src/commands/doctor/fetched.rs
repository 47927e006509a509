//! The state of the cluster, as far as the caller may read it.

use super::rights::Right;
use crate::commands::install::{Admission, Mode, id, objects};
use jiff::Timestamp;
use rollcall_api::names;
use rollcall_api::reservation::{PriorityClassObject, TicketObject};
use rollcall_api::sequence::SequenceObject;
use rollcall_api::sequence::note::NoteObject;
use rollcall_api::watch::{NamespaceObject, NodeObject, PodObject};
use serde_json::Value;
use std::collections::BTreeMap;

pub const DEPLOYMENT: &str = "Deployment/pod-sequence-controller";
pub const DEFINITION: &str = "CustomResourceDefinition/podsequences.scheduling.example.com";
/// CRDs of reservations.
pub const DEFINITIONS_OF_RESERVATIONS: [&str; 2] =
    ["CustomResourceDefinition/orders.core.korder.dev", "CustomResourceDefinition/tickets.core.korder.dev"];
pub const SERVICE: &str = "Service/pod-sequence-webhook";
/// The webhook that adds gates to pods and blocks new nodes, as an alternative to policies.
pub const CONFIGURATION: &str = "MutatingWebhookConfiguration/podsequence-mutating-webhook";
/// The webhook of launch order.
pub const LAUNCH_CONFIGURATION: &str = "MutatingWebhookConfiguration/podsequence-launch-webhook";

/// The answer to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetched<T> {
    Found(T),
    Absent,
    /// It may not or cannot be read, with the reason, such as "not allowed to list nodes".
    Forbidden(String),
}

impl<T> Fetched<T> {
    pub fn value(&self) -> Option<&T> {
        match self {
            Fetched::Found(value) => Some(value),
            Fetched::Absent | Fetched::Forbidden(_) => None,
        }
    }

    pub fn forbidden(&self) -> Option<&str> {
        match self {
            Fetched::Forbidden(why) => Some(why),
            Fetched::Found(_) | Fetched::Absent => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    pub minor: u32,
    /// As the API server reports it, such as `1.36.4`.
    pub text: String,
}

/// Result of the dry run of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    pub namespace: String,
    pub sequence: String,
    pub gated: bool,
}

#[derive(Clone, Debug)]
pub struct ClusterView {
    /// Current time of the API server.
    pub now: Timestamp,
    /// URL of the API server.
    pub server: String,
    pub version: Fetched<Version>,
    /// Namespace of the controller.
    pub namespace: String,
    /// The installed objects, by `KIND/NAME`.
    pub objects: BTreeMap<String, Fetched<Value>>,
    pub lease: Fetched<Value>,
    pub secret: Fetched<Value>,
    /// EndpointSlices of the webhook's Service.
    pub slices: Fetched<Vec<Value>>,
    /// PodDisruptionBudgets in the namespace of the controller.
    pub budgets: Fetched<Vec<Value>>,
    /// Pods of the controller.
    pub replicas: Fetched<Vec<PodObject>>,
    /// Pods of all namespaces that are not bound to a node.
    pub unbound: Fetched<Vec<PodObject>>,
    pub nodes: Fetched<Vec<NodeObject>>,
    pub namespaces: Fetched<Vec<NamespaceObject>>,
    pub sequences: Fetched<Vec<SequenceObject>>,
    pub notes: Fetched<Vec<NoteObject>>,
    /// Tickets of all namespaces.
    pub tickets: Fetched<Vec<TicketObject>>,
    pub guardians: Fetched<Vec<PodObject>>,
    pub classes: Fetched<Vec<PriorityClassObject>>,
    /// Number of rights that the controller's account needs; `missing` lists those that it lacks.
    pub needed: usize,
    pub missing: Fetched<Vec<Right>>,
    /// `None` if no sequence allows a dry run.
    pub probe: Option<Fetched<Probe>>,
}

impl ClusterView {
    pub fn object(&self, id: &str) -> &Fetched<Value> {
        self.objects.get(id).unwrap_or(&Fetched::Absent)
    }

    pub fn has(&self, id: &str) -> bool {
        self.object(id).value().is_some()
    }

    pub fn installed(&self) -> Installed {
        Installed::from_objects(&self.objects)
    }

    /// The last holder of the lease, whether or not it is still alive.
    pub fn leader(&self) -> Option<Leader> {
        let lease = self.lease.value()?;
        let text = |pointer: &str| lease.pointer(pointer).and_then(Value::as_str);
        let holder = text("/spec/holderIdentity").filter(|holder| !holder.is_empty())?;
        let renewed: Timestamp = text("/spec/renewTime")?.parse().ok()?;
        let seconds = lease.pointer("/spec/leaseDurationSeconds").and_then(Value::as_i64).unwrap_or_default();
        let version = lease["metadata"]["annotations"][names::LEASE_VERSION].as_str();
        Some(Leader {
            holder: holder.to_owned(),
            renewed,
            alive: self.now.duration_since(renewed).as_secs() <= seconds,
            version: version.map(str::to_owned),
        })
    }

    /// Version of the controller if it is newer than this program. Differences are then expected.
    pub fn newer(&self) -> Option<String> {
        let there = self.leader()?.version?;
        (numbers(&there) > numbers(env!("CARGO_PKG_VERSION"))).then_some(there)
    }
}

fn numbers(version: &str) -> Vec<u64> {
    version.split(['.', '-', '+']).map_while(|part| part.parse().ok()).collect()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    pub holder: String,
    pub renewed: Timestamp,
    /// Whether the lease was renewed within its duration.
    pub alive: bool,
    pub version: Option<String>,
}

/// How the controller is installed, according to its Deployment or else to the other objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Installed {
    /// Whether a Deployment exists; otherwise the other fields are guesses.
    pub known: bool,
    pub mode: Mode,
    pub policies: bool,
    pub webhook: bool,
    pub launch: bool,
    pub image: Option<String>,
    pub account: String,
    pub leader_elect: bool,
    pub replicas: i64,
    pub ready: i64,
}

impl Installed {
    pub fn from_objects(there: &BTreeMap<String, Fetched<Value>>) -> Installed {
        let any = |kind: &str| {
            there.iter().any(|(id, fetched)| id.split('/').next() == Some(kind) && fetched.value().is_some())
        };
        let has = |id: &str| there.get(id).is_some_and(|fetched| fetched.value().is_some());
        let without = if has("ClusterRole/pod-sequence-controller-nodes") { Mode::Full } else { Mode::Lite };
        let deployment = there.get(DEPLOYMENT).and_then(Fetched::value).cloned().unwrap_or_default();
        let pod = &deployment["spec"]["template"]["spec"];
        let containers = pod["containers"].as_array().cloned().unwrap_or_default();
        let ours = containers.iter().find(|container| container["name"] == "controller");
        let container = ours.or(containers.first()).cloned().unwrap_or_default();
        let args: Vec<&str> =
            container["args"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let number = |value: &Value, default| value.as_i64().unwrap_or(default);
        Installed {
            known: !deployment.is_null(),
            mode: match flag(&args, "--mode") {
                Some("full") => Mode::Full,
                Some(_) => Mode::Lite,
                None if deployment.is_null() => without,
                None => Mode::Lite,
            },
            policies: any("MutatingAdmissionPolicy"),
            webhook: has(CONFIGURATION),
            launch: has(LAUNCH_CONFIGURATION),
            image: container["image"].as_str().map(str::to_owned),
            account: pod["serviceAccountName"].as_str().unwrap_or(names::CONTROLLER).to_owned(),
            leader_elect: args.iter().any(|arg| matches!(*arg, "--leader-elect" | "--leader-elect=true")),
            replicas: if deployment.is_null() { 0 } else { number(&deployment["spec"]["replicas"], 1) },
            ready: number(&deployment["status"]["readyReplicas"], 0),
        }
    }

    /// Whether the Deployment confirms Lite mode, so that no controller serves the features of Full mode.
    pub fn is_lite(&self) -> bool {
        self.known && self.mode == Mode::Lite
    }

    /// Whether policies or webhooks are installed, which only Full mode serves.
    pub fn has_admission(&self) -> bool {
        self.policies || self.webhook || self.launch
    }

    /// Mode and admission with which `rollcall install` prints these objects, each given as an id or a kind. Prefers the
    /// installed mode.
    pub fn printed_with(&self, only: &[&str]) -> (Mode, Option<Admission>) {
        let ways = [
            (self.mode, None),
            (Mode::Full, None),
            (Mode::Full, Some(Admission::Policies)),
            (Mode::Full, Some(Admission::Webhook)),
        ];
        let prints = |(mode, admission): &(Mode, Option<Admission>)| {
            let ids: Vec<String> = objects(*mode, *admission, names::OWN_NAMESPACE).iter().map(id).collect();
            let is = |id: &String, wanted: &str| id == wanted || id.split('/').next() == Some(wanted);
            only.iter().all(|wanted| ids.iter().any(|id| is(id, wanted)))
        };
        ways.into_iter().find(prints).unwrap_or((self.mode, None))
    }
}

/// The value of a flag, written `--name value` or `--name=value`.
fn flag<'a>(args: &[&'a str], name: &str) -> Option<&'a str> {
    let position = args.iter().position(|arg| *arg == name);
    let apart = position.and_then(|position| args.get(position + 1).copied());
    apart.or_else(|| args.iter().find_map(|arg| arg.strip_prefix(name)?.strip_prefix('=')))
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;
    use serde_json::json;

    #[test]
    fn flags_are_read_in_both_spellings() {
        let args = ["controller", "--mode", "full", "--taint-prefix=x/", "--modest=1"];
        assert_eq!(flag(&args, "--mode"), Some("full"));
        assert_eq!(flag(&args, "--taint-prefix"), Some("x/"));
        assert_eq!(flag(&args, "--namespace"), None);
    }

    #[test]
    fn the_mode_is_the_deployments_or_else_that_of_the_roles() {
        let mut seen = testing::full();
        assert_eq!(seen.installed().mode, Mode::Full);
        seen.objects.insert(DEPLOYMENT.into(), Fetched::Absent);
        assert_eq!(seen.installed().mode, Mode::Full);
        assert_eq!(testing::lite().installed().mode, Mode::Lite);
        seen.objects.clear();
        assert_eq!(seen.installed(), Installed { account: names::CONTROLLER.into(), ..Installed::default() });
    }

    #[test]
    fn a_lease_lives_as_long_as_it_says() {
        let mut seen = testing::lite();
        let lease = |age: i64, holder: &str| {
            let renewed = testing::now() - jiff::SignedDuration::from_secs(age);
            Fetched::Found(
                json!({"spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed}}),
            )
        };
        for (age, holder, expected) in [
            (0, "a", Some(true)),
            (15, "a", Some(true)),
            (16, "a", Some(false)),
            (-3, "a", Some(true)),
            (0, "", None),
        ] {
            seen.lease = lease(age, holder);
            assert_eq!(seen.leader().map(|leader| leader.alive), expected, "{age} {holder}");
        }
    }

    #[test]
    fn versions_are_compared_by_number() {
        assert!(numbers("0.10.0") > numbers("0.9.1"));
        assert!(numbers("1.0.0-rc.1") == numbers("1.0.0"));
    }
}
