//! Asks a real API server what it makes of the objects in `tests/defaults`, and writes its answers beside them.
//!
//!     cargo run -p rollcall-sim --example record-defaults
//!
//! Nothing of the embedded cluster is used here: the answers are what it is held against.

use anyhow::{Context, Result};
use kube::Client;
use rollcall_sim::kinds::Kind;
use rollcall_testbed::{Cluster, Component, Options};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::time::Duration;

const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/defaults");
const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/samples");
const CRDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/crd");
/// As it stands in a message, which is quoted once more.
const UID_LABEL: &str = r#"controller-uid\":\""#;
const UID_LENGTH: usize = 36;
const VOLUME: &str = "kube-api-access-";

#[tokio::main]
async fn main() -> Result<()> {
    let cluster = Cluster::start(Options { nodes: 0, ..Options::default() }).await?;
    cluster.kubectl_ok(&["apply", "-f", CRDS])?;
    cluster.kubectl_ok(&["wait", "--for=condition=Established", "crd", "--all"])?;
    cluster.kubectl_ok(&["apply", "-f", &format!("{CASES}/surroundings.yaml")])?;
    for namespace in ["default", "kube-system"] {
        while cluster.kubectl_ok(&["get", "serviceaccount", "default", "-n", namespace]).is_err() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    // From here on nobody but us changes anything.
    cluster.stop(Component::ControllerManager).await?;
    cluster.stop(Component::Scheduler).await?;
    let server = Server { client: cluster.client() };

    for family in families("good")? {
        let mut answers = Map::new();
        for (name, object) in cases("good", &family)? {
            answers.insert(name, server.create(&object, true).await?);
        }
        write(&format!("good/{family}.json"), &answers.into())?;
    }
    write("good/samples.json", &samples(&server).await?)?;
    for family in families("bad")? {
        let mut answers = Map::new();
        for (name, object) in cases("bad", &family)? {
            answers.insert(name, server.create(&object, true).await?);
        }
        write(&format!("bad/{family}.json"), &answers.into())?;
    }
    for family in families("updates")? {
        let mut answers = Map::new();
        for (name, case) in cases("updates", &family)? {
            answers.insert(name, server.update(&case).await?);
        }
        write(&format!("updates/{family}.json"), &answers.into())?;
    }
    Ok(())
}

/// Every object of the samples that we ship, by file and place.
async fn samples(server: &Server) -> Result<Value> {
    let mut answers = Map::new();
    let mut files: Vec<_> =
        std::fs::read_dir(SAMPLES)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.sort();
    for file in files.into_iter().filter(|file| file.is_file()) {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let objects: Vec<Value> = serde_saphyr::from_multiple(&std::fs::read_to_string(&file)?)?;
        for (at, object) in objects.iter().enumerate() {
            if kind_of(object).is_some() {
                answers.insert(format!("{name} {at}"), server.create(object, true).await?);
            }
        }
    }
    Ok(answers.into())
}

fn kind_of(object: &Value) -> Option<Kind> {
    Kind::named(object["apiVersion"].as_str()?, object["kind"].as_str()?)
}

struct Server {
    client: Client,
}

impl Server {
    async fn create(&self, object: &Value, dry: bool) -> Result<Value> {
        let path = path(object, dry)?;
        Ok(tidy(object, self.send("POST", &path, "application/json", object).await?))
    }

    /// Creates the old object, tries the patch, and deletes the object again.
    async fn update(&self, case: &Value) -> Result<Value> {
        let old = &case["old"];
        let created = self.send("POST", &path(old, false)?, "application/json", old).await?;
        anyhow::ensure!(created["kind"] == old["kind"], "cannot create {old}: {}", created["message"]);
        let name = old["metadata"]["name"].as_str().context("a name")?;
        let one = format!("{}/{name}", path(old, false)?);
        let place = match case["subresource"].as_str() {
            Some(subresource) => format!("{one}/{subresource}?dryRun=All"),
            None => format!("{one}?dryRun=All"),
        };
        let answer = self.send("PATCH", &place, "application/merge-patch+json", &case["patch"]).await?;
        let at_once = json!({ "gracePeriodSeconds": 0, "propagationPolicy": "Background" });
        self.send("DELETE", &one, "application/json", &at_once).await?;
        Ok(tidy(&created, answer))
    }

    async fn send(&self, method: &str, path: &str, content: &str, body: &Value) -> Result<Value> {
        let request = http::Request::builder().method(method).uri(path).header("content-type", content);
        let request = request.body(serde_json::to_vec(body)?)?;
        match self.client.request::<Value>(request).await {
            Ok(answer) => Ok(answer),
            Err(kube::Error::Api(status)) => {
                let status = serde_json::to_value(&status)?;
                let part = |name: &str| status[name].clone();
                let (code, reason, message) = (part("code"), part("reason"), part("message"));
                Ok(json!({ "code": code, "reason": reason, "message": message, "details": part("details") }))
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn path(object: &Value, dry: bool) -> Result<String> {
    let kind = kind_of(object).with_context(|| format!("unknown kind in {object}"))?;
    let info = kind.info();
    let group = match info.group {
        "" => format!("/api/{}", info.version),
        group => format!("/apis/{group}/{}", info.version),
    };
    let namespace = match object["metadata"]["namespace"].as_str() {
        Some(namespace) if info.namespaced => format!("/namespaces/{namespace}"),
        None if info.namespaced => "/namespaces/default".to_owned(),
        _ => String::new(),
    };
    let query = if dry { "?dryRun=All&fieldValidation=Ignore" } else { "" };
    Ok(format!("{group}{namespace}/{}{query}", info.plural))
}

/// Takes out what is different every time.
fn tidy(sent: &Value, mut answer: Value) -> Value {
    for uid in [answer["metadata"]["uid"].clone(), sent["metadata"]["uid"].clone()] {
        if let Some(uid) = uid.as_str() {
            answer = replace(&answer, uid, "UID");
        }
    }
    // A Job that was refused had a uid already, and its labels name it.
    let text = answer.to_string();
    if let Some(at) = text.find(UID_LABEL) {
        let uid = &text[at + UID_LABEL.len()..][..UID_LENGTH];
        if !uid.starts_with("UID") {
            answer = replace(&answer, uid, "UID");
        }
    }
    let text = answer.to_string();
    if let Some(at) = text.find(VOLUME) {
        let end = at + VOLUME.len() + 5;
        answer = replace(&answer, &text[at..end], &format!("{VOLUME}abcde"));
    }
    // A gated pod is born with a condition that has its time.
    if let Some(condition) = answer.pointer_mut("/status/conditions/0")
        && condition["reason"] == "SchedulingGated"
    {
        condition["lastTransitionTime"] = "2026-01-01T00:00:00Z".into();
    }
    if let Some(metadata) = answer.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields"] {
            metadata.remove(field);
        }
    }
    if answer["kind"] == "Service" && answer["spec"]["clusterIP"] != "None" {
        for field in ["clusterIP", "clusterIPs"] {
            answer["spec"].as_object_mut().map(|spec| spec.remove(field));
        }
    }
    answer
}

fn replace(value: &Value, from: &str, to: &str) -> Value {
    serde_json::from_str(&value.to_string().replace(from, to)).unwrap_or_default()
}

fn families(folder: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(Path::new(CASES).join(folder))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}

fn cases(folder: &str, family: &str) -> Result<Map<String, Value>> {
    let file = Path::new(CASES).join(folder).join(format!("{family}.yaml"));
    Ok(serde_saphyr::from_str(&std::fs::read_to_string(file)?)?)
}

fn write(file: &str, answers: &Value) -> Result<()> {
    std::fs::write(Path::new(CASES).join(file), serde_json::to_string_pretty(answers)? + "\n")?;
    Ok(())
}
