//! Three groups of four pods each, selected by name and by label; and a variant with half as many.

use super::{Group, NAMESPACE, SequenceEnd, SequenceRule, World, pods, sequence};
use crate::kinds::Kind;
use serde_json::{Value, json};

const DB: &[&str] = &["db-0", "db-1", "db-2", "db-3"];
const APP: &[&str] = &["app-0", "app-1", "app-2", "app-3"];
const WEB: &[&str] = &["web-0", "web-1", "web-2", "web-3"];

const fn shop(groups: &'static [Group]) -> SequenceRule {
    let (end, permitted, lets_go, guard) = (SequenceEnd::Completed, true, true, None);
    SequenceRule { namespace: NAMESPACE, sequence: "shop", groups, end, permitted, lets_go, guard }
}

static LARGE_SHOP: SequenceRule = shop(&[
    Group::named("db", DB),
    Group { settle_seconds: 2, ..Group::named("app", APP) },
    Group { at_once: 2, ..Group::tier("web", 4) },
]);

static SMALL: SequenceRule = shop(&[
    Group::named("db", DB.split_at(2).0),
    Group { settle_seconds: 2, ..Group::named("app", APP.split_at(2).0) },
    Group { at_once: 1, ..Group::tier("web", 2) },
]);

pub static WORLD: World = World {
    name: "shop",
    full: false,
    launch: false,
    reservation: false,
    rules: std::slice::from_ref(&LARGE_SHOP),
    manifests: || manifests(&LARGE_SHOP, 4),
    script: &[],
    held: &[],
    spared: &[],
};

pub static SMALLER: World = World {
    name: "small shop",
    full: false,
    launch: false,
    reservation: false,
    rules: std::slice::from_ref(&SMALL),
    manifests: || manifests(&SMALL, 2),
    script: &[],
    held: &[],
    spared: &[],
};

fn manifests(rule: &SequenceRule, each: usize) -> Vec<(Kind, Value)> {
    let spec = json!({ "podGroups": [
        { "name": "db", "pods": DB[..each] },
        { "name": "app", "pods": APP[..each], "waitDuration": "2s" },
        {
            "name": "web", "podSelector": { "matchLabels": { "tier": "web" } },
            "expected": each, "maxConcurrentStarts": each / 2,
        },
    ] });
    let all = pods("db", &DB[..each]).chain(pods("app", &APP[..each])).chain(pods("web", &WEB[..each]));
    all.chain([sequence(rule, spec)]).collect()
}
