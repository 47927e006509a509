//! The certificate of the webhooks, where one is installed: its dates, its names, and the trust in it.

use super::Case;
use super::webhook::{self, installed, uncalled};
use crate::commands::doctor::fetched::Fetched;
use crate::commands::doctor::finding::{Check, DoctorFinding};
use crate::output::age;
use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::{SignedDuration, Timestamp};
use rollcall_api::names;
use rollcall_webhook::certificates::plan::Held;
use rollcall_webhook::certificates::read::{Facts, trusts_newest};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const DAY: SignedDuration = SignedDuration::from_hours(24);
/// Remaining time at which a user-provided certificate becomes a note (`EARLY`) or a problem (`LATE`); less for short-lived ones.
const EARLY: SignedDuration = SignedDuration::from_hours(30 * 24);
const LATE: SignedDuration = SignedDuration::from_hours(7 * 24);

pub fn check(case: &Case<'_>) -> Vec<DoctorFinding> {
    if case.installed.is_lite() || installed(case).is_empty() {
        return Vec::new();
    }
    let name = names::WEBHOOK_SECRET;
    let held = match &case.seen.secret {
        Fetched::Found(secret) => held(secret),
        Fetched::Absent => {
            let text = format!(
                "Secret {name} not found: the webhook has no certificate; a running controller creates one"
            );
            let restart = format!("rollout restart deployment/{}", names::CONTROLLER);
            return vec![Check::Certificates.problem(text).fix(case.command_line.kubectl_here(restart))];
        }
        Fetched::Forbidden(why) => return vec![Check::Certificates.unknown(&format!("Secret {name}"), why)],
    };
    vec![served(case, &held), trusted(case, &held)]
}

fn held(secret: &Value) -> Held {
    let texts = |value: &Value| -> BTreeMap<String, String> {
        let fields = value.as_object().into_iter().flatten();
        fields.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
    };
    let annotations = texts(&secret["metadata"]["annotations"]);
    Held::read(&texts(&secret["data"]), annotations.get(names::MANAGED_CERTIFICATES).map(String::as_str))
}

/// Checks the certificate that the webhook serves.
fn served(case: &Case<'_>, held: &Held) -> DoctorFinding {
    let whose = if held.managed { "created by the controller" } else { "user-provided" };
    let Some(pair) = &held.current else {
        let text = format!("Secret {} does not contain tls.crt and tls.key", names::WEBHOOK_SECRET);
        return Check::Certificates.problem(text).fix(anew(case, held));
    };
    let facts = match pair.certified().and_then(|_| pair.facts()) {
        Ok(facts) => facts,
        Err(error) => {
            let text = format!("the certificate ({whose}) cannot be served: {error}");
            return Check::Certificates.problem(text).fix(anew(case, held));
        }
    };
    let service = format!("{}.{}.svc", names::WEBHOOK_SERVICE, case.seen.namespace);
    let by_service = bundles(case).iter().any(|bundle| bundle.by_service);
    if by_service && !facts.names.contains(&service) {
        let names: Vec<String> = facts.names.iter().cloned().collect();
        let text =
            format!("the certificate ({whose}) is not valid for {service}, only for {}", super::some(&names));
        return Check::Certificates.problem(text).fix(anew(case, held));
    }
    dates(case, held, &facts, whose)
}

fn dates(case: &Case<'_>, held: &Held, facts: &Facts, whose: &str) -> DoctorFinding {
    let now = case.seen.now;
    let left = facts.expires.duration_since(now);
    let life = facts.expires.duration_since(facts.made);
    let date = facts.expires.strftime("%Y-%m-%d");
    if left <= SignedDuration::ZERO {
        let text = format!(
            "the certificate ({whose}) expired {} ago ({date}): {}",
            age(facts.expires, now),
            uncalled(case)
        );
        return Check::Certificates.problem(text).fix(anew(case, held));
    }
    let text = format!("the certificate ({whose}) expires in {} ({date})", span(left, now));
    // The controller renews a certificate when a third of its lifetime remains.
    if held.managed && left < life / 4 {
        let text = format!("{text}; its renewal is overdue");
        return Check::Certificates.problem(text).fix(anew(case, held));
    }
    if !held.managed && left < LATE.min(life / 12) {
        return Check::Certificates
            .problem(format!("{text}; the controller does not renew it"))
            .fix(anew(case, held));
    }
    if !held.managed && left < EARLY.min(life / 4) {
        return Check::Certificates
            .note(format!("{text}; the controller does not renew it"))
            .fix(anew(case, held));
    }
    Check::Certificates.ok(text)
}

/// Formats a remaining time: in days, or like an age below two days.
fn span(left: SignedDuration, now: Timestamp) -> String {
    match left >= DAY * 2 {
        true => format!("{} days", left.as_hours() / 24),
        false => age(now, now.saturating_add(left).unwrap_or(Timestamp::MAX)),
    }
}

/// Command that makes the controller create and publish a new certificate. The controller overwrites only its own or empty
/// bundles, so user-provided ones are emptied.
fn anew(case: &Case<'_>, held: &Held) -> String {
    let delete = case.command_line.kubectl_here(format!("delete secret {}", names::WEBHOOK_SECRET));
    if held.managed {
        return delete;
    }
    let bundles = bundles(case);
    format!("{delete} && {}", publish(case, &bundles.iter().collect::<Vec<_>>(), "Cg=="))
}

/// Commands that write a `caBundle` into these places, one per configuration.
fn publish(case: &Case<'_>, places: &[&Bundle], text: &str) -> String {
    let mut by_configuration: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for Bundle { configuration, place, .. } in places {
        by_configuration.entry(configuration).or_default().push(format!(
            r#"{{"op":"add","path":"/webhooks/{place}/clientConfig/caBundle","value":"{text}"}}"#
        ));
    }
    let commands = by_configuration.iter().map(|(name, operations)| {
        let operations = operations.join(",");
        case.command_line
            .kubectl(format!("patch mutatingwebhookconfiguration {name} --type=json -p '[{operations}]'"))
    });
    commands.collect::<Vec<String>>().join(" && ")
}

/// The `caBundle` of a webhook.
struct Bundle {
    /// Name of the configuration; `place` is the index of the webhook in it.
    configuration: &'static str,
    place: usize,
    by_service: bool,
    authorities: String,
}

fn bundles(case: &Case<'_>) -> Vec<Bundle> {
    let all = installed(case).into_iter().flat_map(|(ours, there)| {
        webhook::webhooks(there).enumerate().map(move |(place, webhook)| {
            let client = &webhook["clientConfig"];
            let text = client["caBundle"].as_str().and_then(|text| STANDARD.decode(text).ok());
            let authorities = text.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
            let by_service = client["service"].is_object();
            Bundle { configuration: ours.name(), place, by_service, authorities }
        })
    });
    all.collect()
}

fn trusted(case: &Case<'_>, held: &Held) -> DoctorFinding {
    let bundles = bundles(case);
    let count = bundles.len();
    if held.authorities.trim().is_empty() {
        let empty = bundles.iter().filter(|bundle| bundle.authorities.trim().is_empty()).count();
        return match empty {
            0 => Check::Certificates.ok("caBundles are set; the Secret has no ca.crt to compare them with"),
            _ => Check::Certificates.problem(format!(
                "{empty} of {count} caBundles are empty, and the Secret has no ca.crt to fill them with"
            )),
        };
    }
    let trusts = |bundle: &&Bundle| trusts_newest(&bundle.authorities, &held.authorities);
    let distrusting: Vec<&Bundle> = bundles.iter().filter(|bundle| !trusts(bundle)).collect();
    if distrusting.is_empty() {
        let text = match count {
            1 => "the caBundle trusts the CA of the Secret".to_owned(),
            more => format!("all {more} caBundles trust the CA of the Secret"),
        };
        return Check::Certificates.ok(text);
    }
    let configurations: BTreeSet<&str> = distrusting.iter().map(|bundle| bundle.configuration).collect();
    let text = format!(
        "{} of {count} caBundles do not trust the CA of Secret {}: {} cannot be called",
        distrusting.len(),
        names::WEBHOOK_SECRET,
        configurations.into_iter().collect::<Vec<&str>>().join(" and ")
    );
    // The shell inserts `ca.crt` of the Secret.
    let get = case
        .command_line
        .kubectl_here(format!(r"get secret {} -o jsonpath='{{.data.ca\.crt}}'", names::WEBHOOK_SECRET));
    let bundle = format!(r#"'"$({get})"'"#);
    Check::Certificates.problem(text).fix(publish(case, &distrusting, &bundle))
}
