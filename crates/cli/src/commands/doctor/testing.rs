//! Correct installations for tests to break, made from the manifests.

use super::fetched::{CONFIGURATION, ClusterView, DEPLOYMENT, Fetched, LAUNCH_CONFIGURATION, Version};
use super::rights::needed;
use crate::commands::install::{Admission, Mode, id, objects};
use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use rollcall_api::names;
use rollcall_webhook::certificates::make::make;
use rollcall_webhook::certificates::plan::Held;
use serde_json::{Value, json};
use std::time::Duration;

pub const NAMESPACE: &str = names::OWN_NAMESPACE;
const DAY: u64 = 24 * 3600;

pub fn now() -> Timestamp {
    crate::testing::now()
}

pub fn lite() -> ClusterView {
    installed(Mode::Lite, None)
}

/// Full mode with policies.
pub fn full() -> ClusterView {
    served(Admission::Policies)
}

/// Full mode with the webhook.
pub fn webhook() -> ClusterView {
    served(Admission::Webhook)
}

/// Full mode with a certificate that is one day old and valid for 90 days.
fn served(admission: Admission) -> ClusterView {
    let mut seen = installed(Mode::Full, Some(admission));
    certify(&mut seen, 1, 90, true, &rollcall_webhook::hosts(NAMESPACE));
    seen.slices =
        Fetched::Found(vec![json!({"endpoints": [{"conditions": {"ready": true}}, {"conditions": {}}]})]);
    seen
}

/// Adds a trusted certificate that is `age` days old and valid for `life` days from its creation.
pub fn certify(seen: &mut ClusterView, age: u64, life: u64, managed: bool, hosts: &[String]) {
    let made = now() - Duration::from_secs(age * DAY);
    let made = make(hosts, made, Duration::from_secs(life * DAY)).expect("a certificate");
    let held = Held::default().replaced(made);
    let pair = held.current.clone().expect("one");
    let text = |text: &str| STANDARD.encode(text);
    seen.secret = Fetched::Found(json!({
        "metadata": {"annotations": {names::MANAGED_CERTIFICATES: managed.to_string()}},
        "data": {"tls.crt": text(&pair.chain), "tls.key": text(&pair.key), "ca.crt": text(&held.authorities)},
    }));
    for id in [CONFIGURATION, LAUNCH_CONFIGURATION] {
        let Some(Fetched::Found(configuration)) = seen.objects.get_mut(id) else { continue };
        for webhook in configuration["webhooks"].as_array_mut().expect("webhooks") {
            webhook["clientConfig"]["caBundle"] = text(&held.authorities).into();
        }
    }
}

fn installed(mode: Mode, admission: Option<Admission>) -> ClusterView {
    let there = objects(mode, admission, NAMESPACE).into_iter();
    let mut seen = ClusterView {
        now: now(),
        server: "https://cluster:6443/".into(),
        version: Fetched::Found(Version { minor: 36, text: "1.36.4".into() }),
        namespace: NAMESPACE.into(),
        objects: there.map(|object| (id(&object), Fetched::Found(object))).collect(),
        lease: Fetched::Found(json!({
            "metadata": {"annotations": {names::LEASE_VERSION: env!("CARGO_PKG_VERSION")}},
            "spec": {
                "holderIdentity": "pod-sequence-controller-7d4b9-x2x4z_5d3a1f09", "leaseDurationSeconds": 15,
                "renewTime": (now() - Duration::from_secs(3)).to_string(),
            },
        })),
        secret: Fetched::Absent,
        slices: Fetched::Found(Vec::new()),
        budgets: Fetched::Found(vec![json!({})]),
        replicas: Fetched::Found(Vec::new()),
        unbound: Fetched::Found(Vec::new()),
        nodes: Fetched::Found(Vec::new()),
        namespaces: Fetched::Found(vec![namespace("default", json!({}))]),
        sequences: Fetched::Found(vec![crate::testing::sequence(crate::testing::shop())]),
        notes: Fetched::Found(Vec::new()),
        tickets: Fetched::Found(Vec::new()),
        guardians: Fetched::Found(Vec::new()),
        classes: Fetched::Found(Vec::new()),
        needed: 0,
        missing: Fetched::Found(Vec::new()),
        probe: None,
    };
    seen.needed = needed(&seen.installed(), NAMESPACE).len();
    change(&mut seen, DEPLOYMENT, |deployment| {
        deployment["status"]["readyReplicas"] = deployment["spec"]["replicas"].clone();
    });
    for (id, fetched) in &mut seen.objects {
        if let Fetched::Found(definition) = fetched
            && id.starts_with("CustomResourceDefinition/")
        {
            definition["status"]["conditions"] = json!([{"type": "Established", "status": "True"}]);
        }
    }
    seen
}

pub fn change(seen: &mut ClusterView, id: &str, how: impl FnOnce(&mut Value)) {
    match seen.objects.get_mut(id) {
        Some(Fetched::Found(object)) => how(object),
        other => panic!("{id} is {other:?}"),
    }
}

pub fn namespace(name: &str, metadata: Value) -> rollcall_api::watch::NamespaceObject {
    let mut metadata = metadata;
    metadata["name"] = name.into();
    serde_json::from_value(json!({"metadata": metadata})).expect("a namespace")
}

pub fn node(name: &str, labels: Value, taints: Value, annotations: Value) -> rollcall_api::watch::NodeObject {
    let metadata = json!({"name": name, "uid": name, "labels": labels, "annotations": annotations});
    serde_json::from_value(json!({"metadata": metadata, "spec": {"taints": taints}})).expect("a node")
}
