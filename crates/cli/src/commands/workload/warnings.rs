//! Warnings, printed before the first change, about tools and settings that may undo or prevent it.

use super::tiers::Tier;
use super::world::{Workload, World};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use rollcall_core::facts::OwnerKind;
use rollcall_core::sequence::index::SequenceEntry;

/// A warning, with a command that helps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    pub text: String,
    pub hint: Option<String>,
}

/// Warnings about the workloads of some tiers.
pub fn warnings<'t>(world: &World, tiers: impl IntoIterator<Item = &'t Tier>) -> Vec<Warning> {
    let mut found = Vec::new();
    if world.autoscalers.is_none() {
        found.push(Warning {
            text: "not allowed to list horizontalpodautoscalers: unknown whether one scales a workload"
                .into(),
            hint: None,
        });
    }
    for tier in tiers {
        for workload in tier.workloads(world) {
            found.extend(of_workload(world, workload));
        }
    }
    found
}

fn of_workload(world: &World, workload: &Workload) -> Vec<Warning> {
    let autoscalers = world.autoscalers.iter().flatten().filter(|one| scales(one, workload));
    let mut found: Vec<Warning> = autoscalers.map(|one| of_autoscaler(world, workload, one)).collect();
    found.extend(kueue(workload));
    found.extend(paused(world, workload));
    found.extend(owner(workload));
    found.extend(argo_cd(workload));
    found.extend(flux(workload));
    found.extend(other_sequences(world, workload));
    found
}

fn warning(workload: &Workload, text: impl std::fmt::Display, hint: Option<String>) -> Warning {
    Warning { text: format!("{} {text}", workload.title()), hint }
}

fn scales(autoscaler: &HorizontalPodAutoscaler, workload: &Workload) -> bool {
    let target = autoscaler.spec.as_ref().map(|spec| &spec.scale_target_ref);
    target.is_some_and(|target| target.kind == workload.kind.as_str() && target.name == workload.name())
}

fn of_autoscaler(world: &World, workload: &Workload, autoscaler: &HorizontalPodAutoscaler) -> Warning {
    let name = autoscaler.metadata.name.as_deref().unwrap_or_default();
    let owners = autoscaler.metadata.owner_references.iter().flatten();
    let scaled_object = owners.into_iter().find(|owner| owner.api_version.starts_with("keda.sh/"));
    match scaled_object {
        Some(owner) => {
            let namespace = world.namespace();
            let pause = format!(
                "kubectl annotate scaledobject {} -n {namespace} autoscaling.keda.sh/paused=true",
                owner.name
            );
            let text = format!(
                "is scaled by KEDA ({} {}), which also scales up from 0 and will undo a stop",
                owner.kind, owner.name
            );
            warning(workload, text, Some(pause))
        }
        None => {
            let text = format!(
                "is scaled by HorizontalPodAutoscaler {name}, which is inactive at size 0 and resumes afterwards"
            );
            warning(workload, text, None)
        }
    }
}

/// Kueue controls whether its Jobs are suspended.
fn kueue(workload: &Workload) -> Option<Warning> {
    let queue = labels(workload).find(|(key, _)| *key == "kueue.x-k8s.io/queue-name")?.1;
    (workload.kind == OwnerKind::Job).then(|| {
        warning(workload, format!("is in queue {queue} of Kueue, which will undo a suspension"), None)
    })
}

fn paused(world: &World, workload: &Workload) -> Option<Warning> {
    (workload.fields.spec.paused == Some(true)).then(|| {
        let text = "is paused: it can be scaled, but a new template is not rolled out";
        warning(workload, text, Some(resume(world, workload)))
    })
}

/// Command that resumes a paused Deployment.
pub fn resume(world: &World, workload: &Workload) -> String {
    format!("kubectl rollout resume {} -n {}", workload.title(), world.namespace())
}

fn owner(workload: &Workload) -> Option<Warning> {
    let owners = workload.fields.metadata.owner_references.as_ref()?;
    let owner = owners.iter().find(|owner| owner.controller == Some(true))?;
    let ours = OwnerKind::of_word(&owner.kind).is_some_and(|kind| kind != OwnerKind::Other);
    (!ours).then(|| {
        let text = format!("belongs to {} {}, whose controller may undo the change", owner.kind, owner.name);
        warning(workload, text, None)
    })
}

fn argo_cd(workload: &Workload) -> Option<Warning> {
    let (key, value) = labels(workload)
        .chain(annotations(workload))
        .find(|(key, _)| key.split_once('/').is_some_and(|(prefix, _)| prefix == "argocd.argoproj.io"))?;
    let application = match key {
        "argocd.argoproj.io/tracking-id" => value.split(':').next(),
        "argocd.argoproj.io/instance" => Some(value),
        _ => None,
    };
    let hint = application.map(|name| format!("argocd app set {name} --sync-policy none"));
    Some(warning(workload, "is managed by Argo CD, which undoes the change if self-healing is enabled", hint))
}

fn flux(workload: &Workload) -> Option<Warning> {
    let is_flux =
        |key: &str| key.split_once('/').is_some_and(|(prefix, _)| prefix.ends_with(".toolkit.fluxcd.io"));
    let (key, _) = labels(workload).chain(annotations(workload)).find(|(key, _)| is_flux(key))?;
    let prefix = key.split_once('/').map_or(key, |(prefix, _)| prefix);
    let label = |name: &str| {
        let key = format!("{prefix}/{name}");
        labels(workload).find(|(there, _)| *there == key).map(|(_, value)| value)
    };
    let kind = match prefix {
        "helm.toolkit.fluxcd.io" => "helmrelease",
        _ => "kustomization",
    };
    let hint = label("name").map(|name| {
        let namespace = label("namespace").map_or(String::new(), |namespace| format!(" -n {namespace}"));
        format!("flux suspend {kind} {name}{namespace}")
    });
    Some(warning(workload, "is managed by Flux, which undoes the change at its next reconciliation", hint))
}

fn other_sequences(world: &World, workload: &Workload) -> Option<Warning> {
    let own = world.sequence.metadata.uid();
    let has = |other: &&SequenceEntry| {
        let groups = other.spec().map_or(0, |spec| spec.groups.len());
        (0..groups).any(|position| other.cell(position).is_of(workload.uid()))
    };
    let others = world.index.sequences.iter().filter(|other| other.sequence.uid != own).filter(has);
    let names: Vec<String> = others.map(|other| other.sequence.name_in(world.namespace())).collect();
    (!names.is_empty())
        .then(|| warning(workload, format!("also belongs to PodSequence {}", names.join(", ")), None))
}

fn labels(workload: &Workload) -> impl Iterator<Item = (&str, &str)> {
    let labels = workload.fields.metadata.labels.iter().flatten();
    labels.map(|(key, value)| (key.as_str(), value.as_str()))
}

fn annotations(workload: &Workload) -> impl Iterator<Item = (&str, &str)> {
    let annotations = workload.fields.metadata.annotations.iter().flatten();
    annotations.map(|(key, value)| (key.as_str(), value.as_str()))
}
