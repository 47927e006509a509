//! Why something has not arrived. The reason is the core's. Details and hints are added here, for a reader who has manifests and
//! no cluster: hints do not use kubectl.

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

/// Values of a label that are named in a hint.
const MOST_VALUES: usize = 5;
const QUOTA: &str = "raise the quota, or ask for fewer pods";

pub struct Causes<'a> {
    pub plan: &'a Plan,
    pub cluster: &'a Cluster,
    pub index: &'a Index,
    pub now: Timestamp,
}

/// Which container holds up the others, or what holds up all of them.
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
                    format!("{} is held by the gate {gate}, and no PodSequence here claims it", pod.name)
                }
                None => line.text.clone(),
            },
            hint: Some("create a PodSequence that lists or selects it, or take the gate away".into()),
        })
    }

    /// Of a workload that has less than it wants.
    pub fn of_workload(&self, key: &Key, lacks: String) -> Why {
        let title = format!("{} {}", key.kind.info().name, key.name);
        let behind = self.refusal(&title, &key.namespace).or_else(|| self.quota(&key.namespace));
        let hint = behind.as_ref().map(|_| QUOTA.to_owned());
        let sentence = behind.map_or(lacks.clone(), |behind| format!("{lacks}: {behind}"));
        Why { code: "TooFewPods".into(), sentence, hint }
    }

    /// The first line that is a reason, from the top.
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

    /// What the objects say beyond the reason.
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
            (Reason::JobSuspended { .. }, _) => Some("take `suspend: true` out of the Job".into()),
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

    /// What to do about a pod that another sequence holds: break the circle, if they wait for each other in one.
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
        format!("both have to let it go: look at what podseq/{sequence} waits for")
    }

    /// The sequence that holds what this one wants to start.
    fn waits_for(&self, sequence: &str) -> Option<String> {
        let entry = self.index.sequences.iter().find(|entry| *entry.sequence.name == *sequence)?;
        let lines = explain_sequence(self.index.facts(), entry, self.now).below;
        lines.iter().flat_map(|line| &line.below).find_map(|line| match &line.reason {
            Some(Reason::OtherSequence { sequence, .. }) => Some(sequence.clone()),
            _ => None,
        })
    }

    /// The `--fail` that made a pod fail.
    fn hint_on_fail_flag(&self, pod: &Value) -> Option<String> {
        let fail =
            self.plan.fail.iter().rfind(|fail| PodFilter::Selected(fail.pods.clone()).includes(pod))?;
        Some(format!("it was told to by --fail '{}'", fail.pods))
    }

    /// Why a workload cannot create its pods, as it says itself.
    fn refusal(&self, owner: &str, namespace: &str) -> Option<String> {
        let (kind, name) = owner.split_once(' ')?;
        let kind = Kind::named("apps/v1", kind)?;
        let owner = self.cluster.store.find(kind, namespace, name)?;
        let failure = condition(owner, "ReplicaFailure")?;
        failure["message"].as_str().map(str::to_owned)
    }

    /// The first quota of a namespace that is used up.
    fn quota(&self, namespace: &str) -> Option<String> {
        self.cluster.store.list(Kind::ResourceQuota, Some(namespace)).find_map(|(key, quota)| {
            let status = &quota["status"];
            let hard = status["hard"].as_object()?.iter();
            let (what, limit) = hard.into_iter().find(|(what, limit)| status["used"][*what] == **limit)?;
            Some(format!("quota {} is used up: {what} {}", key.name, limit.as_str()?))
        })
    }

    /// The values that a selected label really has, where no pod has the selected value.
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
                true => format!("no pod in namespace {namespace} has a label {key}"),
                false => format!(
                    "there are {}{}",
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

/// What the scheduler says, without what it says about preemption.
fn unscheduled(pod: &Value) -> Option<String> {
    let scheduled = condition(pod, "PodScheduled").filter(|is| is["reason"] == "Unschedulable")?;
    let message = scheduled["message"].as_str()?;
    let before = message.split(" no new claims to deallocate").next().unwrap_or(message);
    Some(before.trim_end_matches('.').to_owned())
}

/// What keeps the kubelet from making a container.
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

/// What to do when no node takes a pod, by what the scheduler says.
fn hint_on_scheduling(message: &str) -> Option<String> {
    let hint = match message {
        said if said.contains("Insufficient") || said.contains("Too many pods") => {
            "ask for less, or give the nodes more with --nodes N:cpu=…,memory=…"
        }
        said if said.contains("anti-affinity") || said.contains("topology spread") => {
            "it keeps apart from others: give it more nodes with --nodes"
        }
        said if said.contains("untolerated taint") => "add a toleration, or another Node to the manifests",
        said if said.contains("node affinity/selector") => "add Nodes with these labels to the manifests",
        said if said.contains("persistentvolumeclaim") => "add the claim to the manifests",
        _ => return None,
    };
    Some(hint.into())
}
