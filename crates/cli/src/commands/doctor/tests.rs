//! Breaks an installation in one way at a time, and records the findings.

use super::check::all;
use super::fetched::{
    CONFIGURATION, ClusterView, DEFINITION, DEPLOYMENT, Fetched, LAUNCH_CONFIGURATION, Probe, SERVICE,
    Version,
};
use super::finding::{DoctorFinding, Level, outcome};
use super::rights::needed;
use super::testing::{NAMESPACE, certify, change, full, lite, namespace, node, now, webhook};
use super::{command_line::CommandLine, print};
use crate::cli::Access;
use crate::commands::install::of_launch_alone;
use crate::outcome::Outcome;
use crate::testing;
use rollcall_api::names;
use rollcall_api::watch::{journal_key, journal_text};
use rollcall_core::Uid;
use rollcall_core::journal::Journal;
use serde_json::{Value, json};
use std::time::Duration;

/// A broken installation: its name, the correct installation, and the change.
pub(super) type Break = (&'static str, fn() -> ClusterView, fn(&mut ClusterView));

fn findings(seen: &ClusterView) -> Vec<DoctorFinding> {
    all(seen, &CommandLine::new(&Access::default(), NAMESPACE))
}

/// Prints the findings of each broken installation, without those of level `Ok`.
pub(super) fn findings_of(breaks: &[Break]) -> String {
    let mut text = String::new();
    for (name, before, how) in breaks {
        let mut seen = before();
        how(&mut seen);
        let worth = findings(&seen).into_iter().filter(|finding| finding.level != Level::Ok);
        let lines = print::text(&worth.collect::<Vec<_>>());
        text += &format!("# {name}\n{}\n", lines.without_colours());
    }
    text
}

pub(super) fn absent(seen: &mut ClusterView, id: &str) {
    seen.objects.insert(id.into(), Fetched::Absent);
}

fn shop(change: impl FnOnce(&mut Value)) -> Fetched<Vec<rollcall_api::sequence::SequenceObject>> {
    let mut shop = testing::shop();
    change(&mut shop);
    Fetched::Found(vec![testing::sequence(shop)])
}

#[test]
fn what_is_as_it_should_be_is_ok() {
    let mut text = String::new();
    for (name, seen) in [("lite", lite()), ("full", full()), ("webhook", webhook())] {
        let found = findings(&seen);
        assert_eq!(outcome(&found), Outcome::Done, "{name}: {found:#?}");
        assert!(found.iter().all(|finding| finding.level == Level::Ok), "{name}: {found:#?}");
        text += &format!("# {name}\n{}\n", print::text(&found).without_colours());
    }
    insta::assert_snapshot!(text);
}

#[test]
fn the_server_and_the_definition() {
    let text = findings_of(&[
        ("too old", lite, |seen| seen.version = Fetched::Found(Version { minor: 32, text: "1.32.1".into() })),
        ("missing", lite, |seen| absent(seen, DEFINITION)),
        ("not established", lite, |seen| {
            change(seen, DEFINITION, |crd| crd["status"]["conditions"] = json!([]))
        }),
        ("an additional field", full, |seen| {
            change(seen, DEFINITION, |crd| {
                crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
                    ["more"] = json!({"type": "string"});
            });
        }),
        ("a missing column, with a newer controller", lite, |seen| {
            change(seen, DEFINITION, |crd| {
                drop(
                    crd["spec"]["versions"][0]["additionalPrinterColumns"]
                        .as_array_mut()
                        .expect("some")
                        .pop(),
                );
            });
            let Fetched::Found(lease) = &mut seen.lease else { panic!("no lease") };
            lease["metadata"]["annotations"][names::LEASE_VERSION] = "99.0.0".into();
        }),
        ("being deleted", lite, |seen| {
            change(seen, DEFINITION, |crd| {
                crd["metadata"]["deletionTimestamp"] = "2026-11-15T23:00:00Z".into()
            });
        }),
    ]);
    insta::assert_snapshot!(text);
}

#[test]
fn the_controller() {
    fn stale(seen: &mut ClusterView) {
        let Fetched::Found(lease) = &mut seen.lease else { panic!("no lease") };
        lease["spec"]["renewTime"] = (now() - Duration::from_secs(300)).to_string().into();
    }
    let text = findings_of(&[
        ("not installed", full, |seen| {
            absent(seen, DEPLOYMENT);
            seen.lease = Fetched::Absent;
        }),
        ("runs elsewhere", lite, |seen| absent(seen, DEPLOYMENT)),
        ("scaled to 0", full, |seen| {
            change(seen, DEPLOYMENT, |deployment| deployment["spec"]["replicas"] = 0.into());
            stale(seen);
        }),
        ("not ready", lite, |seen| {
            change(seen, DEPLOYMENT, |deployment| deployment["status"] = json!({}));
            let mut pod = testing::unready("pod-sequence-controller-7d4b9-x2x4z");
            pod["status"]["containerStatuses"][0]["state"] =
                json!({"waiting": {"reason": "ImagePullBackOff"}});
            seen.replicas = Fetched::Found(vec![testing::pod(pod)]);
            seen.lease = Fetched::Absent;
        }),
        ("one of two ready", full, |seen| {
            change(seen, DEPLOYMENT, |deployment| deployment["status"]["readyReplicas"] = 1.into());
        }),
        ("lease not renewed", lite, stale),
        ("lease released", full, |seen| {
            seen.lease = Fetched::Found(json!({"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}}));
        }),
        ("older version in the image tag", lite, |seen| {
            let Fetched::Found(lease) = &mut seen.lease else { panic!("no lease") };
            lease["metadata"]["annotations"][names::LEASE_VERSION] = "0.0.9".into();
            change(seen, DEPLOYMENT, |deployment| {
                deployment["spec"]["template"]["spec"]["containers"][0]["image"] =
                    "registry/rollcall:0.0.9".into();
            });
        }),
        ("one replica in Full mode", full, |seen| {
            change(seen, DEPLOYMENT, |deployment| deployment["spec"]["replicas"] = 1.into());
        }),
        ("two replicas without a budget", full, |seen| seen.budgets = Fetched::Found(Vec::new())),
    ]);
    insta::assert_snapshot!(text);
}

#[test]
fn permissions() {
    let text = findings_of(&[
        ("two rights missing", full, |seen| {
            let rights = needed(&seen.installed(), NAMESPACE).into_iter();
            let missing =
                |resource: &str, verb: &str| resource == "nodes" || resource == "pods" && verb == "patch";
            seen.missing =
                Fetched::Found(rights.filter(|right| missing(&right.resource, &right.verb)).collect());
        }),
        ("one right too many", lite, |seen| {
            change(seen, "ClusterRole/pod-sequence-controller-lite", |role| {
                role["rules"][0]["verbs"].as_array_mut().expect("verbs").push("update".into());
            });
        }),
        ("the roles of launch order missing", full, |seen| {
            let rights = needed(&seen.installed(), NAMESPACE).into_iter();
            seen.missing = Fetched::Found(rights.filter(|right| right.role.contains("-launch")).collect());
        }),
        ("leftovers of Full mode", lite, |seen| {
            for (id, fetched) in webhook().objects {
                if id.starts_with("ClusterRoleBinding/") {
                    seen.objects.insert(id, fetched);
                }
            }
        }),
    ]);
    insta::assert_snapshot!(text);
}

#[test]
fn limits() {
    fn policy(name: &str) -> String {
        format!("ValidatingAdmissionPolicy/podsequence-{name}")
    }
    fn binding(name: &str) -> String {
        format!("ValidatingAdmissionPolicyBinding/podsequence-{name}")
    }
    let text = findings_of(&[
        ("none in Lite mode", lite, |seen| seen.objects.retain(|id, _| !id.starts_with("Validating"))),
        ("none in Full mode with the webhook", webhook, |seen| {
            seen.objects.retain(|id, _| !id.starts_with("Validating"));
        }),
        ("a binding missing", lite, |seen| absent(seen, &binding("controller-pods"))),
        ("a policy missing", full, |seen| absent(seen, &policy("namespaces"))),
        ("audit only", full, |seen| {
            change(seen, &binding("controller-nodes"), |binding| {
                binding["spec"]["validationActions"] = json!(["Audit"]);
            });
        }),
        ("not in all namespaces", lite, |seen| {
            change(seen, &binding("controller-pods"), |binding| {
                binding["spec"]["matchResources"] = json!({"namespaceSelector": {"matchLabels": {"a": "b"}}});
            });
        }),
        ("for another account", lite, |seen| {
            change(seen, &policy("controller-events"), |policy| {
                policy["spec"]["matchConditions"][0]["expression"] = "false".into();
            });
        }),
        ("not for pods", full, |seen| {
            change(seen, &policy("controller-pods"), |policy| {
                policy["spec"]["matchConstraints"]["excludeResourceRules"] = json!([{"resources": ["pods"]}]);
            });
        }),
        ("no controller, no limits", lite, |seen| {
            seen.objects.retain(|id, _| !id.starts_with("Validating"));
            absent(seen, DEPLOYMENT);
        }),
    ]);
    insta::assert_snapshot!(text);
}

/// Defaults that the API server fills in are not differences.
#[test]
fn limits_with_defaults_are_ok() {
    let mut seen = full();
    for (id, fetched) in &mut seen.objects {
        let Fetched::Found(object) = fetched else { continue };
        if id.starts_with("ValidatingAdmissionPolicy/") {
            object["spec"]["matchConstraints"]["objectSelector"] = json!({});
            if object["spec"]["matchConstraints"]["namespaceSelector"].is_null() {
                object["spec"]["matchConstraints"]["namespaceSelector"] = json!({});
            }
        }
    }
    let found = findings(&seen);
    assert!(found.iter().all(|finding| finding.level == Level::Ok), "{found:#?}");
}

#[test]
fn admission() {
    let text = findings_of(&[
        ("none", full, |seen| seen.objects.retain(|id, _| !id.starts_with("MutatingAdmission"))),
        ("none, before 1.36", full, |seen| {
            seen.objects.retain(|id, _| !id.starts_with("MutatingAdmission"));
            seen.version = Fetched::Found(Version { minor: 35, text: "1.35.0".into() });
        }),
        ("a binding missing", full, |seen| {
            absent(seen, "MutatingAdmissionPolicyBinding/podsequence-pod-gates")
        }),
        ("a policy changed", full, |seen| {
            change(seen, "MutatingAdmissionPolicy/podsequence-pod-gates", |policy| {
                policy["spec"]["failurePolicy"] = "Fail".into();
            });
        }),
        ("both", webhook, |seen| {
            for (id, fetched) in full().objects {
                seen.objects.entry(id).or_insert(fetched);
            }
        }),
        ("a pod without its gate", full, |seen| {
            let probe = Probe { namespace: "default".into(), sequence: "shop".into(), gated: false };
            seen.probe = Some(Fetched::Found(probe));
        }),
        ("the webhook in Lite mode", lite, |seen| {
            let there = webhook().objects.remove(CONFIGURATION).expect("it");
            seen.objects.insert(CONFIGURATION.into(), there);
        }),
        ("launch order in Lite mode", lite, |seen| {
            let there = full().objects.remove(LAUNCH_CONFIGURATION).expect("it");
            seen.objects.insert(LAUNCH_CONFIGURATION.into(), there);
        }),
        ("no launch order", full, |seen| {
            of_launch_alone(None).iter().for_each(|id| absent(seen, id));
        }),
        ("no launch order, with the webhook", webhook, |seen| absent(seen, LAUNCH_CONFIGURATION)),
        ("launch order that may not be read", full, |seen| {
            let why = Fetched::Forbidden("not allowed to get it".into());
            seen.objects.insert(LAUNCH_CONFIGURATION.into(), why);
        }),
        ("launch order with failurePolicy Ignore", full, |seen| {
            change(seen, LAUNCH_CONFIGURATION, |there| {
                there["webhooks"][0]["failurePolicy"] = "Ignore".into()
            });
        }),
        ("launch order for every pod", full, |seen| {
            change(seen, LAUNCH_CONFIGURATION, |there| there["webhooks"][0]["matchConditions"] = json!([]));
        }),
        ("launch order without a Service", full, |seen| absent(seen, SERVICE)),
        ("launch order without an endpoint", full, |seen| seen.slices = Fetched::Found(Vec::new())),
        ("failurePolicy Fail", webhook, |seen| {
            change(seen, CONFIGURATION, |there| there["webhooks"][1]["failurePolicy"] = "Fail".into());
        }),
        ("other namespaces", webhook, |seen| {
            change(seen, CONFIGURATION, |there| there["webhooks"][0]["namespaceSelector"] = json!({}));
        }),
        ("no Service", webhook, |seen| absent(seen, SERVICE)),
        ("a Service that selects others", webhook, |seen| {
            change(seen, SERVICE, |service| service["spec"]["selector"] = json!({"app": "x"}));
            seen.slices = Fetched::Found(vec![json!({"endpoints": null})]);
        }),
        ("no endpoint ready", webhook, |seen| {
            seen.slices = Fetched::Found(vec![json!({"endpoints": [{"conditions": {"ready": false}}]})]);
        }),
    ]);
    insta::assert_snapshot!(text);
}

#[test]
fn certificates() {
    let text = findings_of(&[
        ("none", webhook, |seen| seen.secret = Fetched::Absent),
        ("empty", webhook, |seen| seen.secret = Fetched::Found(json!({"data": {"tls.crt": ""}}))),
        ("unreadable", webhook, |seen| {
            let Fetched::Found(secret) = &mut seen.secret else { panic!("no Secret") };
            secret["data"]["tls.key"] = "eA==".into();
        }),
        ("expired", webhook, |seen| certify(seen, 100, 90, true, &rollcall_webhook::hosts(NAMESPACE))),
        ("user-provided, expired", webhook, |seen| {
            certify(seen, 400, 365, false, &rollcall_webhook::hosts(NAMESPACE))
        }),
        ("renewal overdue", webhook, |seen| certify(seen, 70, 90, true, &rollcall_webhook::hosts(NAMESPACE))),
        ("user-provided, 20 days left", webhook, |seen| {
            certify(seen, 345, 365, false, &rollcall_webhook::hosts(NAMESPACE))
        }),
        ("user-provided, 2 days left", webhook, |seen| {
            certify(seen, 363, 365, false, &rollcall_webhook::hosts(NAMESPACE))
        }),
        ("for another name", webhook, |seen| certify(seen, 1, 90, false, &["webhook.example.com".into()])),
        ("expired, with launch order alone", full, |seen| {
            certify(seen, 100, 90, true, &rollcall_webhook::hosts(NAMESPACE));
        }),
        ("not trusted", webhook, |seen| {
            change(seen, CONFIGURATION, |there| {
                there["webhooks"][1]["clientConfig"]["caBundle"] = "Cg==".into()
            });
        }),
        ("trusted by neither configuration", webhook, |seen| {
            for id in [CONFIGURATION, LAUNCH_CONFIGURATION] {
                change(seen, id, |there| there["webhooks"][0]["clientConfig"]["caBundle"] = "Cg==".into());
            }
        }),
    ]);
    insta::assert_snapshot!(text);
}

/// A managed certificate is renewed when a third of its lifetime remains; before that there are no findings.
#[test]
fn certificates_in_time_are_ok() {
    for (age, life, managed) in
        [(0, 90, true), (60, 90, true), (66, 90, true), (0, 365, false), (330, 365, false), (18, 30, false)]
    {
        let mut seen = webhook();
        certify(&mut seen, age, life, managed, &rollcall_webhook::hosts(NAMESPACE));
        let found = findings(&seen);
        assert!(found.iter().all(|finding| finding.level == Level::Ok), "{age} of {life}: {found:#?}");
    }
}

#[test]
fn sequences() {
    let text = findings_of(&[
        ("Node scope in Lite mode", lite, |seen| {
            seen.sequences = shop(|shop| shop["spec"]["scope"] = "Node".into())
        }),
        ("another namespace", lite, |seen| {
            seen.sequences = shop(|shop| shop["spec"]["namespace"] = "there".into());
            let annotations = json!({"annotations": {names::ALLOW_FROM: "ops"}});
            seen.namespaces =
                Fetched::Found(vec![namespace("default", json!({})), namespace("there", annotations)]);
        }),
        ("a missing namespace", lite, |seen| {
            seen.sequences = shop(|shop| shop["spec"]["namespace"] = "there".into());
        }),
        ("taints", full, |seen| {
            seen.sequences = shop(|shop| {
                shop["spec"]["scope"] = "Node".into();
                shop["spec"]["nodeGuard"] = "Taints".into();
            });
        }),
        ("taints, permitted but not tolerated", full, |seen| {
            seen.sequences = shop(|shop| {
                shop["spec"]["scope"] = "Node".into();
                shop["spec"]["nodeGuard"] = "Taints".into();
            });
            let annotations = json!({"annotations": {names::ALLOW_NODE_TAINTS: "true"}});
            seen.namespaces = Fetched::Found(vec![namespace("default", annotations)]);
        }),
        ("taints, permitted and tolerated", full, |seen| {
            seen.sequences = shop(|shop| {
                shop["spec"]["scope"] = "Node".into();
                shop["spec"]["nodeGuard"] = "Taints".into();
            });
            let annotations = json!({"annotations": {names::ALLOW_NODE_TAINTS: "true"}});
            seen.namespaces = Fetched::Found(vec![namespace("default", annotations)]);
            change(seen, DEPLOYMENT, |deployment| {
                deployment["spec"]["template"]["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
            });
        }),
        ("a gate that the limits protect", full, |seen| {
            seen.sequences = shop(|shop| shop["spec"]["schedulingGateName"] = "example.com/mine".into());
        }),
    ]);
    insta::assert_snapshot!(text);
}

#[test]
fn leftovers() {
    const GONE: &str = "22222222-2222-4222-8222-222222222222";
    const KEY: &str = "podsequence.example.com/default.shop.db-blocked";
    fn pods(seen: &mut ClusterView, names: &[&str]) {
        seen.unbound = Fetched::Found(names.iter().map(|name| testing::pod(testing::held(name))).collect());
    }
    fn launching(seen: &mut ClusterView, names: &[&str], created: &str) {
        let pod = |name: &&str| {
            let mut pod = testing::held(name);
            pod["spec"]["schedulingGates"] = json!([{"name": names::LAUNCH_GATE}]);
            pod["metadata"]["creationTimestamp"] = created.into();
            testing::pod(pod)
        };
        seen.unbound = Fetched::Found(names.iter().map(pod).collect());
    }
    const JUST_NOW: &str = "2026-11-15T23:00:40Z";
    const EARLIER: &str = "2026-11-15T22:50:00Z";
    let text = findings_of(&[
        ("launch order has just begun", full, |seen| launching(seen, &["a"], JUST_NOW)),
        ("launch order does not begin", full, |seen| launching(seen, &["a", "b"], EARLIER)),
        ("launch order in Lite mode", lite, |seen| launching(seen, &["a"], JUST_NOW)),
        ("launch order without a leader", full, |seen| {
            launching(seen, &["a"], JUST_NOW);
            seen.lease = Fetched::Absent;
            change(seen, DEPLOYMENT, |deployment| deployment["spec"]["replicas"] = 0.into());
        }),
        ("a pod without a sequence", lite, |seen| pods(seen, &["web", "stray"])),
        ("many pods without a sequence", lite, |seen| pods(seen, &["a", "b", "c", "d", "e"])),
        ("a member with another gate", lite, |seen| {
            seen.sequences = shop(|shop| shop["spec"]["schedulingGateName"] = "example.com/mine".into());
            pods(seen, &["web"]);
        }),
        ("an invalid sequence", lite, |seen| {
            seen.sequences = shop(|shop| shop["spec"]["podGroups"] = json!([]));
            pods(seen, &["stray"]);
        }),
        ("marks on nodes", full, |seen| {
            let journal = json!({(journal_key(Uid::new(GONE))): journal_text(&Journal::default())});
            seen.nodes = Fetched::Found(vec![
                node("a", json!({(KEY): GONE}), json!([]), json!({})),
                node(
                    "b",
                    json!({(KEY): GONE, "other": "x"}),
                    json!([{"key": KEY, "value": GONE, "effect": "NoSchedule"}]),
                    journal,
                ),
            ]);
        }),
        ("marks of an existing sequence", full, |seen| {
            let uid = testing::shop()["metadata"]["uid"].clone();
            seen.nodes = Fetched::Found(vec![node("a", json!({(KEY): uid}), json!([]), json!({}))]);
        }),
        ("marks of an existing sequence in Lite mode", lite, |seen| {
            let uid = testing::shop()["metadata"]["uid"].clone();
            seen.nodes = Fetched::Found(vec![node("a", json!({(KEY): uid}), json!([]), json!({}))]);
        }),
        ("a note", lite, |seen| {
            let note =
                json!({"metadata": {"name": format!("podsequence-note-{GONE}"), "uid": "n"}, "data": {}});
            seen.notes = Fetched::Found(vec![serde_json::from_value(note).expect("a note")]);
        }),
    ]);
    insta::assert_snapshot!(text);
}

/// Without any permission, each check reports once that it could not be made.
#[test]
fn what_may_not_be_seen_is_said() {
    let mut seen = webhook();
    let not_allowed = |what: &str| format!("not allowed to {what}");
    seen.version = Fetched::Forbidden(not_allowed("get version"));
    seen.objects.values_mut().for_each(|fetched| *fetched = Fetched::Forbidden(not_allowed("get them")));
    seen.lease = Fetched::Forbidden(not_allowed("get leases"));
    seen.unbound = Fetched::Forbidden(not_allowed("list pods"));
    seen.nodes = Fetched::Forbidden(not_allowed("list nodes"));
    seen.namespaces = Fetched::Forbidden(not_allowed("list namespaces"));
    seen.notes = Fetched::Forbidden(not_allowed("list configmaps"));
    let found = findings(&seen);
    assert_eq!(outcome(&found), Outcome::Impossible);
    let text = print::text(&found).without_colours();
    insta::assert_snapshot!(text);
}
