//! A cluster with a few nodes, functions to change its objects, and a log of its pods.

use jiff::{SignedDuration, Timestamp};
use rollcall_controller::clock::Clock;
use rollcall_sim::embedded::Embedded;
use rollcall_sim::kinds::Kind;
use rollcall_sim::server::Shared;
use rollcall_sim::server::refusal::Refusal;
use rollcall_sim::store::{Change, Key, Observer};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub struct World {
    shared: Arc<Shared>,
    notes: Arc<Mutex<Notes>>,
    clock: Clock,
}

/// The log of pods: `+` created, `!` ready, `~` terminating, `-` deleted.
#[derive(Default)]
struct Notes {
    log: Vec<String>,
    /// Generated names are random, so they are replaced with numbers in order of creation.
    names: BTreeMap<String, String>,
    counts: BTreeMap<String, usize>,
}

impl Notes {
    fn name(&mut self, change: &Change) -> String {
        let uid = change.object.uid().to_owned();
        if let Some(known) = self.names.get(&uid) {
            return known.clone();
        }
        // Pods of a StatefulSet have `generateName`, but their names are not random.
        let ordinal = change.object["metadata"]["labels"]["apps.kubernetes.io/pod-index"].is_string();
        let name = match change.object["metadata"]["generateName"].as_str() {
            Some(start) if !ordinal => {
                let count = self.counts.entry(start.to_owned()).or_default();
                *count += 1;
                format!("{start}#{count}")
            }
            _ => change.key.name.to_string(),
        };
        self.names.insert(uid, name.clone());
        name
    }
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

struct Eye(Arc<Mutex<Notes>>);

impl Observer for Eye {
    fn committed(&mut self, change: &Change) {
        if change.key.kind != Kind::Pod {
            return;
        }
        let mut notes = self.0.lock().unwrap();
        let name = notes.name(change);
        let before = change.before.as_deref();
        let mut note = |sign: &str| notes.log.push(format!("{sign}{name}"));
        if before.is_none() {
            note("+");
        }
        if is_ready(&change.object) && !before.is_some_and(|before| is_ready(before)) {
            note("!");
        }
        let ending = change.object.is_terminating();
        if ending && !change.deleted && !before.is_some_and(|before| before.is_terminating()) {
            note("~");
        }
        if change.deleted {
            note("-");
        }
    }
}

impl World {
    /// A cluster with nodes `node-1` to `node-{count}`. It begins at 2026-01-01T00:00:00Z, a Thursday.
    pub fn with_nodes(count: usize) -> World {
        let begin: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let clock = Clock::starting_at(begin);
        let embedded = Embedded::new(clock, 7);
        let world = World { shared: embedded.shared.clone(), notes: Arc::default(), clock };
        // Jobs' pods do not end by themselves here.
        world.shared.lock().programs.job = SignedDuration::from_hours(24 * 365);
        world.shared.lock().store.observe(Box::new(Eye(world.notes.clone())));
        for number in 1..=count {
            world.node(&format!("node-{number}"), json!({}), json!([]));
        }
        tokio::spawn(embedded.run());
        world
    }

    pub fn node(&self, name: &str, labels: Value, taints: Value) {
        let ready = json!([{ "type": "Ready", "status": "True" }]);
        let room = json!({ "cpu": "64", "memory": "256Gi", "pods": "5000" });
        self.create(
            Kind::Node,
            json!({
                "metadata": { "name": name, "labels": labels }, "spec": { "taints": taints },
                "status": { "conditions": ready, "capacity": room, "allocatable": room },
            }),
        );
    }

    pub fn try_create(&self, kind: Kind, mut object: Value) -> Result<String, Refusal> {
        if kind.info().namespaced {
            object["metadata"]["namespace"] = "default".into();
        }
        let created = self.shared.lock().create(kind, object)?;
        self.shared.notify();
        Ok(created["metadata"]["name"].as_str().unwrap().to_owned())
    }

    #[track_caller]
    pub fn create(&self, kind: Kind, object: Value) -> String {
        self.try_create(kind, object).unwrap_or_else(|refusal| panic!("{refusal}"))
    }

    fn key(kind: Kind, name: &str) -> Key {
        Key::new(kind, if kind.info().namespaced { "default" } else { "" }, name)
    }

    #[track_caller]
    pub fn edit(&self, kind: Kind, name: &str, change: impl FnOnce(&mut Value)) {
        let outcome = self.shared.lock().update(&Self::key(kind, name), change);
        outcome.unwrap_or_else(|refusal| panic!("{refusal}"));
        self.shared.notify();
    }

    pub fn delete(&self, kind: Kind, name: &str) {
        self.shared.lock().delete(&Self::key(kind, name)).unwrap_or_else(|refusal| panic!("{refusal}"));
        self.shared.notify();
    }

    /// Lets time pass.
    pub async fn wait(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// Lets time pass until the given number of seconds after the beginning.
    pub async fn until(&self, seconds: i64) {
        let at = "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds);
        let left = at.duration_since(self.clock.now());
        tokio::time::sleep(Duration::try_from(left).unwrap_or_default()).await;
    }

    pub fn get(&self, kind: Kind, name: &str) -> Value {
        self.find(kind, name).unwrap_or_else(|| panic!("no {} {name}", kind.info().name))
    }

    pub fn find(&self, kind: Kind, name: &str) -> Option<Value> {
        self.shared.lock().store.get(&Self::key(kind, name)).map(|object| object.value.clone())
    }

    pub fn all(&self, kind: Kind) -> Vec<Value> {
        let namespace = kind.info().namespaced.then_some("default");
        self.shared.lock().store.list(kind, namespace).map(|(_, object)| object.value.clone()).collect()
    }

    pub fn names(&self, kind: Kind) -> Vec<String> {
        self.all(kind).iter().map(|object| object["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    pub fn status(&self, kind: Kind, name: &str) -> Value {
        self.get(kind, name)["status"].clone()
    }

    /// A condition as `status reason`.
    pub fn condition(&self, kind: Kind, name: &str, condition: &str) -> String {
        let status = self.status(kind, name);
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        match conditions.iter().find(|one| one["type"] == condition) {
            Some(one) => {
                format!("{} {}", one["status"].as_str().unwrap(), one["reason"].as_str().unwrap_or_default())
            }
            None => "none".into(),
        }
    }

    /// The log since the last call.
    pub fn log(&self) -> String {
        std::mem::take(&mut self.notes.lock().unwrap().log).join(" ")
    }

    /// The log since the last call, with these signs only.
    pub fn only(&self, signs: &str) -> String {
        let log = std::mem::take(&mut self.notes.lock().unwrap().log);
        let wanted = |note: &String| note.chars().next().is_some_and(|sign| signs.contains(sign));
        log.into_iter().filter(wanted).collect::<Vec<_>>().join(" ")
    }

    /// The real name of a numbered pod.
    pub fn pod(&self, numbered: &str) -> String {
        let notes = self.notes.lock().unwrap();
        let uid = notes.names.iter().find(|(_, name)| *name == numbered).map(|(uid, _)| uid.clone());
        drop(notes);
        let uid = uid.unwrap_or_else(|| panic!("there was no {numbered}"));
        let pods = self.all(Kind::Pod);
        let pod = pods.iter().find(|pod| pod["metadata"]["uid"] == *uid);
        pod.unwrap_or_else(|| panic!("{numbered} was deleted"))["metadata"]["name"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// Changes the behaviour of a pod's programs from now on.
    fn behave(&self, name: &str, what: &str, value: &str) {
        self.edit(Kind::Pod, name, |pod| {
            if !pod["metadata"]["annotations"].is_object() {
                pod["metadata"]["annotations"] = json!({});
            }
            pod["metadata"]["annotations"][format!("testbed.rollcall.dev/{what}")] = value.into();
        });
    }

    /// Ends a pod, successfully or not.
    pub fn end(&self, numbered: &str, phase: &str) {
        self.end_named(&self.pod(numbered), phase);
    }

    pub fn end_named(&self, name: &str, phase: &str) {
        let what = if phase == "Succeeded" { "complete-after" } else { "fail-after" };
        self.behave(name, what, "0s");
    }

    /// Makes a pod not ready, or ready again.
    pub fn set_ready(&self, numbered: &str, ready: bool) {
        self.behave(&self.pod(numbered), "ready", if ready { "true" } else { "false" });
    }

    /// Prevents or permits the removal of a pod after its deletion.
    pub fn hold(&self, numbered: &str, held: bool) {
        let name = self.pod(numbered);
        self.edit(Kind::Pod, &name, |pod| {
            pod["metadata"]["finalizers"] = if held { json!(["example.com/held"]) } else { json!([]) };
        });
    }
}

/// A pod template with this label. The pods of version "broken" never start.
pub fn template(app: &str, version: &str) -> Value {
    let mut template = json!({
        "metadata": { "labels": { "app": app } },
        "spec": { "containers": [{ "name": "main", "image": format!("{app}:{version}") }] },
    });
    if version == "broken" {
        template["spec"]["schedulingGates"] = json!([{ "name": "example.com/never" }]);
    }
    template
}

pub fn selector(app: &str) -> Value {
    json!({ "matchLabels": { "app": app } })
}

/// Selected fields of an object, for concise assertions.
pub fn part(object: &Value, fields: &[&str]) -> Value {
    fields.iter().filter_map(|field| Some(((*field).to_owned(), object.get(*field)?.clone()))).collect()
}
