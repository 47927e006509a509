//! Get and list requests.

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
        limit => {
            let parsed: i64 = limit.parse().map_err(|_| {
                Refusal::bad_request(format!("strconv.ParseInt: parsing {limit:?}: invalid syntax"))
            })?;
            // A negative limit means no limit.
            usize::try_from(parsed).unwrap_or(usize::MAX)
        }
    };
    check_version(cluster, query.get("resourceVersion"))?;
    let (mut version, after) = match query.get("continue") {
        "" => (cluster.store.version(), None),
        token => {
            let (version, key) = parse_token(route.kind, token)
                .ok_or_else(|| Refusal::bad_request("invalid continue token: continue key is not valid"))?;
            (version, Some(key))
        }
    };
    // A version of 0 would mean "any version".
    version = version.max(1);
    let all = cluster.store.list(route.kind, route.namespace.as_deref());
    let mut matching = all
        .filter(|(key, _)| after.as_ref().is_none_or(|after| *key > after))
        .filter(|(_, object)| wanted.matches(object));
    let page: Vec<(&Key, &Arc<Stored>)> = matching.by_ref().take(limit).collect();
    let left = matching.count();
    let mut metadata = json!({ "resourceVersion": version.to_string() });
    // For custom resources, the API server sends an empty continue token.
    if route.kind.custom().is_some() {
        metadata["continue"] = "".into();
    }
    if let (Some((last, _)), 1..) = (page.last(), left) {
        metadata["continue"] = format!("{version}:{}:{}", last.namespace, last.name).into();
        // The remaining count is only known without a selector.
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

/// Checks the version of a list: it must be a number and not newer than the current version.
fn check_version(cluster: &Cluster, version: &str) -> Result<(), Refusal> {
    if version.is_empty() {
        return Ok(());
    }
    let parsed: u64 = version
        .parse()
        .map_err(|_| Refusal::bad_request(format!("invalid resource version: {}", no_number(version))))?;
    let current = cluster.store.version();
    if parsed <= current {
        return Ok(());
    }
    let causes = json!([{ "reason": "ResourceVersionTooLarge", "message": "Too large resource version" }]);
    Err(Refusal {
        code: 504,
        reason: "Timeout",
        message: format!("Timeout: Too large resource version: {parsed}, current: {current}"),
        details: json!({ "causes": causes, "retryAfterSeconds": 1 }),
    })
}

/// The API server's message for an invalid version.
pub fn no_number(version: &str) -> String {
    format!(
        "resourceVersion: Invalid value: {version:?}: strconv.ParseUint: parsing {version:?}: invalid syntax"
    )
}

/// The keys of all objects that match, without paging.
pub fn keys(cluster: &Cluster, route: &Route, query: &Query) -> Result<Vec<Key>, Refusal> {
    let wanted = Wanted::parse(route.kind, query.get("labelSelector"), query.get("fieldSelector"))?;
    let all = cluster.store.list(route.kind, route.namespace.as_deref());
    Ok(all.filter(|(_, object)| wanted.matches(object)).map(|(key, _)| key.clone()).collect())
}

/// Adds an item of a list. Items have no kind and version, except those of custom resources.
fn push_item(text: &mut Vec<u8>, kind: Kind, object: &Stored) {
    let info = kind.info();
    let head = format!("{{\"apiVersion\":\"{}\",\"kind\":\"{}\",", info.api_version(), info.name);
    match object.json().strip_prefix(head.as_bytes()) {
        _ if kind.custom().is_some() => text.extend_from_slice(object.json()),
        Some(rest) => {
            text.push(b'{');
            text.extend_from_slice(rest);
        }
        // Another field, such as `data`, is serialised between the two.
        None => {
            let mut item = object.value.clone();
            if let Some(fields) = item.as_object_mut() {
                fields.remove("apiVersion");
                fields.remove("kind");
            }
            text.extend_from_slice(item.to_string().as_bytes());
        }
    }
}

fn parse_token(kind: Kind, token: &str) -> Option<(u64, Key)> {
    let mut parts = token.splitn(3, ':');
    let version = parts.next()?.parse().ok()?;
    Some((version, Key::new(kind, parts.next()?, parts.next()?)))
}
