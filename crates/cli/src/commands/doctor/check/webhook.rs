//! The webhook, where it is installed: as ours is, and with somebody behind it.

use super::{Case, number};
use crate::commands::doctor::compare::{differences, in_words, strictly};
use crate::commands::doctor::fetched::{CONFIGURATION, Fetched, SERVICE};
use crate::commands::doctor::finding::{Check, Finding};
use crate::commands::install::{Admission, Mode, id, objects};
use rollcall_api::names;
use serde_json::{Value, json};

pub fn check(case: &Case<'_>) -> Vec<Finding> {
    let Fetched::Found(there) = case.seen.object(CONFIGURATION) else { return Vec::new() };
    let name = names::WEBHOOK_CONFIGURATION;
    if case.installed.is_lite() {
        let text = format!(
            "{name} is installed, and Lite mode does not serve it: every pod creation that it asks about is held up for nothing"
        );
        let delete = format!("delete mutatingwebhookconfiguration {name}");
        return vec![Check::Admission.problem(text).fix(case.command_line.kubectl(delete))];
    }
    let mut findings = vec![configuration(case, there)];
    if webhooks(there).any(|webhook| webhook["clientConfig"]["service"].is_object()) {
        findings.push(service(case));
    }
    findings
}

fn webhooks(configuration: &Value) -> impl Iterator<Item = &Value> {
    configuration["webhooks"].as_array().into_iter().flatten()
}

/// How it is called is left out: it may be by an address instead of the Service, and the bundle is looked at with the certificates.
fn called_anyhow(configuration: &Value) -> Value {
    let webhooks = webhooks(configuration).cloned().map(|mut webhook| {
        webhook.as_object_mut().map(|fields| fields.remove("clientConfig"));
        webhook
    });
    webhooks.collect()
}

fn configuration(case: &Case<'_>, there: &Value) -> Finding {
    let Case { seen, installed, command_line } = case;
    let name = names::WEBHOOK_CONFIGURATION;
    let strict: Vec<usize> = webhooks(there)
        .enumerate()
        .filter(|(_, webhook)| webhook["failurePolicy"] == "Fail")
        .map(|(place, _)| place)
        .collect();
    if !strict.is_empty() {
        let operations: Vec<Value> = strict
            .iter()
            .map(|place| json!({"op": "replace", "path": format!("/webhooks/{place}/failurePolicy"), "value": "Ignore"}))
            .collect();
        let text = format!(
            "{name}: failurePolicy Fail in {} of {}: when the controller is away, no pod can be created",
            strict.len(),
            number(webhooks(there).count(), "webhook")
        );
        let patch = Value::from(operations);
        let fix = format!("patch mutatingwebhookconfiguration {name} --type=json -p '{patch}'");
        return Check::Admission.problem(text).fix(command_line.kubectl(fix));
    }
    let manifests = objects(Mode::Full, Some(Admission::Webhook), &seen.namespace);
    let ours = manifests.iter().find(|object| id(object) == CONFIGURATION).cloned().unwrap_or_default();
    let found = differences(&called_anyhow(&ours), &called_anyhow(there), "webhooks");
    match found.is_empty() {
        true => Check::Admission.ok(format!("webhook: {name} as this program has it, failurePolicy Ignore")),
        false => {
            let text = format!("{name} is not ours: {}", in_words(&found));
            case.differs(Check::Admission, text, command_line.restore(installed, &[CONFIGURATION]))
        }
    }
}

fn service(case: &Case<'_>) -> Finding {
    let Case { seen, installed, command_line } = case;
    let name = names::WEBHOOK_SERVICE;
    let there = match seen.object(SERVICE) {
        Fetched::Found(there) => there,
        Fetched::Absent => {
            let text = format!("Service {name} is missing: the webhook cannot be called");
            return Check::Admission.problem(text).fix(command_line.restore(installed, &[SERVICE]));
        }
        Fetched::Forbidden(why) => return Check::Admission.unknown(&format!("Service {name}"), why),
    };
    let slices = match &seen.slices {
        Fetched::Found(slices) => slices.as_slice(),
        Fetched::Absent => &[],
        Fetched::Forbidden(why) => {
            return Check::Admission.unknown(&format!("endpoints of Service {name}"), why);
        }
    };
    let endpoints = slices.iter().flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
    let ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] != json!(false)).count();
    if ready > 0 {
        return Check::Admission.ok(format!("Service {name}: {} ready", number(ready, "endpoint")));
    }
    let text = format!(
        "Service {name} has no ready endpoint: the webhook cannot be called, pods are created without their gate"
    );
    let manifests = objects(Mode::Full, Some(Admission::Webhook), &seen.namespace);
    let ours = manifests.iter().find(|object| id(object) == SERVICE).cloned().unwrap_or_default();
    let mut found = differences(&ours["spec"]["ports"], &there["spec"]["ports"], "spec.ports");
    found.extend(strictly(&ours["spec"]["selector"], &there["spec"]["selector"], "spec.selector"));
    let pods = format!("get pods -l app.kubernetes.io/name={}", names::CONTROLLER);
    match found.is_empty() {
        true => Check::Admission.problem(text).fix(command_line.kubectl_here(pods)),
        // By apply a selector would keep what others put into it.
        false => Check::Admission
            .problem(format!("{text}; it is not ours: {}", in_words(&found)))
            .fix(command_line.replace(installed, &[SERVICE])),
    }
}
