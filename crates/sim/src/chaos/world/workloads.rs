//! Workloads that create their pods: a Job that is deleted at the end, a StatefulSet, and a Deployment that is scaled up
//! later.

use super::{
    Group, Members, NAMESPACE, SequenceEnd, SequenceRule, UserAction, When, World, sequence, template,
};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::store::Key;
use serde_json::{Value, json};

/// Number of pods of the Deployment, at the beginning and at the end.
const REPLICAS: usize = 1;
const MORE_REPLICAS: usize = 2;

static SHOP: SequenceRule = SequenceRule {
    namespace: NAMESPACE,
    sequence: "shop",
    groups: &[
        Group { members: Members::Job("migrate"), finally: 0, ..Group::tier("migrate", 2) },
        Group { settle_seconds: 1, ..Group::tier("store", 2) },
        Group { finally: MORE_REPLICAS, ..Group::tier("web", REPLICAS) },
    ],
    end: SequenceEnd::Completed,
    permitted: true,
    lets_go: true,
    guard: None,
};

pub static WORLD: World = World {
    name: "workloads",
    full: false,
    launch: false,
    reservation: false,
    rules: std::slice::from_ref(&SHOP),
    manifests,
    script: &[
        UserAction { when: When::Finished, act: clean_up },
        UserAction { when: When::Finished, act: scale_up },
    ],
    held: &[],
    spared: &[],
};

fn manifests() -> Vec<(Kind, Value)> {
    let named = |name: &str| json!({ "name": name, "namespace": NAMESPACE });
    let selector = |tier: &str| json!({ "matchLabels": { "tier": tier } });
    // The Job runs its pods one after the other. The second one does not exist yet when the first one succeeds.
    let job = json!({ "metadata": named("migrate"), "spec": {
        "completions": 2, "parallelism": 1,
        "template": template("migrate", "Never"),
    } });
    let set = json!({ "metadata": named("store"), "spec": {
        "replicas": 2, "serviceName": "store", "selector": selector("store"),
        "template": template("store", "Always"),
    } });
    let deployment = json!({ "metadata": named("web"), "spec": {
        "replicas": REPLICAS, "selector": selector("web"), "template": template("web", "Always"),
    } });
    let spec = json!({ "podGroups": [
        { "name": "migrate", "podSelector": selector("migrate") },
        { "name": "store", "podSelector": selector("store"), "waitDuration": "1s" },
        { "name": "web", "podSelector": selector("web") },
    ] });
    vec![(Kind::Job, job), (Kind::StatefulSet, set), (Kind::Deployment, deployment), sequence(&SHOP, spec)]
}

/// Deletes the Job. After that only the journal proves that it was complete.
fn clean_up(cluster: &mut Cluster) {
    let _ = cluster.delete(&Key::new(Kind::Job, NAMESPACE, "migrate"));
}

fn scale_up(cluster: &mut Cluster) {
    let key = Key::new(Kind::Deployment, NAMESPACE, "web");
    let _ = cluster.update(&key, |web| web["spec"]["replicas"] = MORE_REPLICAS.into());
}
