//! What holds the controller's account to what is its own (`config/rbac/limits.yaml`): in every mode, whole and in force.

use super::{Case, number, some};
use crate::commands::doctor::compare::{in_words, strictly};
use crate::commands::doctor::fetched::{DEPLOYMENT, Fetched, Installed};
use crate::commands::doctor::finding::{Check, Finding};
use crate::commands::install::{Mode, id, objects};
use serde_json::Value;
use std::collections::BTreeSet;

const KIND: &str = "ValidatingAdmissionPolicy";
const BINDING_KIND: &str = "ValidatingAdmissionPolicyBinding";
/// So many objects are named in a command.
const FEW: usize = 2;

pub fn check(case: &Case<'_>) -> Vec<Finding> {
    let Case { seen, installed, command_line } = case;
    // Without a controller there is no account to be limited; they come together with it.
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
                    let text = format!("{} is not ours: {}", id.replace('/', " "), in_words(&found));
                    findings.push(case.differs(Check::Limits, text, command_line.replace(installed, &[id])));
                }
            }
            Fetched::Absent => missing.push(id.as_str()),
            Fetched::Forbidden(why) => {
                unseen.insert(why.as_str());
            }
        }
    }
    findings.extend(
        unseen.iter().map(|why| Check::Limits.unknown("what holds the controller's account to its own", why)),
    );
    if !missing.is_empty() {
        let names: Vec<String> = missing.iter().map(|id| id.replace('/', " ")).collect();
        let text = format!(
            "of {} that hold the controller's account to what is its own {} missing: {}: {}",
            number(ours.len(), "object"),
            missing.len(),
            some(&names),
            meaning(&missing, installed)
        );
        // All of them, rather than a command that nobody can read.
        let only = if missing.len() > FEW { vec![KIND, BINDING_KIND] } else { missing };
        findings.push(case.differs(Check::Limits, text, command_line.restore(installed, &only)));
    }
    if findings.is_empty() {
        let text = format!(
            "all {} that hold the controller's account to what is its own are there",
            number(ours.len(), "object")
        );
        findings.push(Check::Limits.ok(text));
    }
    findings
}

fn is_limit(id: &str) -> bool {
    id.split_once('/').is_some_and(|(kind, _)| kind == KIND || kind == BINDING_KIND)
}

/// A policy, whether it matters in an installation, and what can be done while it is not in force.
type Meaning = (&'static str, fn(&Installed) -> bool, &'static str);

/// The worst first.
const MEANINGS: [Meaning; 13] = [
    (
        "controller-webhooks",
        |it| it.webhook || it.launch,
        "whoever steals its token can have every Secret that is written sent to him",
    ),
    (
        "controller-guardians",
        |it| it.mode == Mode::Full,
        "whoever steals its token can run any pod in any namespace, and delete every pod",
    ),
    ("controller-pods", |_| true, "whoever steals its token can change the image of every pod"),
    (
        "controller-barriers",
        |it| it.launch,
        "whoever steals its token can change every ConfigMap of the cluster",
    ),
    (
        "controller-nodes",
        |it| it.mode == Mode::Full,
        "whoever steals its token can evict every pod by taints",
    ),
    (
        "namespaces",
        |_| true,
        "whoever may change a Namespace decides whether its sequences taint all nodes, and which gates of others go there",
    ),
    (
        "controller-nominations",
        |it| it.mode == Mode::Full,
        "whoever steals its token can write the status of every pod",
    ),
    (
        "controller-classes",
        |it| it.mode == Mode::Full,
        "whoever steals its token can create priority classes by which others are evicted",
    ),
    (
        "controller-tickets",
        |it| it.mode == Mode::Full,
        "whoever steals its token can take away the room of every ticket",
    ),
    (
        "controller-secrets",
        |it| it.webhook || it.launch,
        "whoever steals its token can create any Secret beside the controller",
    ),
    (
        "controller-notes",
        |_| true,
        "whoever steals its token can change every ConfigMap beside the controller",
    ),
    ("controller-leases", |_| true, "whoever steals its token can create any lease beside the controller"),
    ("controller-events", |_| true, "whoever steals its token can write events in the name of others"),
];

fn meaning(missing: &[&str], installed: &Installed) -> &'static str {
    let lacks = |name: &str| {
        missing.iter().any(|id| id.split_once("/podsequence-").is_some_and(|(_, of)| of == name))
    };
    let meaning = MEANINGS.iter().find(|(name, matters, _)| lacks(name) && matters(installed));
    meaning.map_or("that matters only with Full mode or a webhook", |(_, _, meaning)| *meaning)
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
        assert_eq!(unused, "that matters only with Full mode or a webhook");
    }
}
