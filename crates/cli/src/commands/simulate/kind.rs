//! Parses names of kinds as users type them.

use crate::similar::suggestion;
use anyhow::{Result, anyhow};
use rollcall_sim::kinds::Kind;

/// Short names of kubectl.
const SHORT_NAMES: [(&str, Kind); 16] = [
    ("ns", Kind::Namespace),
    ("no", Kind::Node),
    ("pc", Kind::PriorityClass),
    ("sa", Kind::ServiceAccount),
    ("cm", Kind::ConfigMap),
    ("svc", Kind::Service),
    ("quota", Kind::ResourceQuota),
    ("pvc", Kind::PersistentVolumeClaim),
    ("pdb", Kind::PodDisruptionBudget),
    ("podseq", Kind::PodSequence),
    ("deploy", Kind::Deployment),
    ("sts", Kind::StatefulSet),
    ("ds", Kind::DaemonSet),
    ("cj", Kind::CronJob),
    ("rs", Kind::ReplicaSet),
    ("po", Kind::Pod),
];

/// Parses a kind: `deployment`, `deployments`, `Deployment` or `deploy`.
pub fn kind_named(text: &str) -> Result<Kind> {
    let lower = text.to_lowercase();
    if let Some((_, kind)) = SHORT_NAMES.iter().find(|(short, _)| *short == lower) {
        return Ok(*kind);
    }
    let named = |kind: &Kind| kind.info().name.to_lowercase() == lower || kind.info().plural == lower;
    Kind::all().find(named).ok_or_else(|| {
        let names: Vec<String> = Kind::all().map(|kind| kind.info().name.to_lowercase()).collect();
        anyhow!("{text:?} is not a simulated kind{}", suggestion(&lower, names.iter().map(String::as_str)))
    })
}

/// Whether objects of this kind own pods.
pub fn has_pods(kind: Kind) -> bool {
    match kind {
        Kind::Deployment
        | Kind::StatefulSet
        | Kind::DaemonSet
        | Kind::CronJob
        | Kind::Job
        | Kind::ReplicaSet => true,
        Kind::Namespace
        | Kind::Node
        | Kind::CsiNode
        | Kind::PriorityClass
        | Kind::ServiceAccount
        | Kind::ConfigMap
        | Kind::Secret
        | Kind::Service
        | Kind::ResourceQuota
        | Kind::PersistentVolumeClaim
        | Kind::PodDisruptionBudget
        | Kind::PodSequence
        | Kind::Order
        | Kind::Ticket
        | Kind::ControllerRevision
        | Kind::Pod
        | Kind::Lease
        | Kind::Event => false,
    }
}

pub fn is_scaled(kind: Kind) -> bool {
    matches!(kind, Kind::Deployment | Kind::StatefulSet | Kind::ReplicaSet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_as_kubectl_takes_them() {
        for text in ["deployment", "deployments", "Deployment", "deploy"] {
            assert_eq!(kind_named(text).unwrap(), Kind::Deployment, "{text}");
        }
        for (short, kind) in SHORT_NAMES {
            assert_eq!(kind_named(short).unwrap(), kind);
        }
        assert_eq!(
            kind_named("deploymnet").unwrap_err().to_string(),
            "\"deploymnet\" is not a simulated kind; did you mean deployment or daemonset?"
        );
    }
}
