//! A scene: one test's namespace on a cluster, with helpers to act and to wait there.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod, ResourceQuota};
use k8s_openapi::api::events::v1::Event;
use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use rollcall_testbed::wait;
use serde_json::{Value, json};

use super::LIMIT;
use super::controller::Controller;
use super::lab::{ACCOUNT, Lab};
use super::make::{self, With};
use super::order::{self, History, Rules};

/// The API server writes an audit event shortly after it answers.
const AUDIT_DELAY: Duration = Duration::from_secs(5);

/// The environment of a test. If it is dropped without [`Scene::done`], it prints the controller's log.
pub struct Scene<'a> {
    pub lab: &'a Lab,
    pub namespace: String,
    pub client: Client,
    /// Facts for the verifier that the audit log does not contain.
    pub rules: Rules,
    controller: Option<&'static Controller>,
    passed: bool,
}

impl Scene<'static> {
    /// A new namespace on the shared cluster, with the shared controller.
    pub async fn new(prefix: &str) -> Result<Scene<'static>> {
        let (lab, controller) = (Lab::shared().await?, Controller::shared().await?);
        let mut scene = Scene::without_controller(lab, prefix).await?;
        scene.controller = Some(controller);
        Ok(scene)
    }

    /// An existing namespace on the shared cluster, with the shared controller.
    pub async fn in_namespace(namespace: &str) -> Result<Scene<'static>> {
        let (lab, controller) = (Lab::shared().await?, Controller::shared().await?);
        let mut scene = Scene::at(lab, namespace.to_owned());
        scene.controller = Some(controller);
        Ok(scene)
    }
}

impl<'a> Scene<'a> {
    /// A new namespace; the test itself starts a controller, if it needs one.
    pub async fn without_controller(lab: &'a Lab, prefix: &str) -> Result<Scene<'a>> {
        let namespace = lab.cluster().namespace(prefix).await?;
        Ok(Scene::at(lab, namespace))
    }

    fn at(lab: &'a Lab, namespace: String) -> Scene<'a> {
        let client = lab.cluster().client();
        let rules = Rules { by_node: lab.mode == "full", ..Rules::new(ACCOUNT, &namespace) };
        Scene { lab, namespace, client, rules, controller: None, passed: false }
    }

    pub fn controller(&self) -> &'static Controller {
        self.controller.expect("this scene has no shared controller")
    }

    /// The API for objects of a kind in this namespace, or in the whole cluster for cluster-scoped kinds.
    pub fn api(&self, kind: &str) -> Api<DynamicObject> {
        self.api_in(kind, &self.namespace)
    }

    pub fn api_in(&self, kind: &str, namespace: &str) -> Api<DynamicObject> {
        let resource = resource(kind);
        match kind {
            "Namespace" | "Node" => Api::all_with(self.client.clone(), &resource),
            _ => Api::namespaced_with(self.client.clone(), namespace, &resource),
        }
    }

    /// Creates an object, in this namespace unless it names another one, and returns the created object.
    pub async fn create(&self, object: Value) -> Result<Value> {
        let kind = object["kind"].as_str().context("an object without kind")?.to_owned();
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or(&self.namespace).to_owned();
        let what = format!("create {kind} {}", object["metadata"]["name"]);
        let object: DynamicObject = serde_json::from_value(object)?;
        let created = self.api_in(&kind, &namespace).create(&PostParams::default(), &object).await;
        Ok(serde_json::to_value(created.context(what)?)?)
    }

    pub async fn create_all(&self, objects: impl IntoIterator<Item = Value>) -> Result<()> {
        for object in objects {
            self.create(object).await?;
        }
        Ok(())
    }

    /// Creates a sequence with these groups.
    pub async fn sequence(&self, name: &str, groups: &[Value]) -> Result<Value> {
        self.create(make::sequence(name, groups)).await
    }

    /// Creates pods with these names, held by the default gate.
    pub async fn pods(&self, names: &[&str]) -> Result<()> {
        self.create_all(names.iter().map(|name| make::pod(name))).await
    }

    /// Creates pods that run, but are not ready before [`Scene::make_ready`].
    pub async fn unready_pods(&self, names: &[&str]) -> Result<()> {
        self.create_all(names.iter().map(|name| make::pod(name).kwok("never-ready", "true"))).await
    }

    /// Applies a merge patch and returns the patched object.
    pub async fn patch(&self, kind: &str, name: &str, patch: Value) -> Result<Value> {
        let patched = self.api(kind).patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        Ok(serde_json::to_value(patched.with_context(|| format!("patch {kind} {name}"))?)?)
    }

    /// Changes the spec of a sequence and returns its new generation.
    pub async fn edit(&self, sequence: &str, spec: Value) -> Result<i64> {
        let edited = self.patch("PodSequence", sequence, json!({"spec": spec})).await?;
        edited["metadata"]["generation"].as_i64().context("no generation")
    }

    /// Makes kwok report a pod as ready, whatever its other annotations are.
    pub async fn make_ready(&self, pod: &str) -> Result<()> {
        self.annotate("Pod", pod, "testbed.rollcall.dev/ready", Some("true")).await
    }

    pub async fn make_unready(&self, pod: &str) -> Result<()> {
        self.annotate("Pod", pod, "testbed.rollcall.dev/ready", Some("false")).await
    }

    pub async fn annotate(&self, kind: &str, name: &str, key: &str, value: Option<&str>) -> Result<()> {
        self.patch(kind, name, json!({"metadata": {"annotations": {(key): value}}})).await?;
        Ok(())
    }

    /// Deletes an object without waiting until it disappears.
    pub async fn delete(&self, kind: &str, name: &str) -> Result<()> {
        let deleted = self.api(kind).delete(name, &DeleteParams::default()).await;
        deleted.with_context(|| format!("delete {kind} {name}"))?;
        Ok(())
    }

    /// Deletes an object and waits until it disappears.
    pub async fn delete_and_wait(&self, kind: &str, name: &str) -> Result<()> {
        self.delete(kind, name).await?;
        wait::for_absence(&self.api(kind), name, LIMIT).await
    }

    /// Reads the current version of an object.
    pub async fn get(&self, kind: &str, name: &str) -> Result<Value> {
        let object = self.api(kind).get(name).await.with_context(|| format!("get {kind} {name}"))?;
        Ok(serde_json::to_value(object)?)
    }

    /// Waits until exactly `count` pods with the label `app: <app>` exist and satisfy `wanted`; returns their names.
    pub async fn pods_are(
        &self,
        app: &str,
        count: usize,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Vec<String>> {
        let what = format!("{count} pods of {app}");
        let found = wait::until(&what, LIMIT, async || {
            let list = self.api("Pod").list(&ListParams::default().labels(&format!("app={app}"))).await?;
            let alive = list.items.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
            let mut names = Vec::new();
            for pod in alive {
                let pod = serde_json::to_value(pod)?;
                if wanted(&pod) {
                    names.push(name_of(&pod));
                }
            }
            Ok((names.len() == count).then_some(names))
        });
        found.await
    }

    /// Waits until an object exists and satisfies `wanted`.
    pub async fn until(
        &self,
        kind: &str,
        name: &str,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let api = self.api(kind);
        let mut last = Value::Null;
        let found = wait::until(&format!("{kind} {name}: {what}"), LIMIT, async || {
            let Some(object) = api.get_opt(name).await? else { return Ok(None) };
            last = serde_json::to_value(object)?;
            Ok(wanted(&last).then(|| last.clone()))
        })
        .await;
        found.with_context(|| format!("last seen: {last}"))
    }

    /// Waits until the status of a sequence satisfies `wanted`, and returns the status.
    pub async fn status(&self, sequence: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        let found = self.until("PodSequence", sequence, what, |object| {
            // A status of an older spec is ignored.
            object["status"]["observedGeneration"] == object["metadata"]["generation"]
                && wanted(&object["status"])
        });
        Ok(found.await?["status"].clone())
    }

    /// Waits for a phase.
    pub async fn phase(&self, sequence: &str, phase: &str) -> Result<Value> {
        self.status(sequence, &format!("phase {phase}"), |status| status["phase"] == phase).await
    }

    /// Waits until a condition has this status (True or False) and reason.
    pub async fn condition(&self, sequence: &str, kind: &str, status: &str, reason: &str) -> Result<Value> {
        let what = format!("{kind}={status}, {reason}");
        let found = self.status(sequence, &what, |seen| {
            condition(seen, kind).is_some_and(|c| c["status"] == status && c["reason"] == reason)
        });
        Ok(condition(&found.await?, kind).cloned().unwrap_or_default())
    }

    /// Waits until `blockedBy` contains this pod ("" for none) with this reason.
    pub async fn blocked_by(&self, sequence: &str, pod: &str, reason: &str) -> Result<Value> {
        self.status(sequence, &format!("blocked by {pod:?}: {reason}"), |status| {
            let mut blocked = status["blockedBy"].as_array().into_iter().flatten();
            blocked.any(|b| b["pod"].as_str().unwrap_or("") == pod && b["reason"] == reason)
        })
        .await
    }

    /// Waits until Rollcall's gate of a pod is removed.
    pub async fn released(&self, pod: &str) -> Result<Value> {
        self.until("Pod", pod, "released", |pod| !has_gate(pod, make::GATE)).await
    }

    pub async fn ready(&self, pod: &str) -> Result<Value> {
        self.until("Pod", pod, "ready", is_ready).await
    }

    /// Fails unless each of these pods has its gate now.
    pub async fn held(&self, pods: &[&str]) -> Result<()> {
        for pod in pods {
            ensure!(has_gate(&self.get("Pod", pod).await?, make::GATE), "{pod} no longer has its gate");
        }
        Ok(())
    }

    /// Fails if one of these pods is released because of events so far. The canary is a new sequence, so the controller
    /// processes it after all earlier events.
    pub async fn stays_held(&self, pods: &[&str]) -> Result<()> {
        self.canary().await?;
        self.held(pods).await
    }

    /// Waits until the controller has processed all events so far.
    pub async fn canary(&self) -> Result<()> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("canary-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        // In another namespace, so that it does not affect the test; the controller has one watch for all namespaces.
        let namespace = self.lab.canaries().await?;
        let here = json!({"metadata": {"namespace": namespace}});
        self.create(make::deployment(&name, 1).with(here.clone())).await?;
        self.create(make::sequence(&name, &[make::selected("canary", &name)]).with(here)).await?;
        let sequences = self.api_in("PodSequence", namespace);
        let complete = |sequence: &DynamicObject| sequence.data["status"]["phase"] == "Completed";
        wait::for_object(&sequences, &name, LIMIT, complete).await.context("the canary")?;
        Ok(())
    }

    /// Returns the events about a sequence as reason and note, oldest first.
    pub async fn events(&self, sequence: &str) -> Result<Vec<(String, String)>> {
        let list = self.api("Event").list(&ListParams::default()).await?;
        let mut events = Vec::new();
        for event in list.items {
            let event = serde_json::to_value(event)?;
            if event["regarding"]["kind"] == "PodSequence" && event["regarding"]["name"] == sequence {
                let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
                events.push((text("eventTime"), text("reason"), text("note")));
            }
        }
        events.sort();
        Ok(events.into_iter().map(|(_, reason, note)| (reason, note)).collect())
    }

    /// Waits for an event about a sequence whose note contains this text.
    pub async fn event(&self, sequence: &str, text: &str) -> Result<(String, String)> {
        wait::until(&format!("an event about {sequence} with {text:?}"), LIMIT, async || {
            Ok(self.events(sequence).await?.into_iter().find(|(_, note)| note.contains(text)))
        })
        .await
    }

    /// Runs kubectl in this namespace and returns its stdout.
    pub fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.lab.cluster().kubectl_ok(&[&["-n", self.namespace.as_str()], args].concat())
    }

    /// Sets the expected number of members of a group with a selector, for the verifier.
    pub fn expect(&mut self, sequence: &str, group: &str, members: u64) {
        self.rules.expected.insert((sequence.to_owned(), group.to_owned()), members);
    }

    /// Returns the history of the pods in this namespace, from the audit log.
    pub fn history(&self) -> Result<History> {
        Ok(History::from_events(&self.lab.audited(&self.namespace)?, &self.rules))
    }

    /// Fails if the audit log shows a violation of an invariant in this namespace.
    pub async fn verify(&self) -> Result<()> {
        // An incomplete log could hide violations.
        let history = self.history()?;
        for pod in self.api("Pod").list(&ListParams::default()).await?.items {
            let uid = pod.metadata.uid.unwrap_or_default();
            ensure!(history.pods.contains_key(&uid), "{:?} is not in the audit log", pod.metadata.name);
        }
        let mut found = Vec::new();
        let clean = wait::until("a clean audit log", AUDIT_DELAY, async || {
            found = order::verify(&self.lab.audited(&self.namespace)?, &self.rules);
            Ok(found.is_empty().then_some(()))
        });
        let clean = clean.await;
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        clean.with_context(|| format!("violations:\n{}", found.join("\n")))
    }

    /// Ends a successful test: verifies the order from the audit log.
    pub async fn done(mut self) -> Result<()> {
        self.verify().await?;
        if let Some(controller) = self.controller {
            for (series, value) in controller.metrics().await? {
                let bad = series.starts_with("rollcall_checker_violations_total")
                    || series.contains("kind=\"forbidden\"");
                ensure!(!bad || value == 0.0, "{series} is {value}");
            }
        }
        self.passed = true;
        Ok(())
    }
}

impl Drop for Scene<'_> {
    fn drop(&mut self) {
        if let (false, Some(controller)) = (self.passed, self.controller) {
            eprintln!("namespace {}\n{}", self.namespace, controller.log());
        }
    }
}

pub fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

pub fn gates(pod: &Value) -> Vec<&str> {
    let gates = pod["spec"]["schedulingGates"].as_array().into_iter().flatten();
    gates.filter_map(|gate| gate["name"].as_str()).collect()
}

pub fn has_gate(pod: &Value, gate: &str) -> bool {
    gates(pod).contains(&gate)
}

pub fn is_ready(pod: &Value) -> bool {
    condition(&pod["status"], "Ready").is_some_and(|condition| condition["status"] == "True")
}

/// Returns the condition of this type.
pub fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    status["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// The kinds that tests use.
fn resource(kind: &str) -> ApiResource {
    match kind {
        "Pod" => ApiResource::erase::<Pod>(&()),
        "Deployment" => ApiResource::erase::<Deployment>(&()),
        "ReplicaSet" => ApiResource::erase::<ReplicaSet>(&()),
        "StatefulSet" => ApiResource::erase::<StatefulSet>(&()),
        "DaemonSet" => ApiResource::erase::<DaemonSet>(&()),
        "Job" => ApiResource::erase::<Job>(&()),
        "CronJob" => ApiResource::erase::<CronJob>(&()),
        "ResourceQuota" => ApiResource::erase::<ResourceQuota>(&()),
        "ConfigMap" => ApiResource::erase::<ConfigMap>(&()),
        "Namespace" => ApiResource::erase::<Namespace>(&()),
        "Node" => ApiResource::erase::<Node>(&()),
        "Event" => ApiResource::erase::<Event>(&()),
        "PodSequence" => {
            let gvk = GroupVersionKind::gvk("scheduling.example.com", "v1alpha1", "PodSequence");
            ApiResource::from_gvk_with_plural(&gvk, "podsequences")
        }
        other => panic!("this helper does not support the kind {other}"),
    }
}
