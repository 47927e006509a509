//! Three groups of four pods each, by name and by label.

use super::{End, Group, NAMESPACE, Rule, World, pods, sequence};
use crate::kinds::Kind;
use serde_json::{Value, json};

const DB: &[&str] = &["db-0", "db-1", "db-2", "db-3"];
const APP: &[&str] = &["app-0", "app-1", "app-2", "app-3"];
const WEB: &[&str] = &["web-0", "web-1", "web-2", "web-3"];

static SHOP: Rule = Rule {
    namespace: NAMESPACE,
    sequence: "shop",
    groups: &[
        Group::named("db", DB),
        Group { settle_seconds: 2, ..Group::named("app", APP) },
        Group { at_once: 2, ..Group::tier("web", WEB.len()) },
    ],
    end: End::Completed,
    permitted: true,
    lets_go: true,
};

pub static WORLD: World = World {
    name: "shop",
    rules: std::slice::from_ref(&SHOP),
    manifests,
    script: &[],
    held: &[],
    spared: &[],
};

fn manifests() -> Vec<(Kind, Value)> {
    let spec = json!({ "podGroups": [
        { "name": "db", "pods": DB },
        { "name": "app", "pods": APP, "waitDuration": "2s" },
        {
            "name": "web", "podSelector": { "matchLabels": { "tier": "web" } },
            "expected": WEB.len(), "maxConcurrentStarts": 2,
        },
    ] });
    let all = pods("db", DB).chain(pods("app", APP)).chain(pods("web", WEB));
    all.chain([sequence(&SHOP, spec)]).collect()
}
