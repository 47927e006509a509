//! The webhooks, where they are installed: as ours are, and with somebody behind them.

use super::{Case, number};
use crate::commands::doctor::compare::{differences, in_words, strictly};
use crate::commands::doctor::fetched::{CONFIGURATION, Fetched, LAUNCH_CONFIGURATION, SERVICE};
use crate::commands::doctor::finding::{Check, Finding};
use crate::commands::install::{Admission, Mode, id, objects, of_launch_alone};
use rollcall_api::names;
use serde_json::{Value, json};

/// A webhook configuration of ours, and what it means if something is wrong with it.
pub struct Configuration {
    pub id: &'static str,
    failure_policy: &'static str,
    /// With the other failure policy, while the controller is away.
    otherwise: &'static str,
    /// In Lite mode.
    unserved: &'static str,
    /// If the server cannot be called.
    uncalled: &'static str,
}

pub const CONFIGURATIONS: [Configuration; 2] = [
    Configuration {
        id: CONFIGURATION,
        failure_policy: "Ignore",
        otherwise: "when the controller is away, no pod can be created",
        unserved: "every pod creation that it asks about is held up for nothing",
        uncalled: "pods are created without their gate",
    },
    Configuration {
        id: LAUNCH_CONFIGURATION,
        failure_policy: "Fail",
        otherwise: "when the controller is away, pods that ask for an order of their containers start without one",
        unserved: "pods that ask for an order of their containers cannot be created (no others are touched)",
        uncalled: "pods that ask for an order of their containers cannot be created (no others are touched)",
    },
];

impl Configuration {
    pub fn name(&self) -> &'static str {
        self.id.split_once('/').map_or(self.id, |(_, name)| name)
    }

    /// The failure policy that it must not have.
    fn wrong_policy(&self) -> &'static str {
        if self.failure_policy == "Fail" { "Ignore" } else { "Fail" }
    }
}

/// Those that are there.
pub fn installed<'a>(case: &Case<'a>) -> Vec<(&'static Configuration, &'a Value)> {
    let there = CONFIGURATIONS.iter().filter_map(|ours| Some((ours, case.seen.object(ours.id).found()?)));
    there.collect()
}

/// What it means that the server cannot be called.
pub fn uncalled(case: &Case<'_>) -> String {
    let meanings: Vec<&str> = installed(case).iter().map(|(ours, _)| ours.uncalled).collect();
    format!("the webhook cannot be called, so {}", meanings.join(", and "))
}

pub fn webhooks(configuration: &Value) -> impl Iterator<Item = &Value> {
    configuration["webhooks"].as_array().into_iter().flatten()
}

pub fn check(case: &Case<'_>) -> Vec<Finding> {
    let there = installed(case);
    if case.installed.is_lite() {
        return there.iter().map(|(ours, _)| unserved(case, ours)).collect();
    }
    let mut findings: Vec<Finding> =
        there.iter().map(|(ours, there)| configuration(case, ours, there)).collect();
    findings.extend(no_launch(case));
    let by_service = |webhook: &Value| webhook["clientConfig"]["service"].is_object();
    if there.iter().any(|(_, there)| webhooks(there).any(by_service)) {
        findings.push(service(case));
    }
    findings
}

fn unserved(case: &Case<'_>, ours: &Configuration) -> Finding {
    let name = ours.name();
    let text = format!("{name} is installed, and Lite mode does not serve it: {}", ours.unserved);
    let delete = format!("delete mutatingwebhookconfiguration {name}");
    Check::Admission.problem(text).fix(case.command_line.kubectl(delete))
}

/// Full mode comes with launch order, and can do without it.
fn no_launch(case: &Case<'_>) -> Option<Finding> {
    let Case { seen, installed, command_line } = case;
    if !(installed.known && installed.mode == Mode::Full) {
        return None;
    }
    let name = names::LAUNCH_CONFIGURATION;
    match seen.object(LAUNCH_CONFIGURATION) {
        Fetched::Found(_) => None,
        Fetched::Forbidden(why) => Some(Check::Admission.unknown(name, why)),
        Fetched::Absent => {
            let admission = installed.webhook.then_some(Admission::Webhook);
            let missing = of_launch_alone(admission);
            let missing: Vec<&str> = missing.iter().map(String::as_str).filter(|id| !seen.has(id)).collect();
            let text = format!(
                "{name} is not installed: the containers of pods that ask for an order start all at once"
            );
            Some(Check::Admission.note(text).fix(command_line.restore(installed, &missing)))
        }
    }
}

/// How it is called is left out: it may be by an address instead of the Service, and the bundle is looked at with the certificates.
fn called_anyhow(configuration: &Value) -> Value {
    let webhooks = webhooks(configuration).cloned().map(|mut webhook| {
        webhook.as_object_mut().map(|fields| fields.remove("clientConfig"));
        webhook
    });
    webhooks.collect()
}

/// An object of ours, as this program has it.
fn as_printed(case: &Case<'_>, wanted: &str) -> Value {
    let all = objects(Mode::Full, Some(Admission::Webhook), &case.seen.namespace);
    all.into_iter().find(|object| id(object) == wanted).unwrap_or_default()
}

fn configuration(case: &Case<'_>, ours: &Configuration, there: &Value) -> Finding {
    let Case { seen: _, installed, command_line } = case;
    let (name, policy, wrong) = (ours.name(), ours.failure_policy, ours.wrong_policy());
    let places: Vec<usize> = webhooks(there)
        .enumerate()
        .filter(|(_, webhook)| webhook["failurePolicy"] == wrong)
        .map(|(place, _)| place)
        .collect();
    if !places.is_empty() {
        let operations: Vec<Value> = places
            .iter()
            .map(|place| json!({"op": "replace", "path": format!("/webhooks/{place}/failurePolicy"), "value": policy}))
            .collect();
        let text = format!(
            "{name}: failurePolicy {wrong} in {} of {}: {}",
            places.len(),
            number(webhooks(there).count(), "webhook"),
            ours.otherwise
        );
        let patch = Value::from(operations);
        let fix = format!("patch mutatingwebhookconfiguration {name} --type=json -p '{patch}'");
        return Check::Admission.problem(text).fix(command_line.kubectl(fix));
    }
    let found = differences(&called_anyhow(&as_printed(case, ours.id)), &called_anyhow(there), "webhooks");
    match found.is_empty() {
        true => {
            Check::Admission.ok(format!("webhook: {name} as this program has it, failurePolicy {policy}"))
        }
        false => {
            let text = format!("{name} is not ours: {}", in_words(&found));
            // By apply a list would keep what others put into it.
            case.differs(Check::Admission, text, command_line.replace(installed, &[ours.id]))
        }
    }
}

fn service(case: &Case<'_>) -> Finding {
    let Case { seen, installed, command_line } = case;
    let name = names::WEBHOOK_SERVICE;
    let there = match seen.object(SERVICE) {
        Fetched::Found(there) => there,
        Fetched::Absent => {
            let text = format!("Service {name} is missing: {}", uncalled(case));
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
    let text = format!("Service {name} has no ready endpoint: {}", uncalled(case));
    let ours = as_printed(case, SERVICE);
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
