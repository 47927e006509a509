//! The limits of the controller's account (`config/rbac/limits.yaml`): admission policies that restrict it to its own objects.
//! They must be complete and in force in every mode.

use super::{Case, number, some};
use crate::commands::doctor::compare::{in_words, strictly};
use crate::commands::doctor::fetched::{DEPLOYMENT, Fetched, Installed};
use crate::commands::doctor::finding::{Check, DoctorFinding};
use crate::commands::install::{Mode, id, objects};
use serde_json::Value;
use std::collections::BTreeSet;

const KIND: &str = "ValidatingAdmissionPolicy";
const BINDING_KIND: &str = "ValidatingAdmissionPolicyBinding";
/// Limit of objects that a command names one by one.
const MOST_NAMED: usize = 2;

pub fn check(case: &Case<'_>) -> Vec<DoctorFinding> {
    let Case { seen, installed, command_line } = case;
    // Without a controller there is no account to limit. Installing the controller also installs the limits.
    if *seen.object(DEPLOYMENT) == Fetched::Absent {
        return Vec::new();
    }
    let all = objects(installed.mode, None, &seen.namespace);
    let ours: Vec<(String, &Value)> =
        all.iter().map(|object| (id(object), object)).filter(|(id, _)| is_limit(id)).collect();
    let (mut findings, mut missing, mut unseen) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (id, object) in &ours {
        match seen.object(id) {
            Fetched::Found(there) => {
                let found = strictly(&object["spec"], &there["spec"], "spec");
                if !found.is_empty() {
                    let text = format!(
                        "{} differs from the expected manifest: {}",
                        id.replace('/', " "),
                        in_words(&found)
                    );
                    findings.push(case.differs(Check::Limits, text, command_line.replace(installed, &[id])));
                }
            }
            Fetched::Absent => missing.push(id.as_str()),
            Fetched::Forbidden(why) => {
                unseen.insert(why.as_str());
            }
        }
    }
    findings
        .extend(unseen.iter().map(|why| Check::Limits.unknown("limits of the controller's account", why)));
    if !missing.is_empty() {
        let names: Vec<String> = missing.iter().map(|id| id.replace('/', " ")).collect();
        let text = format!(
            "limits of the controller's account: {} of {} missing: {}; {}",
            missing.len(),
            number(ours.len(), "object"),
            some(&names),
            meaning(&missing, installed)
        );
        // Restores all of them, rather than printing an unreadable command.
        let only = if missing.len() > MOST_NAMED { vec![KIND, BINDING_KIND] } else { missing };
        findings.push(case.differs(Check::Limits, text, command_line.restore(installed, &only)));
    }
    if findings.is_empty() {
        let text = format!(
            "limits of the controller's account: all {} are installed and match this program",
            number(ours.len(), "object")
        );
        findings.push(Check::Limits.ok(text));
    }
    findings
}

fn is_limit(id: &str) -> bool {
    id.split_once('/').is_some_and(|(kind, _)| kind == KIND || kind == BINDING_KIND)
}

/// A policy, whether it matters for an installation, and the risk while it is missing.
type Meaning = (&'static str, fn(&Installed) -> bool, &'static str);

/// Sorted by risk, the highest first.
const MEANINGS: [Meaning; 13] = [
    (
        "controller-webhooks",
        |it| it.webhook || it.launch,
        "an attacker with its token can receive every Secret that is written",
    ),
    (
        "controller-guardians",
        |it| it.mode == Mode::Full,
        "an attacker with its token can run any pod in any namespace, and delete every pod",
    ),
    ("controller-pods", |_| true, "an attacker with its token can change the image of every pod"),
    (
        "controller-barriers",
        |it| it.launch,
        "an attacker with its token can change every ConfigMap of the cluster",
    ),
    (
        "controller-nodes",
        |it| it.mode == Mode::Full,
        "an attacker with its token can evict every pod by taints",
    ),
    (
        "namespaces",
        |_| true,
        "everyone with write access to a Namespace decides whether its sequences taint all nodes, and which foreign gates are removed there",
    ),
    (
        "controller-nominations",
        |it| it.mode == Mode::Full,
        "an attacker with its token can write the status of every pod",
    ),
    (
        "controller-classes",
        |it| it.mode == Mode::Full,
        "an attacker with its token can create priority classes that preempt other pods",
    ),
    (
        "controller-tickets",
        |it| it.mode == Mode::Full,
        "an attacker with its token can take away the capacity of every ticket",
    ),
    (
        "controller-secrets",
        |it| it.webhook || it.launch,
        "an attacker with its token can create any Secret in the namespace of the controller",
    ),
    (
        "controller-notes",
        |_| true,
        "an attacker with its token can change every ConfigMap in the namespace of the controller",
    ),
    (
        "controller-leases",
        |_| true,
        "an attacker with its token can create any lease in the namespace of the controller",
    ),
    (
        "controller-events",
        |_| true,
        "an attacker with its token can write events in the name of other components",
    ),
];

fn meaning(missing: &[&str], installed: &Installed) -> &'static str {
    let lacks = |name: &str| {
        missing.iter().any(|id| id.split_once("/podsequence-").is_some_and(|(_, of)| of == name))
    };
    let meaning = MEANINGS.iter().find(|(name, matters, _)| lacks(name) && matters(installed));
    meaning.map_or("this matters only with Full mode or a webhook", |(_, _, meaning)| *meaning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_has_a_meaning() {
        let installed = Installed { mode: Mode::Full, webhook: true, launch: true, ..Installed::default() };
        let all = objects(Mode::Lite, None, "x");
        let ids: Vec<String> = all.iter().map(id).filter(|id| is_limit(id)).collect();
        let meanings: BTreeSet<&str> = ids.iter().map(|id| meaning(&[id], &installed)).collect();
        assert_eq!((meanings.len(), ids.len()), (MEANINGS.len(), 2 * MEANINGS.len()), "{meanings:?}");
        let lite = Installed::default();
        let unused = meaning(&["ValidatingAdmissionPolicy/podsequence-controller-webhooks"], &lite);
        assert_eq!(unused, "this matters only with Full mode or a webhook");
    }
}
