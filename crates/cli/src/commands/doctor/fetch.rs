//! Reads all objects that the checks need, and writes nothing. Objects that the caller may not read become
//! [`Fetched::Forbidden`].

use super::fetched::{ClusterView, Fetched, Installed, Probe, Version};
use super::rights::{Right, needed};
use crate::commands::install::{Admission, Mode, id, objects};
use crate::connect::Connection;
use crate::load::{has_code, list, sequences_path};
use anyhow::Result;
use futures::stream::{self, StreamExt};
use jiff::Timestamp;
use kube::Error;
use kube::api::ListParams;
use kube::client::Body;
use rollcall_api::names;
use rollcall_api::resource::Resource;
use rollcall_api::sequence::SequenceObject;
use rollcall_api::watch::NamespaceObject;
use rollcall_controller::client::{JSON, request};
use rollcall_core::kind::Kind;
use rollcall_core::reservation::names as reservation;
use rollcall_core::sequence::spec::{Members, Spec};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Number of concurrent requests.
const AT_ONCE: usize = 8;

pub async fn fetch(connection: &Connection, namespace: &str) -> Result<ClusterView> {
    let ask = Ask { connection };
    // The first request fails if the API server cannot be reached.
    let (version, now) = ask.version().await?;
    let here = |group: &str, rest: &str| format!("/{group}/namespaces/{namespace}/{rest}");
    let selected = |labels: &str| ListParams::default().labels(labels);
    let all = ListParams::default();
    let everywhere = |kind: Kind| Resource::from_kind(kind).path(None);
    let objects = ask.objects(namespace).await?;
    let of_service = selected(&format!("kubernetes.io/service-name={}", names::WEBHOOK_SERVICE));
    let of_controller = selected(&format!("app.kubernetes.io/name={}", names::CONTROLLER));
    let of_notes = selected(&format!("{}={}", names::NOTE_LABEL, names::NOTE_LABEL_VALUE));
    let mut seen = ClusterView {
        now,
        server: connection.server.clone(),
        version,
        lease: ask.get(&here("apis/coordination.k8s.io/v1", &format!("leases/{}", names::LEASE))).await?,
        secret: ask.get(&here("api/v1", &format!("secrets/{}", names::WEBHOOK_SECRET))).await?,
        slices: ask.list(&here("apis/discovery.k8s.io/v1", "endpointslices"), &of_service).await?,
        budgets: ask.list(&here("apis/policy/v1", "poddisruptionbudgets"), &all).await?,
        replicas: ask.list(&here("api/v1", "pods"), &of_controller).await?,
        // Held pods are not bound to a node; this filter excludes most other pods.
        unbound: ask.list("/api/v1/pods", &ListParams::default().fields("spec.nodeName=")).await?,
        nodes: ask.list("/api/v1/nodes", &all).await?,
        namespaces: ask.list("/api/v1/namespaces", &all).await?,
        sequences: ask.list(&sequences_path(None), &all).await?,
        notes: ask.list(&here("api/v1", "configmaps"), &of_notes).await?,
        tickets: ask.list(&everywhere(Kind::Ticket), &all).await?,
        guardians: ask.list(&everywhere(Kind::Pod), &selected(reservation::GUARDIAN)).await?,
        classes: ask.list(&everywhere(Kind::PriorityClass), &all).await?,
        needed: 0,
        missing: Fetched::Absent,
        probe: None,
        namespace: namespace.to_owned(),
        objects,
    };
    let installed = seen.installed();
    let rights = needed(&installed, namespace);
    seen.needed = rights.len();
    seen.missing = ask.missing(rights, &installed, namespace).await?;
    seen.probe = ask.probe(&seen, &installed).await?;
    Ok(seen)
}

struct Ask<'a> {
    connection: &'a Connection,
}

impl Ask<'_> {
    /// The version and the current time of the API server.
    async fn version(&self) -> Result<(Fetched<Version>, Timestamp)> {
        let client = &self.connection.client;
        let path = "/version";
        let explained = |error| self.connection.explained(error, "get the version of the API server");
        let answer =
            client.send(request("GET", path, None, Vec::new()).map(Body::from)).await.map_err(explained)?;
        let date = answer.headers().get("date").and_then(|date| date.to_str().ok());
        let parsed =
            date.and_then(|date| jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(date).ok());
        let version: Fetched<Value> = self.get(path).await?;
        let version = match version {
            Fetched::Found(version) => {
                let digits = version["minor"]
                    .as_str()
                    .unwrap_or_default()
                    .trim_end_matches(|c: char| !c.is_ascii_digit());
                let text =
                    version["gitVersion"].as_str().unwrap_or_default().trim_start_matches('v').to_owned();
                digits.parse().map_or(Fetched::Absent, |minor| Fetched::Found(Version { minor, text }))
            }
            Fetched::Absent => Fetched::Absent,
            Fetched::Forbidden(why) => Fetched::Forbidden(why),
        };
        Ok((version, parsed.unwrap_or_else(Timestamp::now)))
    }

    /// All objects that `rollcall install` can print, in any mode.
    async fn objects(&self, namespace: &str) -> Result<BTreeMap<String, Fetched<Value>>> {
        let installs = [
            objects(Mode::Lite, None, namespace),
            objects(Mode::Full, Some(Admission::Policies), namespace),
            objects(Mode::Full, Some(Admission::Webhook), namespace),
        ];
        let paths: BTreeMap<String, String> =
            installs.iter().flatten().filter_map(|object| Some((id(object), path(object)?))).collect();
        let fetched =
            stream::iter(paths).map(|(id, path)| async move { anyhow::Ok((id, self.get(&path).await?)) });
        let fetched: Vec<Result<(String, Fetched<Value>)>> = fetched.buffered(AT_ONCE).collect().await;
        fetched.into_iter().collect()
    }

    async fn get(&self, path: &str) -> Result<Fetched<Value>> {
        let answer = self.connection.client.request(request("GET", path, None, Vec::new())).await;
        self.fetched(answer, || format!("get {}", resource_in_words(path)))
    }

    async fn list<T: DeserializeOwned + Clone>(
        &self,
        path: &str,
        params: &ListParams,
    ) -> Result<Fetched<Vec<T>>> {
        self.fetched(list(self.connection, path, params).await, || {
            format!("list {}", resource_in_words(path))
        })
    }

    async fn post(&self, path: &str, body: &Value) -> Result<Value, Error> {
        let body = body.to_string().into_bytes();
        self.connection.client.request(request("POST", path, Some(JSON), body)).await
    }

    /// Converts an answer. Only an unreachable API server or a rejected identity is an error; anything else concerns one check.
    fn fetched<T>(&self, answer: Result<T, Error>, doing: impl Fn() -> String) -> Result<Fetched<T>> {
        match answer {
            Ok(value) => Ok(Fetched::Found(value)),
            Err(error) if has_code(&error, 404) => Ok(Fetched::Absent),
            Err(error) if has_code(&error, 403) => {
                Ok(Fetched::Forbidden(format!("not allowed to {}", doing())))
            }
            Err(error) if matches!(error, Error::Service(_)) || has_code(&error, 401) => {
                Err(self.connection.explained(error, &doing()))
            }
            Err(Error::Api(status)) => {
                Ok(Fetched::Forbidden(format!("cannot {}: {}", doing(), status.message)))
            }
            Err(error) => Ok(Fetched::Forbidden(format!("cannot {}: {error}", doing()))),
        }
    }

    /// The rights among these that the controller's account lacks.
    async fn missing(
        &self,
        rights: Vec<Right>,
        installed: &Installed,
        namespace: &str,
    ) -> Result<Fetched<Vec<Right>>> {
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let answers = stream::iter(rights).map(|right| async move {
            let answer = self.post(path, &right.review(&installed.account, namespace)).await;
            (right, self.fetched(answer, || format!("create {}", resource_in_words(path))))
        });
        let answers: Vec<(Right, Result<Fetched<Value>>)> = answers.buffered(AT_ONCE).collect().await;
        let mut missing = Vec::new();
        for (right, answer) in answers {
            match answer? {
                Fetched::Found(review) if review["status"]["allowed"] == true => {}
                Fetched::Found(_) => missing.push(right),
                Fetched::Absent => {}
                Fetched::Forbidden(why) => return Ok(Fetched::Forbidden(why)),
            }
        }
        Ok(Fetched::Found(missing))
    }

    /// Creates a pod of a sequence in a dry run, to see whether it gets its gate.
    async fn probe(&self, seen: &ClusterView, installed: &Installed) -> Result<Option<Fetched<Probe>>> {
        let trial = claimant(seen).filter(|_| installed.policies || installed.webhook);
        let Some(Trial { namespace, sequence, gate, metadata }) = trial else {
            return Ok(None);
        };
        let path = format!("/api/v1/namespaces/{namespace}/pods?dryRun=All");
        let answer = match self.post(&path, &pod_on_trial(metadata)).await {
            // A pod of that name exists, so no dry run is possible.
            Err(Error::Api(status)) if status.code == 409 => return Ok(None),
            // Rejected by the quota of the namespace or by a foreign policy.
            Err(Error::Api(status))
                if status.code == 403 && !status.message.contains("cannot create resource") =>
            {
                Fetched::Forbidden(format!("rejected in namespace {namespace}: {}", status.message))
            }
            answer => self.fetched(answer, || format!("create pods in namespace {namespace}"))?,
        };
        Ok(Some(match answer {
            Fetched::Found(pod) => {
                let gates = pod["spec"]["schedulingGates"].as_array().cloned().unwrap_or_default();
                Fetched::Found(Probe {
                    gated: gates.iter().any(|there| there["name"] == gate),
                    namespace,
                    sequence,
                })
            }
            Fetched::Absent => Fetched::Absent,
            Fetched::Forbidden(why) => Fetched::Forbidden(why),
        }))
    }
}

/// A pod for the dry run: a member of a sequence, in a namespace where admission adds gates.
struct Trial {
    namespace: String,
    sequence: String,
    gate: String,
    metadata: Value,
}

/// Metadata that makes a pod a member of the sequence. Annotations are preferred, because the name and labels of a member could
/// match foreign selectors. Members of a workload cannot be imitated: they need an owner.
fn membership(sequence: &str, spec: &Spec) -> Option<Value> {
    let groups = || spec.groups.iter().enumerate();
    let said = groups().find(|(_, group)| matches!(group.members, Members::Selector(_)));
    let said = said.map(|(position, _)| {
        let annotations =
            json!({ names::POD_SEQUENCE_NAME: sequence, names::POD_SEQUENCE_GROUP: position.to_string() });
        json!({ "generateName": "rollcall-doctor-", "annotations": annotations })
    });
    let listed = groups().find_map(|(_, group)| match &group.members {
        Members::Names(names) => names.first().map(|name| json!({ "name": name })),
        Members::Selector(_) | Members::Workload(_) | Members::None => None,
    });
    said.or(listed)
}

fn claimant(seen: &ClusterView) -> Option<Trial> {
    let enabled = |namespace: &&NamespaceObject| {
        let label = namespace.metadata.labels.as_ref().and_then(|labels| labels.get(names::ENABLED_LABEL));
        label == Some(names::ENABLED_VALUE) && namespace.metadata.deletion_timestamp.is_none()
    };
    let namespaces: Vec<&str> =
        seen.namespaces.value()?.iter().filter(enabled).map(|object| object.metadata.name.as_str()).collect();
    seen.sequences.value()?.iter().map(SequenceObject::facts).find_map(|sequence| {
        let spec = sequence.spec.ok()?;
        let here = spec.pod_namespace == sequence.namespace && namespaces.contains(&&*sequence.namespace);
        let metadata = membership(&sequence.name, &spec).filter(|_| here)?;
        let (namespace, gate) = (sequence.namespace.to_string(), spec.gate.to_string());
        Some(Trial { namespace, sequence: sequence.name.to_string(), gate, metadata })
    })
}

fn pod_on_trial(metadata: Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {
            "securityContext": { "runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": { "type": "RuntimeDefault" } },
            "containers": [{
                "name": "none",
                "image": "example",
                "resources": { "requests": { "cpu": "1m", "memory": "1Mi" }, "limits": { "cpu": "1m", "memory": "1Mi" } },
                "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
            }],
        },
    })
}

/// API path of an object; `None` for a kind that is not checked.
fn path(object: &Value) -> Option<String> {
    let kind = object["kind"].as_str()?;
    if matches!(kind, "Namespace" | "ResourceQuota" | "ServiceAccount" | "PodDisruptionBudget") {
        return None;
    }
    let version = object["apiVersion"].as_str()?;
    let root = if version.contains('/') { "apis" } else { "api" };
    let lower = kind.to_lowercase();
    let plural =
        lower.strip_suffix("policy").map_or_else(|| format!("{lower}s"), |start| format!("{start}policies"));
    let place = object["metadata"]["namespace"]
        .as_str()
        .map(|name| format!("namespaces/{name}/"))
        .unwrap_or_default();
    Some(format!("/{root}/{version}/{place}{plural}/{}", object["metadata"]["name"].as_str()?))
}

/// Describes an API path, such as `deployments.apps in namespace x`.
fn resource_in_words(path: &str) -> String {
    let parts: Vec<&str> = path.split('?').next().unwrap_or_default().split('/').skip(1).collect();
    let (group, rest) = match parts.as_slice() {
        ["api", _version, rest @ ..] => ("", rest),
        ["apis", group, _version, rest @ ..] => (*group, rest),
        other => ("", other),
    };
    let (resource, place) = match rest {
        ["namespaces", namespace, resource, ..] => (*resource, format!(" in namespace {namespace}")),
        [resource, ..] => (*resource, String::new()),
        [] => ("", String::new()),
    };
    if group.is_empty() { format!("{resource}{place}") } else { format!("{resource}.{group}{place}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_asked_for_where_they_are() {
        let all = objects(Mode::Full, Some(Admission::Policies), "here");
        let paths: BTreeMap<String, String> =
            all.iter().filter_map(|object| Some((id(object), path(object)?))).collect();
        for (id, expected) in [
            (
                "Deployment/pod-sequence-controller",
                "/apis/apps/v1/namespaces/here/deployments/pod-sequence-controller",
            ),
            (
                "MutatingAdmissionPolicy/podsequence-pod-gates",
                "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies/podsequence-pod-gates",
            ),
            (
                "CustomResourceDefinition/podsequences.scheduling.example.com",
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/podsequences.scheduling.example.com",
            ),
        ] {
            assert_eq!(paths.get(id).map(String::as_str), Some(expected));
        }
    }

    #[test]
    fn paths_are_told_as_rights_are() {
        for (path, expected) in [
            ("/version", "version"),
            ("/api/v1/nodes", "nodes"),
            ("/apis/apps/v1/namespaces/x/deployments/y", "deployments.apps in namespace x"),
            ("/api/v1/namespaces/x/pods?dryRun=All", "pods in namespace x"),
        ] {
            assert_eq!(resource_in_words(path), expected);
        }
    }
}
