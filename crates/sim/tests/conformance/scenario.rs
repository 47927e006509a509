//! Scenarios: sequences of steps that change objects or wait for a state.
//!
//! | step | |
//! |---|---|
//! | `create:` | creates one or several objects; see `objects.rs` |
//! | `sample:` | creates the objects of a file in `config/samples`, without probes; `more:` is merged into them, by
//! `Kind/name` |
//! | `patch: Kind/name`, `with:` | a merge patch; `Kind/name/status` patches the status |
//! | `post: Kind/name/sub`, `with:` | posts to a subresource, with the name of the object |
//! | `delete: Kind/name`, `with:` | deletes with these options |
//! | `until: Kind/name`, `is:` | waits until an object matches; `until: Kind`, `count:` waits for this number of objects |
//! | `gone: Kind/name` | waits until the object is deleted |
//! | `changes: Kind/name`, `at:` | waits until a field, given as a JSON pointer, changes |
//!
//! `code:` is the expected code of a rejected request. `app-*` stands for the first object with a generated name of this
//! form.

use super::objects::{prefix_annotations, whole};
use super::recorder::{KINDS, Recorder, existing_objects};
use super::requests::merge;
use super::side::{Side, fits, kind, place};
use anyhow::{Context, Result, bail, ensure};
use rollcall_sim::kinds::Kind;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::path::Path;
use std::time::Duration;
use tokio::time::Instant;

const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/samples");
/// A CronJob may need up to two full minutes.
const LIMIT: Duration = Duration::from_secs(150);
const POLL: Duration = Duration::from_millis(40);

/// When a scenario runs on the real cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Turn {
    /// Concurrently with others.
    Together,
    /// Alone, because other scenarios would use its nodes.
    Alone,
    /// Concurrently with all others, because it waits for a scheduled time.
    Long,
    /// On the node with a real kubelet.
    Kubelet,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    pub turn: Turn,
    #[serde(default)]
    pub given: Map<String, Value>,
    pub scenarios: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Globs of `Kind/name`; the order of events across these objects is compared, too.
    #[serde(default)]
    pub order: Vec<String>,
    /// Whether the nodes of pods are ignored, because the scheduler picks randomly between equal nodes.
    #[serde(default)]
    pub anywhere: bool,
    steps: Vec<Step>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Step {
    create: Value,
    sample: Option<String>,
    more: Map<String, Value>,
    patch: Option<String>,
    post: Option<String>,
    delete: Option<String>,
    with: Value,
    until: Option<String>,
    is: Value,
    count: Option<usize>,
    gone: Option<String>,
    changes: Option<String>,
    at: String,
    code: Option<u16>,
}

impl Scenario {
    pub async fn run(&self, side: &Side, recorder: &Recorder, namespace: &str) -> Result<()> {
        let hand = Hand { side, recorder, namespace };
        for (number, step) in self.steps.iter().enumerate() {
            hand.step(step).await.with_context(|| format!("{namespace}, step {}", number + 1))?;
        }
        Ok(())
    }
}

struct Hand<'a> {
    side: &'a Side,
    recorder: &'a Recorder,
    namespace: &'a str,
}

impl Hand<'_> {
    async fn step(&self, step: &Step) -> Result<()> {
        let one = std::slice::from_ref(&step.create);
        let created = step.create.as_array().map_or(one, Vec::as_slice);
        for object in created.iter().filter(|object| !object.is_null()) {
            self.create(object, step.code).await?;
        }
        if let Some(sample) = &step.sample {
            self.sample(sample, &step.more).await?;
        }
        if let Some(what) = &step.patch {
            let mut patch = step.with.clone();
            if let Some(metadata) = patch.get_mut("metadata") {
                prefix_annotations(metadata);
            }
            let (path, _) = self.path(what).await?;
            self.send("PATCH", &path, "application/merge-patch+json", &patch, step.code).await?;
        }
        if let Some(what) = &step.post {
            let (path, name) = self.path(what).await?;
            let mut body = step.with.clone();
            body["metadata"]["name"] = name.into();
            self.send("POST", &path, "application/json", &body, step.code).await?;
        }
        if let Some(what) = &step.delete {
            let (path, _) = self.path(what).await?;
            self.send("DELETE", &path, "application/json", &step.with, step.code).await?;
        }
        if let Some(what) = &step.until {
            self.until(what, &step.is, step.count).await?;
        }
        if let Some(what) = &step.gone {
            self.wait(what, &format!("no {what}"), async || Ok(self.find_recorded(what).await?.is_empty()))
                .await?;
        }
        if let Some(what) = &step.changes {
            let field = async || {
                let found = self.find(what).await?;
                anyhow::Ok(found.first().and_then(|object| object.pointer(&step.at)).cloned())
            };
            let before = field().await?;
            let awaited = format!("{what} with another {}", step.at);
            self.wait(what, &awaited, async || Ok(field().await? != before)).await?;
        }
        Ok(())
    }

    async fn create(&self, short: &Value, code: Option<u16>) -> Result<()> {
        let (kind, object) = whole(short, self.namespace)?;
        self.send("POST", &place(kind, Some(self.namespace)), "application/json", &object, code).await
    }

    async fn sample(&self, file: &str, more: &Map<String, Value>) -> Result<()> {
        let text = std::fs::read_to_string(Path::new(SAMPLES).join(file)).context(file.to_owned())?;
        let mut objects: Vec<Value> = serde_saphyr::from_multiple(&text)?;
        // With the sequence created last, it starts after all pods exist.
        objects.sort_by_key(|object| object["kind"] == "PodSequence");
        for mut object in objects {
            without_probes(&mut object);
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let name = format!("{}/{}", text(&object["kind"]), text(&object["metadata"]["name"]));
            if let Some(more) = more.get(&name) {
                merge(&mut object, more.clone());
            }
            self.create(&object, None).await?;
        }
        Ok(())
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        content: &str,
        body: &Value,
        code: Option<u16>,
    ) -> Result<()> {
        let bytes = if body.is_null() { Vec::new() } else { serde_json::to_vec(body)? };
        let answer = self.side.send(method, path, content, bytes).await?;
        let expected = code.map_or(answer.code < 300, |code| answer.code == code);
        ensure!(expected, "{method} {path}: {} {}", answer.code, answer.body["message"]);
        Ok(())
    }

    /// The path of `Kind/name` or `Kind/name/subresource`, and the name.
    async fn path(&self, what: &str) -> Result<(String, String)> {
        let mut parts = what.splitn(3, '/');
        let (of, name) = (parts.next().unwrap_or_default(), parts.next().context("Kind/name")?);
        let name = match name.contains('*') {
            true => {
                let found = self.find(&format!("{of}/{name}")).await?;
                let first = found.first().with_context(|| format!("no {what}"))?;
                first["metadata"]["name"].as_str().unwrap_or_default().to_owned()
            }
            false => name.to_owned(),
        };
        let subresource = parts.next().map(|part| format!("/{part}")).unwrap_or_default();
        Ok((format!("{}/{name}{subresource}", place(kind(of)?, Some(self.namespace))), name))
    }

    /// The matching objects: one by name, several by `*`, or all of a kind. Of namespaces, only that of the scenario
    /// matches.
    async fn find(&self, what: &str) -> Result<Vec<Value>> {
        let (kind, name) = meant(what)?;
        let list = self.side.get(&place(kind, Some(self.namespace))).await?.body;
        let items = list["items"].as_array().cloned().with_context(|| format!("list {what}: {list}"))?;
        let own = |item: &Value| kind != Kind::Namespace || item["metadata"]["name"] == self.namespace;
        Ok(items.into_iter().filter(|item| is_named(item, name) && own(item)).collect())
    }

    /// Like [`Hand::find`], but from the recorded events where possible.
    async fn find_recorded(&self, what: &str) -> Result<Vec<Value>> {
        let (kind, name) = meant(what)?;
        if !KINDS.contains(&kind) {
            return self.find(what).await;
        }
        let events = self.recorder.events_of(self.namespace);
        let is_meant = |(of, item): &(Kind, &Value)| *of == kind && is_named(item, name);
        Ok(existing_objects(&events).filter(is_meant).map(|(_, item)| item.clone()).collect())
    }

    async fn until(&self, what: &str, is: &Value, count: Option<usize>) -> Result<()> {
        let awaited = format!("{what} like {is}");
        self.wait(what, &awaited, async || {
            let found = self.find_recorded(what).await?;
            let like = found.iter().filter(|object| is.is_null() || includes(object, is)).count();
            Ok(count.map_or(like > 0, |count| like == count && found.len() == count))
        })
        .await
    }

    /// Waits for a condition on these objects. Watched objects are checked after each event.
    async fn wait(&self, of: &str, what: &str, probe: impl AsyncFn() -> Result<bool>) -> Result<()> {
        let deadline = Instant::now() + LIMIT;
        let watched = KINDS.contains(&meant(of)?.0);
        loop {
            let known = self.recorder.count(self.namespace);
            if probe().await? {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("{what}: not within {LIMIT:?}; there is {}", Value::from(self.find(of).await?));
            }
            let is_news = || !watched || self.recorder.count(self.namespace) != known;
            tokio::time::sleep(POLL).await;
            while !is_news() && Instant::now() <= deadline {
                tokio::time::sleep(POLL).await;
            }
        }
    }
}

/// The kind and the name glob.
fn meant(what: &str) -> Result<(Kind, &str)> {
    let (of, name) = what.split_once('/').unwrap_or((what, "*"));
    Ok((kind(of)?, name))
}

fn is_named(item: &Value, glob: &str) -> bool {
    fits(glob, item["metadata"]["name"].as_str().unwrap_or_default())
}

/// Whether a value contains everything in `wanted`. A list must contain a matching item for each wanted one. Null means
/// absent.
fn includes(value: &Value, wanted: &Value) -> bool {
    match wanted {
        Value::Object(fields) => fields.iter().all(|(name, wanted)| includes(&value[name], wanted)),
        Value::Array(items) => {
            let has = |wanted: &Value| {
                value.as_array().is_some_and(|all| all.iter().any(|one| includes(one, wanted)))
            };
            items.iter().all(has)
        }
        plain => value == plain,
    }
}

/// Removes probes. kwok does not run them, so pods with probes would be ready sooner there.
fn without_probes(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !name.ends_with("Probe"));
            fields.values_mut().for_each(without_probes);
        }
        Value::Array(items) => items.iter_mut().for_each(without_probes),
        _ => {}
    }
}
