//! Breaks an installation in one way at a time, and looks at what is said about it.

use super::check::all;
use super::finding::{Finding, Level, outcome};
use super::rights::needed;
use super::seen::{CONFIGURATION, DEFINITION, DEPLOYMENT, Look, Probe, SERVICE, Seen, Version};
use super::testing::{NAMESPACE, certify, change, full, lite, namespace, node, now, webhook};
use super::{print, voice::Voice};
use crate::cli::Access;
use crate::commands::install::Mode;
use crate::outcome::Outcome;
use crate::testing;
use rollcall_api::names;
use rollcall_api::watch::{journal_key, journal_text};
use rollcall_core::Uid;
use rollcall_core::journal::Journal;
use serde_json::{Value, json};
use std::time::Duration;

/// One thing that is broken.
type Break = (&'static str, fn() -> Seen, fn(&mut Seen));

fn findings(seen: &Seen) -> Vec<Finding> {
    all(seen, &Voice::new(&Access::default(), NAMESPACE))
}

/// What is said besides of what is well.
fn told(breaks: &[Break]) -> String {
    let mut text = String::new();
    for (name, before, how) in breaks {
        let mut seen = before();
        how(&mut seen);
        let worth = findings(&seen).into_iter().filter(|finding| finding.level != Level::Ok);
        let lines = print::text(&worth.collect::<Vec<_>>());
        text += &format!("# {name}\n{}\n", anstream::adapter::strip_str(&lines));
    }
    text
}

fn absent(seen: &mut Seen, id: &str) {
    seen.objects.insert(id.into(), Look::Absent);
}

fn shop(change: impl FnOnce(&mut Value)) -> Look<Vec<rollcall_api::sequence::SequenceObject>> {
    let mut shop = testing::shop();
    change(&mut shop);
    Look::There(vec![testing::sequence(shop)])
}

#[test]
fn what_is_as_it_should_be_is_ok() {
    let mut text = String::new();
    for (name, seen) in [("lite", lite()), ("full", full()), ("webhook", webhook())] {
        let found = findings(&seen);
        assert_eq!(outcome(&found), Outcome::Done, "{name}: {found:#?}");
        assert!(found.iter().all(|finding| finding.level == Level::Ok), "{name}: {found:#?}");
        text += &format!("# {name}\n{}\n", anstream::adapter::strip_str(&print::text(&found)));
    }
    insta::assert_snapshot!(text);
}

#[test]
fn the_server_and_the_definition() {
    let text = told(&[
        ("too old", lite, |seen| seen.version = Look::There(Version { minor: 32, text: "1.32.1".into() })),
        ("missing", lite, |seen| absent(seen, DEFINITION)),
        ("not established", lite, |seen| {
            change(seen, DEFINITION, |crd| crd["status"]["conditions"] = json!([]))
        }),
        ("a field more", full, |seen| {
            change(seen, DEFINITION, |crd| {
                crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
                    ["more"] = json!({"type": "string"});
            });
        }),
        ("a column less, of a newer controller", lite, |seen| {
            change(seen, DEFINITION, |crd| {
                drop(
                    crd["spec"]["versions"][0]["additionalPrinterColumns"]
                        .as_array_mut()
                        .expect("some")
                        .pop(),
                );
            });
            let Look::There(lease) = &mut seen.lease else { panic!("no lease") };
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
    fn stale(seen: &mut Seen) {
        let Look::There(lease) = &mut seen.lease else { panic!("no lease") };
        lease["spec"]["renewTime"] = (now() - Duration::from_secs(300)).to_string().into();
    }
    let text = told(&[
        ("not installed", full, |seen| {
            absent(seen, DEPLOYMENT);
            seen.lease = Look::Absent;
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
            seen.replicas = Look::There(vec![testing::pod(pod)]);
            seen.lease = Look::Absent;
        }),
        ("one of two ready", full, |seen| {
            change(seen, DEPLOYMENT, |deployment| deployment["status"]["readyReplicas"] = 1.into());
        }),
        ("lease not renewed", lite, stale),
        ("lease given back", full, |seen| {
            seen.lease = Look::There(json!({"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}}));
        }),
        ("older, by its tag", lite, |seen| {
            let Look::There(lease) = &mut seen.lease else { panic!("no lease") };
            lease["metadata"]["annotations"][names::LEASE_VERSION] = "0.0.9".into();
            change(seen, DEPLOYMENT, |deployment| {
                deployment["spec"]["template"]["spec"]["containers"][0]["image"] =
                    "registry/rollcall:0.0.9".into();
            });
        }),
        ("one replica in Full mode", full, |seen| {
            change(seen, DEPLOYMENT, |deployment| deployment["spec"]["replicas"] = 1.into());
        }),
        ("two replicas and no budget", full, |seen| seen.budgets = Look::There(Vec::new())),
    ]);
    insta::assert_snapshot!(text);
}

#[test]
fn permissions() {
    let text = told(&[
        ("two missing", full, |seen| {
            let rights = needed(Mode::Full, false, NAMESPACE).into_iter();
            let missing =
                |resource: &str, verb: &str| resource == "nodes" || resource == "pods" && verb == "patch";
            seen.missing =
                Look::There(rights.filter(|right| missing(&right.resource, &right.verb)).collect());
        }),
        ("one more", lite, |seen| {
            change(seen, "ClusterRole/pod-sequence-controller-lite", |role| {
                role["rules"][0]["verbs"].as_array_mut().expect("verbs").push("update".into());
            });
        }),
        ("of Full mode", lite, |seen| {
            seen.objects
                .insert("ClusterRoleBinding/pod-sequence-controller-nodes".into(), Look::There(json!({})));
        }),
    ]);
    insta::assert_snapshot!(text);
}

#[test]
fn admission() {
    let text = told(&[
        ("none", full, |seen| seen.objects.retain(|id, _| !id.contains("AdmissionPolicy"))),
        ("none, before 1.36", full, |seen| {
            seen.objects.retain(|id, _| !id.contains("AdmissionPolicy"));
            seen.version = Look::There(Version { minor: 35, text: "1.35.0".into() });
        }),
        ("a binding missing", full, |seen| {
            absent(seen, "MutatingAdmissionPolicyBinding/podsequence-pod-gates")
        }),
        ("a policy changed", full, |seen| {
            change(seen, "MutatingAdmissionPolicy/podsequence-pod-gates", |policy| {
                policy["spec"]["failurePolicy"] = "Fail".into();
            });
        }),
        ("a limit changed for another prefix", full, |seen| {
            change(seen, "ValidatingAdmissionPolicy/podsequence-controller-nodes", |policy| {
                policy["spec"]["variables"][0]["expression"] = "['x/']".into();
            });
            change(seen, DEPLOYMENT, |deployment| {
                let args = &mut deployment["spec"]["template"]["spec"]["containers"][0]["args"];
                args.as_array_mut().expect("args").push("--taint-prefix=x/".into());
            });
        }),
        ("both", webhook, |seen| {
            for (id, look) in full().objects {
                seen.objects.entry(id).or_insert(look);
            }
        }),
        ("a pod without its gate", full, |seen| {
            let probe = Probe { namespace: "default".into(), sequence: "shop".into(), gated: false };
            seen.probe = Some(Look::There(probe));
        }),
        ("the webhook in Lite mode", lite, |seen| {
            let there = webhook().objects.remove(CONFIGURATION).expect("it");
            seen.objects.insert(CONFIGURATION.into(), there);
        }),
        ("failurePolicy Fail", webhook, |seen| {
            change(seen, CONFIGURATION, |there| there["webhooks"][1]["failurePolicy"] = "Fail".into());
        }),
        ("other namespaces", webhook, |seen| {
            change(seen, CONFIGURATION, |there| there["webhooks"][0]["namespaceSelector"] = json!({}));
        }),
        ("no Service", webhook, |seen| absent(seen, SERVICE)),
        ("a Service that selects others", webhook, |seen| {
            change(seen, SERVICE, |service| service["spec"]["selector"] = json!({"app": "x"}));
            seen.slices = Look::There(vec![json!({"endpoints": null})]);
        }),
        ("no endpoint ready", webhook, |seen| {
            seen.slices = Look::There(vec![json!({"endpoints": [{"conditions": {"ready": false}}]})]);
        }),
    ]);
    insta::assert_snapshot!(text);
}

#[test]
fn certificates() {
    let text = told(&[
        ("none", webhook, |seen| seen.secret = Look::Absent),
        ("empty", webhook, |seen| seen.secret = Look::There(json!({"data": {"tls.crt": ""}}))),
        ("unreadable", webhook, |seen| {
            let Look::There(secret) = &mut seen.secret else { panic!("no Secret") };
            secret["data"]["tls.key"] = "eA==".into();
        }),
        ("expired", webhook, |seen| certify(seen, 100, 90, true, &rollcall_webhook::hosts(NAMESPACE))),
        ("brought, expired", webhook, |seen| {
            certify(seen, 400, 365, false, &rollcall_webhook::hosts(NAMESPACE))
        }),
        ("renewal overdue", webhook, |seen| certify(seen, 70, 90, true, &rollcall_webhook::hosts(NAMESPACE))),
        ("brought, 20 days left", webhook, |seen| {
            certify(seen, 345, 365, false, &rollcall_webhook::hosts(NAMESPACE))
        }),
        ("brought, 2 days left", webhook, |seen| {
            certify(seen, 363, 365, false, &rollcall_webhook::hosts(NAMESPACE))
        }),
        ("of another name", webhook, |seen| certify(seen, 1, 90, false, &["webhook.example.com".into()])),
        ("not trusted", webhook, |seen| {
            change(seen, CONFIGURATION, |there| {
                there["webhooks"][1]["clientConfig"]["caBundle"] = "Cg==".into()
            });
        }),
    ]);
    insta::assert_snapshot!(text);
}

/// A managed one is renewed when a third of its life is left: before that is nothing to be said.
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
    let text = told(&[
        ("Node scope in Lite mode", lite, |seen| {
            seen.sequences = shop(|shop| shop["spec"]["scope"] = "Node".into())
        }),
        ("another namespace", lite, |seen| {
            seen.sequences = shop(|shop| shop["spec"]["namespace"] = "there".into());
            let annotations = json!({"annotations": {names::ALLOW_FROM: "ops"}});
            seen.namespaces =
                Look::There(vec![namespace("default", json!({})), namespace("there", annotations)]);
        }),
        ("a namespace that is not there", lite, |seen| {
            seen.sequences = shop(|shop| shop["spec"]["namespace"] = "there".into());
        }),
        ("taints", full, |seen| {
            seen.sequences = shop(|shop| {
                shop["spec"]["scope"] = "Node".into();
                shop["spec"]["nodeGuard"] = "Taints".into();
            });
        }),
        ("a gate that the policies protect", full, |seen| {
            seen.sequences = shop(|shop| shop["spec"]["schedulingGateName"] = "example.com/mine".into());
        }),
    ]);
    insta::assert_snapshot!(text);
}

#[test]
fn leftovers() {
    const GONE: &str = "22222222-2222-4222-8222-222222222222";
    const KEY: &str = "podsequence.example.com/default.shop.db-blocked";
    fn pods(seen: &mut Seen, names: &[&str]) {
        seen.unbound = Look::There(names.iter().map(|name| testing::pod(testing::held(name))).collect());
    }
    let text = told(&[
        ("a pod that nobody claims", lite, |seen| pods(seen, &["web", "stray"])),
        ("many of them", lite, |seen| pods(seen, &["a", "b", "c", "d", "e"])),
        ("a claim through another gate", lite, |seen| {
            seen.sequences = shop(|shop| shop["spec"]["schedulingGateName"] = "example.com/mine".into());
            pods(seen, &["web"]);
        }),
        ("a sequence that cannot be understood", lite, |seen| {
            seen.sequences = shop(|shop| shop["spec"]["podGroups"] = json!([]));
            pods(seen, &["stray"]);
        }),
        ("marks on nodes", full, |seen| {
            let journal = json!({(journal_key(Uid::new(GONE))): journal_text(&Journal::default())});
            seen.nodes = Look::There(vec![
                node("a", json!({(KEY): GONE}), json!([]), json!({})),
                node(
                    "b",
                    json!({(KEY): GONE, "other": "x"}),
                    json!([{"key": KEY, "value": GONE, "effect": "NoSchedule"}]),
                    journal,
                ),
            ]);
        }),
        ("marks of a sequence that is there", full, |seen| {
            let uid = testing::shop()["metadata"]["uid"].clone();
            seen.nodes = Look::There(vec![node("a", json!({(KEY): uid}), json!([]), json!({}))]);
        }),
        ("the same in Lite mode", lite, |seen| {
            let uid = testing::shop()["metadata"]["uid"].clone();
            seen.nodes = Look::There(vec![node("a", json!({(KEY): uid}), json!([]), json!({}))]);
        }),
        ("a note", lite, |seen| {
            let note =
                json!({"metadata": {"name": format!("podsequence-note-{GONE}"), "uid": "n"}, "data": {}});
            seen.notes = Look::There(vec![serde_json::from_value(note).expect("a note")]);
        }),
    ]);
    insta::assert_snapshot!(text);
}

/// Nobody may see anything: every check says so in its own words, once.
#[test]
fn what_may_not_be_seen_is_said() {
    let mut seen = webhook();
    let closed = |what: &str| format!("not allowed to {what}");
    seen.version = Look::Closed(closed("get version"));
    seen.objects.values_mut().for_each(|look| *look = Look::Closed(closed("get them")));
    seen.lease = Look::Closed(closed("get leases"));
    seen.unbound = Look::Closed(closed("list pods"));
    seen.nodes = Look::Closed(closed("list nodes"));
    seen.namespaces = Look::Closed(closed("list namespaces"));
    seen.notes = Look::Closed(closed("list configmaps"));
    let found = findings(&seen);
    assert_eq!(outcome(&found), Outcome::Impossible);
    let text = anstream::adapter::strip_str(&print::text(&found)).to_string();
    insta::assert_snapshot!(text);
}
