//! Get and list.

use super::refusal::Refusal;
use super::route::{Query, Route};
use super::selectors::Wanted;
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::store::{Key, Stored};
use bytes::Bytes;
use serde_json::json;
use std::sync::Arc;

pub fn get(cluster: &Cluster, key: &Key) -> Result<Bytes, Refusal> {
    let found = cluster.store.get(key).ok_or_else(|| Refusal::not_found(key.kind, &key.name))?;
    Ok(found.json().clone())
}

pub fn list(cluster: &Cluster, route: &Route, query: &Query) -> Result<Bytes, Refusal> {
    let wanted = Wanted::parse(route.kind, query.get("labelSelector"), query.get("fieldSelector"))?;
    let limit = match query.get("limit") {
        "" | "0" => usize::MAX,
        limit => limit.parse().map_err(|_| Refusal::bad_request(format!("invalid limit {limit:?}")))?,
    };
    let (mut version, after) = match query.get("continue") {
        "" => (cluster.store.version(), None),
        token => {
            let (version, key) = parse_token(route.kind, token)
                .ok_or_else(|| Refusal::bad_request("continue key is not valid"))?;
            (version, Some(key))
        }
    };
    // A version of 0 would mean "any".
    version = version.max(1);
    let all = cluster.store.list(route.kind, route.namespace.as_deref());
    let mut matching = all
        .filter(|(key, _)| after.as_ref().is_none_or(|after| *key > after))
        .filter(|(_, object)| wanted.matches(object));
    let page: Vec<(&Key, &Arc<Stored>)> = matching.by_ref().take(limit).collect();
    let left = matching.count();
    let mut metadata = json!({ "resourceVersion": version.to_string() });
    if let (Some((last, _)), 1..) = (page.last(), left) {
        metadata["continue"] = format!("{version}:{}:{}", last.namespace, last.name).into();
        // How many are left is only known where nothing is filtered out.
        if wanted.is_everything() {
            metadata["remainingItemCount"] = left.into();
        }
    }
    let info = route.kind.info();
    let mut text =
        Vec::with_capacity(256 + page.iter().map(|(_, object)| object.json().len() + 1).sum::<usize>());
    let head = format!(
        "{{\"kind\":\"{}List\",\"apiVersion\":\"{}\",\"metadata\":{metadata},\"items\":[",
        info.name,
        info.api_version()
    );
    text.extend_from_slice(head.as_bytes());
    for (at, (_, object)) in page.iter().enumerate() {
        if at > 0 {
            text.push(b',');
        }
        push_item(&mut text, route.kind, object);
    }
    text.extend_from_slice(b"]}");
    Ok(text.into())
}

/// What a list without pages would show.
pub fn keys(cluster: &Cluster, route: &Route, query: &Query) -> Result<Vec<Key>, Refusal> {
    let wanted = Wanted::parse(route.kind, query.get("labelSelector"), query.get("fieldSelector"))?;
    let all = cluster.store.list(route.kind, route.namespace.as_deref());
    Ok(all.filter(|(_, object)| wanted.matches(object)).map(|(key, _)| key.clone()).collect())
}

/// Items of a list do not say what they are, except those of custom resources.
fn push_item(text: &mut Vec<u8>, kind: Kind, object: &Stored) {
    let info = kind.info();
    let head = format!("{{\"apiVersion\":\"{}\",\"kind\":\"{}\",", info.api_version(), info.name);
    match object.json().strip_prefix(head.as_bytes()) {
        Some(rest) if kind != Kind::PodSequence => {
            text.push(b'{');
            text.extend_from_slice(rest);
        }
        _ => text.extend_from_slice(object.json()),
    }
}

fn parse_token(kind: Kind, token: &str) -> Option<(u64, Key)> {
    let mut parts = token.splitn(3, ':');
    let version = parts.next()?.parse().ok()?;
    Some((version, Key::new(kind, parts.next()?, parts.next()?)))
}
