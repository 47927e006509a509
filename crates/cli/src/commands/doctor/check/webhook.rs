//! The webhooks, where they are installed: whether their configurations match this program and endpoints serve them.

use super::{Case, number};
use crate::commands::doctor::compare::{differences, in_words, strictly};
use crate::commands::doctor::fetched::{CONFIGURATION, Fetched, LAUNCH_CONFIGURATION, SERVICE};
use crate::commands::doctor::finding::{Check, DoctorFinding};
use crate::commands::install::{Admission, Mode, id, objects, of_launch_alone};
use rollcall_api::names;
use serde_json::{Value, json};

/// A webhook configuration of Rollcall, with the consequences of its faults.
pub struct Configuration {
    pub id: &'static str,
    failure_policy: &'static str,
    /// Consequence of the other failure policy while the controller is down.
    otherwise: &'static str,
    /// Consequence of being installed in Lite mode.
    unserved: &'static str,
    /// Consequence if the server cannot be called.
    uncalled: &'static str,
}

pub const CONFIGURATIONS: [Configuration; 2] = [
    Configuration {
        id: CONFIGURATION,
        failure_policy: "Ignore",
        otherwise: "while the controller is down, no pod can be created",
        unserved: "it delays pod creations without any effect",
        uncalled: "pods are created without their gate",
    },
    Configuration {
        id: LAUNCH_CONFIGURATION,
        failure_policy: "Fail",
        otherwise: "while the controller is down, pods that request a launch order start without one",
        unserved: "pods that request a launch order cannot be created (other pods are not affected)",
        uncalled: "pods that request a launch order cannot be created (other pods are not affected)",
    },
];

impl Configuration {
    pub fn name(&self) -> &'static str {
        self.id.split_once('/').map_or(self.id, |(_, name)| name)
    }

    /// The failure policy that the configuration must not have.
    fn wrong_policy(&self) -> &'static str {
        if self.failure_policy == "Fail" { "Ignore" } else { "Fail" }
    }
}

/// Configurations that exist in the cluster.
pub fn installed<'a>(case: &Case<'a>) -> Vec<(&'static Configuration, &'a Value)> {
    let there = CONFIGURATIONS.iter().filter_map(|ours| Some((ours, case.seen.object(ours.id).value()?)));
    there.collect()
}

/// Describes the consequences if the server cannot be called.
pub fn uncalled(case: &Case<'_>) -> String {
    let meanings: Vec<&str> = installed(case).iter().map(|(ours, _)| ours.uncalled).collect();
    format!("the webhook cannot be called, so {}", meanings.join(", and "))
}

pub fn webhooks(configuration: &Value) -> impl Iterator<Item = &Value> {
    configuration["webhooks"].as_array().into_iter().flatten()
}

pub fn check(case: &Case<'_>) -> Vec<DoctorFinding> {
    let there = installed(case);
    if case.installed.is_lite() {
        return there.iter().map(|(ours, _)| unserved(case, ours)).collect();
    }
    let mut findings: Vec<DoctorFinding> =
        there.iter().map(|(ours, there)| configuration(case, ours, there)).collect();
    findings.extend(no_launch(case));
    let by_service = |webhook: &Value| webhook["clientConfig"]["service"].is_object();
    if there.iter().any(|(_, there)| webhooks(there).any(by_service)) {
        findings.push(service(case));
    }
    findings
}

fn unserved(case: &Case<'_>, ours: &Configuration) -> DoctorFinding {
    let name = ours.name();
    let text = format!("{name} is installed, but Lite mode does not serve it: {}", ours.unserved);
    let delete = format!("delete mutatingwebhookconfiguration {name}");
    Check::Admission.problem(text).fix(case.command_line.kubectl(delete))
}

/// Launch order is an optional part of Full mode.
fn no_launch(case: &Case<'_>) -> Option<DoctorFinding> {
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
                "{name} is not installed: the containers of pods that request a launch order start all at once"
            );
            Some(Check::Admission.note(text).fix(command_line.restore(installed, &missing)))
        }
    }
}

/// The webhooks without their `clientConfig`. It may contain a URL instead of the Service, and the certificates check examines
/// the `caBundle`.
fn called_anyhow(configuration: &Value) -> Value {
    let webhooks = webhooks(configuration).cloned().map(|mut webhook| {
        webhook.as_object_mut().map(|fields| fields.remove("clientConfig"));
        webhook
    });
    webhooks.collect()
}

/// An object as this program installs it.
fn as_printed(case: &Case<'_>, wanted: &str) -> Value {
    let all = objects(Mode::Full, Some(Admission::Webhook), &case.seen.namespace);
    all.into_iter().find(|object| id(object) == wanted).unwrap_or_default()
}

fn configuration(case: &Case<'_>, ours: &Configuration, there: &Value) -> DoctorFinding {
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
            Check::Admission.ok(format!("webhook: {name} matches this program; failurePolicy is {policy}"))
        }
        false => {
            let text = format!("{name} differs from the expected manifest: {}", in_words(&found));
            // `kubectl apply` would keep foreign entries in lists.
            case.differs(Check::Admission, text, command_line.replace(installed, &[ours.id]))
        }
    }
}

fn service(case: &Case<'_>) -> DoctorFinding {
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
        // `kubectl apply` would keep foreign entries in the selector.
        false => Check::Admission
            .problem(format!("{text}; it differs from the expected manifest: {}", in_words(&found)))
            .fix(command_line.replace(installed, &[SERVICE])),
    }
}
