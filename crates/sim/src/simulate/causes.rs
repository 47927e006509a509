//! Why something has not arrived. The core gives the reason; this module adds details and hints. The reader has manifests
//! but no cluster, so hints do not use kubectl.

use crate::actors::kubelet::missing_volume;
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::plan::Plan;
use crate::program_behaviour::PodFilter;
use crate::report::Why;
use crate::store::Key;
use jiff::Timestamp;
use rollcall_core::dispatch::explain_pod;
use rollcall_core::facts::Pod;
use rollcall_core::index::Index;
use rollcall_core::line::{Hint, Line};
use rollcall_core::sequence::explain::explain_sequence;
use rollcall_core::sequence::reason::Reason;
use serde_json::Value;
use std::collections::BTreeSet;

/// Limit of label values that a hint lists.
const MOST_VALUES: usize = 5;
const QUOTA: &str = "raise the quota, or ask for fewer pods";

pub struct Causes<'a> {
    pub plan: &'a Plan,
    pub cluster: &'a Cluster,
    pub index: &'a Index,
    pub now: Timestamp,
}

/// The reason that the containers of a pod wait, for a pod with a launch order.
fn why_launching(line: &Line) -> Option<Why> {
    if !["RankOpen", "BarrierTaken", "LaunchHeld"].contains(&line.code) {
        return line.below.iter().find_map(why_launching);
    }
    let hint = line.hints.iter().find_map(|hint| match hint {
        Hint::Advice(advice) => Some(advice.clone()),
        Hint::Command { .. } => None,
    });
    Some(Why { code: line.code.into(), sentence: line.text.clone(), hint })
}

impl Causes<'_> {
    pub fn of_pod(&self, pod: &Pod) -> Why {
        let line = explain_pod(self.index, pod, self.now);
        let why = self.first(&line, &pod.namespace).or_else(|| why_launching(&line));
        why.unwrap_or_else(|| Why {
            code: "NotClaimed".into(),
            sentence: match pod.gates.first() {
                Some(gate) => {
                    format!(
                        "{} is held by the gate {gate}, but no PodSequence in the manifests selects it",
                        pod.name
                    )
                }
                None => line.text.clone(),
            },
            hint: Some("create a PodSequence that lists or selects the pod, or remove the gate".into()),
        })
    }

    /// The reason for a workload that has fewer pods than desired.
    pub fn of_workload(&self, key: &Key, lacks: String) -> Why {
        let title = format!("{} {}", key.kind.info().name, key.name);
        let behind = self.refusal(&title, &key.namespace).or_else(|| self.quota(&key.namespace));
        let hint = behind.as_ref().map(|_| QUOTA.to_owned());
        let sentence = behind.map_or(lacks.clone(), |behind| format!("{lacks}: {behind}"));
        Why { code: "TooFewPods".into(), sentence, hint }
    }

    /// The first line with a reason, depth first.
    pub fn first(&self, line: &Line, namespace: &str) -> Option<Why> {
        match &line.reason {
            Some(reason) => Some(self.why(reason, line, namespace)),
            None => line.below.iter().find_map(|below| self.first(below, namespace)),
        }
    }

    fn why(&self, reason: &Reason, line: &Line, namespace: &str) -> Why {
        let pod = reason.pod().and_then(|name| self.cluster.store.find(Kind::Pod, namespace, name));
        let pod = pod.map(|stored| &stored.value);
        let sentence = match (reason, self.detail(reason, pod, namespace)) {
            (Reason::WaitsForGroup { .. }, _) => line.text.clone(),
            (_, Some(detail)) => format!("{}: {detail}", reason.sentence()),
            (_, None) => reason.sentence(),
        };
        let hint = self.hint(reason, pod, namespace).filter(|hint| !hint.is_empty());
        Why { code: reason.code().to_owned(), sentence, hint }
    }

    /// A detail from the objects that the reason does not contain.
    fn detail(&self, reason: &Reason, pod: Option<&Value>, namespace: &str) -> Option<String> {
        match (reason, pod) {
            (Reason::TooFewPods { owner, .. }, _) => {
                self.refusal(owner, namespace).or_else(|| self.quota(namespace))
            }
            (_, Some(pod)) => unscheduled(pod)
                .or_else(|| refused_container(pod))
                .or_else(|| missing_volume(&self.cluster.store, namespace, pod)),
            (_, None) => None,
        }
    }

    fn hint(&self, reason: &Reason, pod: Option<&Value>, namespace: &str) -> Option<String> {
        match (reason, pod) {
            (Reason::NothingMatches { .. }, _) => None,
            (Reason::TooFewPods { owner, .. }, _) => {
                self.refusal(owner, namespace).or_else(|| self.quota(namespace)).map(|_| QUOTA.into())
            }
            (Reason::JobSuspended { .. }, _) => Some("remove `suspend: true` from the Job".into()),
            (Reason::WaitsForGroup { .. }, _) => None,
            (Reason::OtherSequence { sequence, .. }, _) => Some(self.hint_on_circle(sequence)),
            (
                Reason::NotReady { .. }
                | Reason::NotStarted { .. }
                | Reason::NotSucceeded { .. }
                | Reason::PodFailed { .. }
                | Reason::JobFailed { .. },
                Some(pod),
            ) => {
                self.hint_on_fail_flag(pod).or_else(|| hint_on_scheduling(&unscheduled(pod)?)).or_else(|| {
                    refused_container(pod).or_else(|| missing_volume(&self.cluster.store, namespace, pod))?;
                    Some("add it to the manifests".into())
                })
            }
            (_, Some(_)) | (_, None) => Some(reason.hint().to_owned()),
        }
    }

    /// The hint for a pod that another sequence also holds. If the sequences wait for each other, it describes the circle.
    fn hint_on_circle(&self, sequence: &str) -> String {
        let mut path = vec![sequence.to_owned()];
        while let Some(next) = path.last().and_then(|last| self.waits_for(last)) {
            if let Some(at) = path.iter().position(|known| *known == next) {
                let first = path.get(at + 1).unwrap_or(&next);
                let circle = format!("podseq/{} waits for podseq/{first}", path[at]);
                let rest = path.iter().skip(at + 2).chain([&next].into_iter().filter(|next| *next != first));
                let rest: String = rest.map(|name| format!(", which waits for podseq/{name}")).collect();
                return format!("{circle}{rest}: change the order in one of them");
            }
            path.push(next);
        }
        format!("both sequences must release the pod: check why podseq/{sequence} still holds it")
    }

    /// The other sequence that holds pods of this one.
    fn waits_for(&self, sequence: &str) -> Option<String> {
        let entry = self.index.sequences.iter().find(|entry| *entry.sequence.name == *sequence)?;
        let lines = explain_sequence(self.index.facts(), entry, self.now).below;
        lines.iter().flat_map(|line| &line.below).find_map(|line| match &line.reason {
            Some(Reason::OtherSequence { sequence, .. }) => Some(sequence.clone()),
            _ => None,
        })
    }

    /// Names the `--fail` flag that made a pod fail.
    fn hint_on_fail_flag(&self, pod: &Value) -> Option<String> {
        let fail =
            self.plan.fail.iter().rfind(|fail| PodFilter::Selected(fail.pods.clone()).includes(pod))?;
        Some(format!("it fails because of --fail '{}'", fail.pods))
    }

    /// Why a workload cannot create its pods, from its `ReplicaFailure` condition.
    fn refusal(&self, owner: &str, namespace: &str) -> Option<String> {
        let (kind, name) = owner.split_once(' ')?;
        let kind = Kind::named("apps/v1", kind)?;
        let owner = self.cluster.store.find(kind, namespace, name)?;
        let failure = condition(owner, "ReplicaFailure")?;
        failure["message"].as_str().map(str::to_owned)
    }

    /// The first exhausted quota of a namespace.
    fn quota(&self, namespace: &str) -> Option<String> {
        self.cluster.store.list(Kind::ResourceQuota, Some(namespace)).find_map(|(key, quota)| {
            let status = &quota["status"];
            let hard = status["hard"].as_object()?.iter();
            let (what, limit) = hard.into_iter().find(|(what, limit)| status["used"][*what] == **limit)?;
            Some(format!("quota {} is exhausted: {what} {}", key.name, limit.as_str()?))
        })
    }

    /// The existing values of a label in the selector, if no pod has one of the selected values.
    pub fn existing_labels(
        &self,
        selector: &rollcall_core::selector::Selector,
        namespace: &str,
    ) -> Option<String> {
        let labels: Vec<&Value> =
            [Kind::Pod, Kind::Deployment, Kind::StatefulSet, Kind::DaemonSet, Kind::Job]
                .into_iter()
                .flat_map(|kind| self.cluster.store.list(kind, Some(namespace)))
                .map(|(key, object)| match key.kind {
                    Kind::Pod => &object["metadata"]["labels"],
                    _ => &object["spec"]["template"]["metadata"]["labels"],
                })
                .collect();
        let values_of = |key: &str| -> BTreeSet<&str> {
            labels.iter().filter_map(|labels| labels[key].as_str()).collect()
        };
        selector.equalities().find_map(|(key, wanted)| {
            let there = values_of(key);
            if wanted.iter().any(|wanted| there.contains(&**wanted)) {
                return None;
            }
            let list: Vec<String> =
                there.iter().take(MOST_VALUES).map(|value| format!("{key}={value}")).collect();
            Some(match list.is_empty() {
                true => format!("no pod in namespace {namespace} has the label {key}"),
                false => format!(
                    "existing labels: {}{}",
                    list.join(", "),
                    if there.len() > MOST_VALUES { " …" } else { "" }
                ),
            })
        })
    }
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// The scheduler's message without the part about preemption.
fn unscheduled(pod: &Value) -> Option<String> {
    let scheduled = condition(pod, "PodScheduled").filter(|is| is["reason"] == "Unschedulable")?;
    let message = scheduled["message"].as_str()?;
    let before = message.split(" no new claims to deallocate").next().unwrap_or(message);
    Some(before.trim_end_matches('.').to_owned())
}

/// Why the kubelet cannot create a container.
fn refused_container(pod: &Value) -> Option<String> {
    let statuses = ["initContainerStatuses", "containerStatuses"];
    let mut all = statuses.iter().flat_map(|list| pod["status"][*list].as_array().into_iter().flatten());
    all.find_map(|status| {
        let waiting = &status["state"]["waiting"];
        let message =
            waiting["message"].as_str().filter(|_| waiting["reason"] == "CreateContainerConfigError");
        message.map(str::to_owned)
    })
}

/// A hint for an unschedulable pod, from the scheduler's message.
fn hint_on_scheduling(message: &str) -> Option<String> {
    let hint = match message {
        said if said.contains("Insufficient") || said.contains("Too many pods") => {
            "reduce the requests, or use larger nodes: --nodes N:cpu=…,memory=…"
        }
        said if said.contains("anti-affinity") || said.contains("topology spread") => {
            "the pod must not share a node or zone with other pods: add nodes with --nodes"
        }
        said if said.contains("untolerated taint") => "add a toleration or an untainted Node",
        said if said.contains("node affinity/selector") => "add Nodes with these labels to the manifests",
        said if said.contains("persistentvolumeclaim") => "add the PersistentVolumeClaim to the manifests",
        _ => return None,
    };
    Some(hint.into())
}
