//! Compares the embedded server with recorded answers of a real API server, see `examples/record-defaults.rs`.

use rollcall_sim::kinds::Kind;
use rollcall_sim::server::defaults::{self, PodAdmissionContext};
use rollcall_sim::server::refusal::Refusal;
use rollcall_sim::server::rules::{self, ELIDED};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Placeholders of the recorder for values that differ in every run.
const UID: &str = "UID";
const SUFFIX: &str = "abcde";
const TIME: &str = "2026-01-01T00:00:00Z";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/defaults")
}

fn yaml<T: serde::de::DeserializeOwned>(path: &Path) -> T {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All cases of a directory: name, sent object and recorded answer.
fn cases(of: &str) -> Vec<(String, Value, Value)> {
    let mut cases = Vec::new();
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder().join(of)).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    for file in files {
        let sent: Map<String, Value> = yaml(&file);
        let answers = answers(&file.with_extension("json"));
        assert_eq!(sent.len(), answers.len(), "{} is recorded", file.display());
        let family = file.file_stem().unwrap().to_string_lossy().into_owned();
        for (name, sent) in sent {
            let answer = answers[&name].clone();
            cases.push((format!("{of}/{family}: {name}"), sent, answer));
        }
    }
    cases
}

fn answers(path: &Path) -> Map<String, Value> {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The samples in `config/samples`.
fn samples() -> Vec<(String, Value, Value)> {
    let recorded = answers(&folder().join("good/samples.json"));
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/samples");
    let mut cases = Vec::new();
    for entry in std::fs::read_dir(samples).unwrap() {
        let file = entry.unwrap().path();
        // The directories of features contain the same kinds as the samples beside them.
        if file.is_dir() {
            continue;
        }
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let objects: Vec<Value> =
            serde_saphyr::from_multiple(&std::fs::read_to_string(&file).unwrap()).unwrap();
        for (at, object) in objects.into_iter().enumerate() {
            let name = format!("{name} {at}");
            if let Some(answer) = recorded.get(&name) {
                cases.push((name, object, answer.clone()));
            }
        }
    }
    assert_eq!(cases.len(), recorded.len(), "every sample is recorded; record them again");
    cases
}

fn kind_of(object: &Value) -> Kind {
    let text = |field: &str| object[field].as_str().unwrap();
    Kind::named(text("apiVersion"), text("kind")).unwrap()
}

/// Performs the server's steps of a creation, with the recorder's placeholders as random values.
fn create(kind: Kind, sent: &Value) -> Result<Value, Refusal> {
    let account =
        |name: &str, namespace: &str| json!({ "metadata": { "name": name, "namespace": namespace } });
    let mut silent = account("recorded-silent", "default");
    silent["automountServiceAccountToken"] = false.into();
    silent["imagePullSecrets"] = json!([{ "name": "pull" }]);
    let accounts = [&account("default", "default"), &account("recorded", "default"), &silent];
    let class = |name: &str, value: i64, policy: &str| json!({ "metadata": { "name": name }, "value": value, "preemptionPolicy": policy });
    let classes = [
        &class("recorded-never", 700, "Never"),
        &class("system-node-critical", 2_000_001_000, "PreemptLowerPriority"),
        &class("system-cluster-critical", 2_000_000_000, "PreemptLowerPriority"),
    ];
    let context = PodAdmissionContext { classes: &classes, accounts: Some(&accounts), suffix: SUFFIX };

    let mut object = if sent.is_object() { sent.clone() } else { json!({}) };
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.insert("uid".into(), UID.into());
    metadata.insert("creationTimestamp".into(), TIME.into());
    metadata.remove("resourceVersion");
    if kind.info().namespaced {
        metadata.entry("namespace").or_insert_with(|| "default".into());
    }
    defaults::fill(kind, &mut object);
    match kind {
        Kind::Pod => defaults::admit_pod(&mut object, &context)?,
        kind => defaults::admit(kind, &mut object),
    }
    defaults::initial_status(kind, &mut object);
    Ok(object)
}

/// Removes the same fields as the recorder.
fn tidy(mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().unwrap();
    for field in ["uid", "resourceVersion", "creationTimestamp"] {
        metadata.remove(field);
    }
    object
}

/// The differences between two values, one line each.
fn differences(path: &str, ours: &Value, theirs: &Value, lines: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(left), Value::Object(right)) => {
            let names: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            for name in names {
                let at = format!("{path}.{name}");
                match (left.get(name), right.get(name)) {
                    (Some(left), Some(right)) => differences(&at, left, right, lines),
                    (left, right) => lines.push(format!("  {at}: ours {left:?}, theirs {right:?}")),
                }
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (at, (left, right)) in left.iter().zip(right).enumerate() {
                differences(&format!("{path}[{at}]"), left, right, lines);
            }
        }
        (left, right) if left == right => {}
        (left, right) => lines.push(format!("  {path}: ours {left}, theirs {right}")),
    }
}

fn compare(name: &str, ours: &Value, theirs: &Value, report: &mut Vec<String>) {
    let mut lines = Vec::new();
    differences("", ours, theirs, &mut lines);
    if !lines.is_empty() {
        report.push(format!("{name}\n{}", lines.join("\n")));
    }
}

fn verdict(report: &[String]) {
    assert!(report.is_empty(), "{} differ:\n{}", report.len(), report.join("\n"));
}

#[test]
fn good_objects_become_what_they_become_on_a_real_server() {
    let mut report = Vec::new();
    let all: Vec<_> = cases("good").into_iter().chain(samples()).collect();
    assert!(all.len() > 90, "{}", all.len());
    for (name, sent, theirs) in all {
        let kind = kind_of(&sent);
        match create(kind, &sent) {
            Ok(ours) => {
                let wrong = rules::created(kind, &ours);
                assert!(wrong.is_empty(), "{name}: {wrong:?}");
                compare(&name, &tidy(ours), &theirs, &mut report);
            }
            Err(refusal) => report.push(format!("{name}\n  refused: {refusal}")),
        }
    }
    verdict(&report);
}

/// Answers of a real server are already in canonical form.
#[test]
fn filling_in_twice_changes_nothing() {
    for (name, sent, theirs) in cases("good").into_iter().chain(samples()) {
        let mut ours = theirs.clone();
        defaults::fill(kind_of(&sent), &mut ours);
        let mut report = Vec::new();
        compare(&name, &ours, &theirs, &mut report);
        verdict(&report);
    }
}

/// Calls `visit` with copies of the object, each with another part replaced.
fn replace_each(object: &Value, visit: &mut impl FnMut(Value)) {
    let mut places = vec![String::new()];
    while let Some(place) = places.pop() {
        let part = object.pointer(&place).unwrap();
        let escape = |name: &str| name.replace('~', "~0").replace('/', "~1");
        match part {
            Value::Object(fields) => {
                places.extend(fields.keys().map(|name| format!("{place}/{}", escape(name))));
            }
            Value::Array(items) => places.extend((0..items.len()).map(|at| format!("{place}/{at}"))),
            _ => {}
        }
        for other in [json!("x"), json!([1]), json!({ "a": 1 })] {
            let mut mangled = object.clone();
            *mangled.pointer_mut(&place).unwrap() = other;
            visit(mangled);
        }
    }
}

/// No input makes the server panic.
#[test]
fn mangled_objects_do_no_harm() {
    // The cost grows with the square of the size.
    for (_, sent, _) in cases("good").into_iter().filter(|(_, sent, _)| sent.to_string().len() < 1000) {
        let kind = kind_of(&sent);
        replace_each(&sent, &mut |mangled| {
            let _ = defaults::undecodable(kind, &mangled);
            let _ = defaults::unknown_fields(kind, &mangled);
            if let Ok(object) = create(kind, &mangled) {
                let _ = rules::created(kind, &object);
                let mut again = object.clone();
                defaults::carry_over(kind, &sent, &mut again, "");
                let _ = rules::updated(kind, &object, &again, "");
            }
        });
    }
}

/// Known deviations, each with its reason.
fn exceptions() -> Map<String, Value> {
    yaml(&folder().join("exceptions.yaml"))
}

/// Compares a rejection with the recorded one, except for values of the API server's own types.
fn compare_refusal(name: &str, ours: &Refusal, theirs: &Value, report: &mut Vec<String>) {
    let mut message = theirs["message"].as_str().unwrap_or_default().to_owned();
    let has_difference = message.contains("\n@@ ");
    if let Some((start, _)) = message.split_once("\n@@ ") {
        let end = if start.contains("is invalid: [") { "]" } else { "" };
        message = format!("{start}{end}");
    }
    if ours.message.contains(ELIDED)
        && let (Some(start), Some(end)) =
            (message.find("Invalid value: {"), message.find("}: field is immutable"))
    {
        let start = start + "Invalid value: ".len();
        message.replace_range(start..=end, ELIDED);
    }
    if Some(u64::from(ours.code)) != theirs["code"].as_u64() || ours.message != message {
        report.push(format!("{name}\n  ours   {ours}\n  theirs {}: {message}", theirs["code"]));
    } else if !ours.message.contains(ELIDED) && !has_difference {
        let mut details = theirs["details"].clone();
        if let Some(causes) = details.get_mut("causes").and_then(Value::as_array_mut) {
            let mut seen = BTreeSet::new();
            causes.retain(|cause| seen.insert(cause.to_string()));
        }
        let ours = json!({ "reason": ours.reason, "details": ours.details });
        compare(name, &ours, &json!({ "reason": theirs["reason"], "details": details }), report);
    }
}

#[test]
fn bad_objects_are_refused_in_the_same_words() {
    let mut report = Vec::new();
    let exceptions = exceptions();
    let all = cases("bad");
    assert!(all.len() > 150, "{}", all.len());
    for (name, sent, theirs) in all.into_iter().filter(|(name, ..)| !exceptions.contains_key(name)) {
        let kind = kind_of(&sent);
        let decoded = defaults::undecodable(kind, &sent).map_or_else(|| create(kind, &sent), Err);
        let refusal = decoded.map_or_else(Some, |object| {
            let wrong = rules::created(kind, &object);
            let name = object["metadata"]["name"].as_str().unwrap();
            (!wrong.is_empty()).then(|| Refusal::invalid(kind, name, &wrong))
        });
        match refusal {
            Some(refusal) => compare_refusal(&name, &refusal, &theirs, &mut report),
            None => report.push(format!("{name}\n  accepted; theirs {}", theirs["message"])),
        }
    }
    verdict(&report);
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, change) in changes {
        match change {
            Value::Null => drop(target.as_object_mut().unwrap().remove(name)),
            change => merge(&mut target[name], change),
        }
    }
}

#[test]
fn updates_are_made_or_refused_as_on_a_real_server() {
    let mut report = Vec::new();
    let exceptions = exceptions();
    let all = cases("updates");
    assert!(all.len() > 100, "{}", all.len());
    for (name, case, theirs) in all.into_iter().filter(|(name, ..)| !exceptions.contains_key(name)) {
        let kind = kind_of(&case["old"]);
        let subresource = case["subresource"].as_str().unwrap_or_default();
        let mut old = create(kind, &case["old"]).unwrap();
        old["metadata"]["resourceVersion"] = "1".into();
        let mut new = old.clone();
        merge(&mut new, &case["patch"]);
        defaults::fill(kind, &mut new);
        if kind == Kind::Pod && subresource.is_empty() {
            defaults::admit_pod_update(&old, &mut new);
        }
        defaults::carry_over(kind, &old, &mut new, subresource);
        let wrong = rules::updated(kind, &old, &new, subresource);
        match (wrong.as_slice(), theirs.get("code")) {
            ([], None) => compare(&name, &tidy(new), &theirs, &mut report),
            ([], Some(_)) => report.push(format!("{name}\n  accepted; theirs {}", theirs["message"])),
            (wrong, _) => {
                let refusal = Refusal::invalid(kind, old["metadata"]["name"].as_str().unwrap(), wrong);
                compare_refusal(&name, &refusal, &theirs, &mut report);
            }
        }
    }
    verdict(&report);
}
