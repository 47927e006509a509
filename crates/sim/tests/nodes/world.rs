//! An embedded cluster without Rollcall's controller, and a record of its pods.

use jiff::Timestamp;
use rollcall_controller::clock::Clock;
use rollcall_sim::cluster::Cluster;
use rollcall_sim::embedded::Embedded;
use rollcall_sim::kinds::Kind;
use rollcall_sim::server::Shared;
use rollcall_sim::store::{Change, Key, Observer};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// By pod: its observed states, and all commits with conditions.
type Seen = Arc<Mutex<BTreeMap<String, (Vec<String>, Vec<String>)>>>;

pub struct World {
    shared: Arc<Shared>,
    seen: Seen,
}

struct Record {
    from: Timestamp,
    seen: Seen,
}

impl Observer for Record {
    fn committed(&mut self, change: &Change) {
        if change.key.kind != Kind::Pod {
            return;
        }
        let what = if change.deleted { "gone".to_owned() } else { summary(&change.object) };
        let mut seen = self.seen.lock().expect("no test has panicked");
        let (lines, trail) = seen.entry(change.key.name.to_string()).or_default();
        trail.push(if change.deleted { "gone".to_owned() } else { conditions(&change.object) });
        if lines.last().and_then(|last| last.split_once(' ')).is_some_and(|(_, last)| last == what) {
            return;
        }
        let since = (change.at.duration_since(self.from).as_millis() as f64 / 100.0).round() / 10.0;
        lines.push(format!("{since} {what}"));
    }
}

/// Summary of a pod: phase, reason, containers, readiness, termination.
fn summary(pod: &Value) -> String {
    let status = &pod["status"];
    let mut words = vec![status["phase"].as_str().unwrap_or_default().to_owned()];
    words.extend(status["reason"].as_str().map(str::to_owned));
    for list in ["initContainerStatuses", "containerStatuses"] {
        for container in status[list].as_array().into_iter().flatten() {
            words.push(container_summary(container));
        }
    }
    let conditions = status["conditions"].as_array().into_iter().flatten();
    for condition in conditions {
        match (condition["type"].as_str(), condition["status"].as_str()) {
            (Some("Ready"), Some("True")) => words.push("ready".into()),
            (Some("PodScheduled"), Some("False")) => {
                words.push(condition["reason"].as_str().unwrap_or_default().to_owned());
            }
            _ => {}
        }
    }
    if pod["metadata"]["deletionTimestamp"].is_string() {
        words.push("terminating".into());
    }
    words.join(" ")
}

/// The phase, the initials of conditions (S for the sandbox; lower case if they do not hold) with the observed generation,
/// and the grace period.
fn conditions(pod: &Value) -> String {
    let status = &pod["status"];
    let mut words = vec![status["phase"].as_str().unwrap_or_default().to_owned()];
    for condition in status["conditions"].as_array().into_iter().flatten() {
        let letter = match condition["type"].as_str().unwrap_or_default() {
            "PodReadyToStartContainers" => "S",
            "PodScheduled" => "P",
            other => &other[..1],
        };
        let letter = if condition["status"] == "True" { letter.to_owned() } else { letter.to_lowercase() };
        words.push(format!("{letter}{}", condition["observedGeneration"].as_u64().unwrap_or_default()));
    }
    words.extend(status["podIP"].as_str().map(|_| "ip".to_owned()));
    words.extend(pod["metadata"]["deletionGracePeriodSeconds"].as_i64().map(|grace| format!("grace{grace}")));
    words.join(" ")
}

fn container_summary(container: &Value) -> String {
    let name = container["name"].as_str().unwrap_or_default();
    let state = &container["state"];
    let is = match (&state["waiting"], &state["terminated"]) {
        (Value::Null, Value::Null) if container["started"] == true => "runs".to_owned(),
        (Value::Null, Value::Null) => "starts".to_owned(),
        (Value::Null, ended) => format!("exit{}", ended["exitCode"]),
        (waiting, _) => waiting["reason"].as_str().unwrap_or_default().to_owned(),
    };
    match container["restartCount"].as_u64() {
        Some(0) | None => format!("{name}:{is}"),
        Some(restarts) => format!("{name}:{is}/{restarts}"),
    }
}

impl World {
    /// A cluster with these nodes. It is one second old; times count from then on.
    pub async fn with_nodes(names: &[&str]) -> World {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().expect("a time"));
        let embedded = Embedded::new(clock, 1);
        let shared = embedded.shared.clone();
        let seen = Seen::default();
        shared.lock().store.observe(Box::new(Record {
            from: clock.now() + jiff::SignedDuration::from_secs(1),
            seen: seen.clone(),
        }));
        tokio::spawn(embedded.run());
        let world = World { shared, seen };
        names.iter().for_each(|name| world.node(name, json!({})));
        tokio::time::sleep(Duration::from_secs(1)).await;
        world
    }

    pub fn change<T>(&self, change: impl FnOnce(&mut Cluster) -> T) -> T {
        let result = change(&mut self.shared.lock());
        self.shared.notify();
        result
    }

    pub fn create(&self, kind: Kind, object: Value) {
        self.change(|cluster| cluster.create(kind, object).unwrap_or_else(|refusal| panic!("{refusal}")));
    }

    /// Creates a node; `more` is merged into it.
    pub fn node(&self, name: &str, more: Value) {
        let mut node = json!({ "metadata": { "name": name } });
        merge(&mut node, more);
        self.create(Kind::Node, node);
    }

    /// Creates a pod with one container `app`; `more` is merged into it.
    pub fn pod(&self, name: &str, more: Value) {
        let mut pod = json!({
            "metadata": { "name": name, "namespace": "default" },
            "spec": { "containers": [{ "name": "app", "image": "app" }] },
        });
        merge(&mut pod, more);
        self.create(Kind::Pod, pod);
    }

    pub fn update(&self, key: &Key, change: impl FnOnce(&mut Value)) {
        self.change(|cluster| cluster.update(key, change).map(drop))
            .unwrap_or_else(|refusal| panic!("{refusal}"));
    }

    pub fn annotate(&self, key: &Key, name: &str, value: Value) {
        let name = format!("testbed.rollcall.dev/{name}");
        self.update(key, |object| object["metadata"]["annotations"][name] = value);
    }

    pub fn delete(&self, key: &Key) {
        self.change(|cluster| cluster.delete(key)).unwrap_or_else(|refusal| panic!("{refusal}"));
    }

    /// Lets time pass.
    pub async fn run(&self, seconds: f64) {
        tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
        // Actions that are due at this instant are performed as well.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    pub fn get(&self, key: &Key) -> Option<Value> {
        self.shared.lock().store.get(key).map(|object| object.value.clone())
    }

    pub fn node_of(&self, pod: &str) -> Option<String> {
        self.get(&pod_key(pod))?["spec"]["nodeName"].as_str().map(str::to_owned)
    }

    /// Why the pod is unschedulable.
    pub fn why(&self, pod: &str) -> String {
        let pod = self.get(&pod_key(pod)).expect("the object exists");
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let scheduled = conditions.iter().find(|is| is["type"] == "PodScheduled").expect("it was tried");
        assert_eq!(
            (scheduled["status"].as_str(), scheduled["reason"].as_str()),
            (Some("False"), Some("Unschedulable"))
        );
        scheduled["message"].as_str().expect("a message").to_owned()
    }

    pub fn seen(&self, pod: &str) -> Vec<String> {
        self.seen.lock().expect("no test has panicked").get(pod).cloned().unwrap_or_default().0
    }

    pub fn trail(&self, pod: &str) -> Vec<String> {
        self.seen.lock().expect("no test has panicked").get(pod).cloned().unwrap_or_default().1
    }

    #[track_caller]
    pub fn expect(&self, pod: &str, lines: &[&str]) {
        let seen = self.seen(pod);
        assert!(seen == lines, "of {pod} was seen:\n{}\nexpected:\n{}", seen.join("\n"), lines.join("\n"));
    }
}

pub fn pod_key(name: &str) -> Key {
    Key::new(Kind::Pod, "default", name)
}

pub fn node_key(name: &str) -> Key {
    Key::new(Kind::Node, "", name)
}

pub fn annotations(pairs: &[(&str, &str)]) -> Value {
    let pairs =
        pairs.iter().map(|(name, value)| (format!("testbed.rollcall.dev/{name}"), Value::from(*value)));
    json!({ "metadata": { "annotations": pairs.collect::<serde_json::Map<_, _>>() } })
}

/// Merges objects; other values are replaced.
pub fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more,
    }
}

pub fn both(mut one: Value, other: Value) -> Value {
    merge(&mut one, other);
    one
}
