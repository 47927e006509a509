//! Validation of Jobs and CronJobs.

use super::{
    ELIDED, cron, invalid_shown, items, metadata, names, not_negative, one_of, pod, selector, text, workloads,
};
use crate::server::refusal::{Wrong, WrongKind};
use serde_json::{Value, json};

/// Limit of a CronJob's name. The name of its Jobs has an additional suffix of digits.
const CRON_NAME_LENGTH: usize = 52;
const INDEXED_PARALLELISM: i64 = 100_000;
const UID_LABELS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];
const NAME_LABELS: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];

pub fn job(job: &Value, found: &mut Vec<Wrong>) {
    let spec = &job["spec"];
    if spec["manualSelector"] != true && spec.get("selector").is_some() {
        generated_selector(job, found);
    }
    check_spec(spec, "spec", found);
    match spec.get("selector") {
        None => found.push(Wrong::required("spec.selector", "")),
        Some(wanted) => selector::check(wanted, "spec.selector", found),
    }
    let wanted = &spec["selector"];
    if selector::is_sound(wanted) && !selector::matches(wanted, &spec["template"]["metadata"]["labels"]) {
        workloads::no_match(spec, found);
    }
    if spec["completionMode"] == "Indexed"
        && let Some(completions) = spec["completions"].as_i64().filter(|completions| *completions > 0)
    {
        let name = text(&job["metadata"], "name");
        let last = format!("{name}-{}", completions - 1);
        if !names::dns_label(&last).is_empty() {
            let words = format!("will not able to create pod with invalid DNS label: {last}");
            found.push(Wrong::invalid("metadata.name", &name.into(), &words));
        }
    }
}

/// The generated labels and selector must not be set to other values.
fn generated_selector(job: &Value, found: &mut Vec<Wrong>) {
    let (uid, name) = (text(&job["metadata"], "uid"), text(&job["metadata"], "name"));
    let labels = &job["spec"]["template"]["metadata"]["labels"];
    let mut expected = json!({});
    for (at, uid_label) in UID_LABELS.iter().enumerate() {
        for (label, value) in [(uid_label, uid), (&NAME_LABELS[at], name)] {
            expected[*label] = value.into();
            let field = "spec.template.metadata.labels";
            match labels[*label].as_str() {
                Some(found_value) if found_value == value => {}
                Some(_) => {
                    let words = format!("must be '{value}'");
                    found.push(Wrong::invalid(format!("{field}[{label}]"), labels, &words));
                }
                None => {
                    found.push(Wrong::required(format!("{field}[{label}]"), format!("must be '{value}'")));
                }
            }
        }
    }
    let wanted = &job["spec"]["selector"];
    if selector::is_sound(wanted) && !selector::matches(wanted, &expected) {
        let words = "`selector` not auto-generated";
        found.push(invalid_shown("spec.selector", &selector::shown(wanted), words));
    }
}

fn check_spec(spec: &Value, path: &str, found: &mut Vec<Wrong>) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        not_negative(found, spec, field, path);
    }
    let has = |field: &str| spec.get(field).is_some();
    if has("maxFailedIndexes") && !has("backoffLimitPerIndex") {
        let words = "when maxFailedIndexes is specified";
        found.push(Wrong::required(format!("{path}.backoffLimitPerIndex"), words));
    }
    completion_mode(spec, path, found);
    if let Some(policy) = spec.get("podReplacementPolicy") {
        let all: &[&str] =
            if has("podFailurePolicy") { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
        one_of(found, &format!("{path}.podReplacementPolicy"), policy, all);
    }
    pod::template(&spec["template"], &format!("{path}.template"), &[], found);
    let field = format!("{path}.template.spec.restartPolicy");
    match text(&spec["template"]["spec"], "restartPolicy") {
        "" | "Always" => found.push(Wrong::required(field, "valid values: \"OnFailure\", \"Never\"")),
        "OnFailure" if has("podFailurePolicy") => {
            let words = "only \"Never\" is supported when podFailurePolicy is specified";
            found.push(Wrong::invalid(field, &"OnFailure".into(), words));
        }
        "OnFailure" | "Never" => {}
        other => found.push(Wrong::not_supported(field, &other.into(), &["OnFailure", "Never"])),
    }
}

fn completion_mode(spec: &Value, path: &str, found: &mut Vec<Wrong>) {
    if let Some(mode) = spec.get("completionMode") {
        one_of(found, &format!("{path}.completionMode"), mode, &["NonIndexed", "Indexed"]);
    }
    match text(spec, "completionMode") {
        "Indexed" => {
            if spec.get("completions").is_none() {
                let words = "when completion mode is Indexed";
                found.push(Wrong::required(format!("{path}.completions"), words));
            }
            let parallelism = &spec["parallelism"];
            if parallelism.as_i64().is_some_and(|number| number > INDEXED_PARALLELISM) {
                let words = format!(
                    "must be less than or equal to {INDEXED_PARALLELISM} when completion mode is Indexed"
                );
                found.push(Wrong::invalid(format!("{path}.parallelism"), parallelism, &words));
            }
        }
        "NonIndexed" | "" => {
            for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                if let Some(value) = spec.get(field) {
                    let words = "requires indexed completion mode";
                    found.push(Wrong::invalid(format!("{path}.{field}"), value, words));
                }
            }
        }
        _ => {}
    }
}

pub fn job_updated(old: &Value, new: &Value, found: &mut Vec<Wrong>) {
    job(new, found);
    let (before, after) = (&old["spec"], &new["spec"]);
    if after["completionMode"] != "Indexed" {
        metadata::immutable(found, "spec.completions", &before["completions"], &after["completions"]);
    } else if before["completions"] != after["completions"] && after["completions"] != after["parallelism"] {
        let words = "can only be modified in tandem with spec.parallelism";
        found.push(Wrong::invalid("spec.completions", &after["completions"], words));
    }
    workloads::selector_immutable(before, after, found);
    template_kept(old, new, found);
    metadata::immutable(found, "spec.completionMode", &before["completionMode"], &after["completionMode"]);
    for field in ["podFailurePolicy", "successPolicy"] {
        let field_path = format!("spec.{field}");
        metadata::immutable_as(found, &field_path, &before[field], &after[field], ELIDED);
    }
    for field in ["backoffLimitPerIndex", "managedBy"] {
        metadata::immutable(found, &format!("spec.{field}"), &before[field], &after[field]);
    }
}

/// The template of a Job is immutable. While the Job is suspended without running pods, scheduling fields and resources may
/// change.
fn template_kept(old: &Value, new: &Value, found: &mut Vec<Wrong>) {
    let mut before = old["spec"]["template"].clone();
    let after = &new["spec"]["template"];
    let suspended = old["spec"]["suspend"] == true;
    let status = &old["status"];
    let is_suspended = |condition: &Value| condition["type"] == "Suspended" && condition["status"] == "True";
    let idle = (status.get("startTime").is_none() || items(status, "conditions").any(is_suspended))
        && status["active"].as_i64().unwrap_or_default() == 0;
    if !(suspended && idle) {
        metadata::immutable_as(found, "spec.template", &before, after, ELIDED);
        return;
    }
    let same = |before: &mut Value, after: &Value, field: &str| {
        if let Some(fields) = before.as_object_mut() {
            match after.get(field) {
                Some(value) => fields.insert(field.to_owned(), value.clone()),
                None => fields.remove(field),
            };
        }
    };
    let spec = &mut before["spec"];
    for field in ["nodeSelector", "tolerations", "schedulingGates"] {
        same(spec, &after["spec"], field);
    }
    if let Some(affinity) = after["spec"].get("affinity") {
        if spec.get("affinity").is_none() {
            spec["affinity"] = json!({});
        }
        same(&mut spec["affinity"], affinity, "nodeAffinity");
    } else if spec.get("affinity").is_some_and(|affinity| {
        affinity.as_object().is_some_and(|kinds| kinds.keys().all(|kind| kind == "nodeAffinity"))
    }) {
        same(spec, &after["spec"], "affinity");
    }
    for list in ["containers", "initContainers"] {
        let old = spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for (old, new) in old.zip(items(&after["spec"], list)).filter(|(old, new)| old["name"] == new["name"])
        {
            same(old, new, "resources");
        }
    }
    metadata::immutable_as(found, "spec.template.spec", spec, &after["spec"], ELIDED);
}

pub fn cron_job_created(job: &Value, found: &mut Vec<Wrong>) {
    cron_job(&job["spec"], found);
    let name = text(&job["metadata"], "name");
    if name.len() > CRON_NAME_LENGTH {
        let words = format!("must be no more than {CRON_NAME_LENGTH} characters");
        found.push(Wrong::invalid("metadata.name", &name.into(), &words));
    }
}

pub fn cron_job(spec: &Value, found: &mut Vec<Wrong>) {
    match text(spec, "schedule") {
        "" => found.push(Wrong::required("spec.schedule", "")),
        schedule => {
            if let Err(words) = cron::check(schedule) {
                found.push(Wrong::invalid("spec.schedule", &schedule.into(), &words));
            }
            if schedule.contains("TZ") {
                let words = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
                found.push(Wrong::invalid("spec.schedule", &schedule.into(), words));
            }
        }
    }
    not_negative(found, spec, "startingDeadlineSeconds", "spec");
    if let Some(zone) = spec["timeZone"].as_str() {
        time_zone(zone, found);
    }
    let policies = ["Allow", "Forbid", "Replace"];
    one_of(found, "spec.concurrencyPolicy", &spec["concurrencyPolicy"], &policies);
    let (job, path) = (&spec["jobTemplate"]["spec"], "spec.jobTemplate.spec");
    check_spec(job, path, found);
    if let Some(wanted) = job.get("selector") {
        let words = "`selector` will be auto-generated";
        found.push(invalid_shown(&format!("{path}.selector"), &selector::shown(wanted), words));
    }
    if job["manualSelector"] == true {
        let detail = "true: supported values: \"nil\", \"false\"".to_owned();
        let field = format!("{path}.manualSelector");
        found.push(Wrong { field, kind: WrongKind::NotSupported, detail });
    }
    not_negative(found, spec, "successfulJobsHistoryLimit", "spec");
    not_negative(found, spec, "failedJobsHistoryLimit", "spec");
}

/// Areas of the time zone database. City names are not checked.
const AREAS: [&str; 17] = [
    "Africa",
    "America",
    "Antarctica",
    "Arctic",
    "Asia",
    "Atlantic",
    "Australia",
    "Brazil",
    "Canada",
    "Chile",
    "Etc",
    "Europe",
    "Indian",
    "Mexico",
    "Pacific",
    "US",
    "posix",
];

fn time_zone(zone: &str, found: &mut Vec<Wrong>) {
    let mut wrong = |words: &str| found.push(Wrong::invalid("spec.timeZone", &zone.into(), words));
    if zone.is_empty() {
        return wrong("timeZone must be nil or non-empty string");
    }
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'+');
    let part = |part: &str| {
        (1..=14).contains(&part.len())
            && part.bytes().all(inner)
            && !part.starts_with('-')
            && !matches!(part, "." | "..")
    };
    let known = zone.split_once('/').is_none_or(|(area, _)| AREAS.contains(&area));
    if zone.eq_ignore_ascii_case("Local") {
        wrong("timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones");
    } else if !zone.split('/').all(part) || !known {
        wrong(&format!("unknown time zone {zone}"));
    }
}
