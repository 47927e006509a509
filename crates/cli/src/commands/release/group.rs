//! Opens groups of a sequence by hand, with an annotation on the sequence.

use crate::commands::target::{group as group_named, titles};
use crate::connect::Connection;
use crate::load::{self, has_code};
use crate::outcome::Outcome;
use crate::{cli, output, shown, similar};
use anyhow::{Result, anyhow, bail};
use kube::api::{Patch, PatchParams};
use kube::core::Request;
use rollcall_api::names;
use rollcall_api::sequence::SequenceObject;
use rollcall_core::sequence::Spec;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Maximum number of attempts. Other clients write to the sequence too; each attempt starts from its newest version.
const TRIES: usize = 5;

pub async fn open(connection: &Connection, name: &str, groups: &[String]) -> Result<Outcome> {
    for _ in 0..TRIES {
        let object = get(connection, name).await?;
        let facts = object.facts();
        let spec =
            facts.spec.as_ref().map_err(|invalid| anyhow!("podsequence {name} is invalid: {invalid}"))?;
        let wanted = wanted(spec, name, groups)?;
        let open = &facts.opened_by_hand;
        let new: Vec<&Arc<str>> = wanted.iter().filter(|title| !open.contains(*title)).collect();
        if new.is_empty() {
            output::data(&shown!(
                "podsequence/{} unchanged: already opened by hand: {}\n",
                name,
                list(&wanted)
            ))?;
            return Ok(Outcome::Done);
        }
        let all: BTreeSet<Arc<str>> = open.union(&wanted).cloned().collect();
        match write(connection, &object, &all).await {
            Ok(()) => {
                let new = new.into_iter().cloned().collect();
                output::data(&shown!("podsequence/{} opened by hand: {}\n", name, list(&new)))?;
                return Ok(Outcome::Done);
            }
            Err(error) if has_code(&error, 409) => {}
            Err(error) => return Err(connection.explained(error, &format!("patch podsequence {name}"))),
        }
    }
    bail!("podsequence {name} changed during each of {TRIES} attempts to write it; try again")
}

async fn get(connection: &Connection, name: &str) -> Result<SequenceObject> {
    let objects = load::in_namespace(connection, &connection.namespace).await?;
    let names: Vec<String> = objects.iter().map(|object| object.metadata.name.clone()).collect();
    objects.into_iter().find(|object| object.metadata.name == name).ok_or_else(|| {
        let suggestion = similar::suggestion(name, names.iter().map(String::as_str));
        anyhow!("no podsequence {name} in namespace {}{suggestion}", connection.namespace)
    })
}

/// Resolves group names from the command line to group titles.
fn wanted(spec: &Spec, name: &str, groups: &[String]) -> Result<BTreeSet<Arc<str>>> {
    if groups.is_empty() {
        let program = cli::program();
        bail!(
            "which group? {program} release {name} --group NAME, one of {}; or {program} release pod/NAME",
            titles(spec)
        );
    }
    let title = |group: &String| {
        let position = group_named(spec, name, "--group", group)?;
        Ok(spec.groups[position].title.clone())
    };
    groups.iter().map(title).collect()
}

/// Writes the annotation, guarded by the resourceVersion, so that a group that another client opens at the same time is not
/// lost.
async fn write(
    connection: &Connection,
    object: &SequenceObject,
    open: &BTreeSet<Arc<str>>,
) -> Result<(), kube::Error> {
    let meta = &object.metadata;
    let body = json!({"metadata": {
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
        "annotations": {(names::OPEN_GROUPS): annotation(open)},
    }});
    let params = PatchParams { field_manager: Some(names::FIELD_MANAGER.into()), ..Default::default() };
    let path = load::sequences_path(Some(&meta.namespace));
    let request = Request::new(path).patch(&meta.name, &params, &Patch::Merge(body));
    let request = request.map_err(kube::Error::BuildRequest)?;
    connection.client.request::<SequenceObject>(request).await.map(drop)
}

/// Joins the names with commas, or writes a JSON list if a comma-separated list would be parsed differently.
fn annotation(open: &BTreeSet<Arc<str>>) -> String {
    let odd = |name: &Arc<str>| name.contains(',') || name.trim() != &**name || name.starts_with('[');
    match open.iter().any(odd) {
        true => json!(open.iter().map(|name| &**name).collect::<Vec<_>>()).to_string(),
        false => open.iter().map(|name| &**name).collect::<Vec<_>>().join(","),
    }
}

fn list(titles: &BTreeSet<Arc<str>>) -> String {
    titles.iter().map(|title| format!("\"{title}\"")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn set(names: &[&str]) -> BTreeSet<Arc<str>> {
        names.iter().map(|name| Arc::from(*name)).collect()
    }

    #[test]
    fn what_is_written_is_read_back() {
        for (names, text) in [
            (&["db", "Application Layer"][..], "Application Layer,db"),
            (&["a,b", "c"][..], r#"["a,b","c"]"#),
            (&[" a"][..], r#"[" a"]"#),
            (&["[x]"][..], r#"["[x]"]"#),
        ] {
            assert_eq!(annotation(&set(names)), text);
            let mut object = testing::shop();
            object["metadata"]["annotations"] = json!({(names::OPEN_GROUPS): text});
            assert_eq!(testing::sequence(object).facts().opened_by_hand, set(names));
        }
    }

    #[test]
    fn groups_are_meant_by_name_or_number() {
        let spec = testing::sequence(testing::shop()).facts().spec.expect("valid");
        let meant = |groups: &[&str]| {
            let groups: Vec<String> = groups.iter().map(|group| group.to_string()).collect();
            wanted(&spec, "shop", &groups).map_err(|error| error.to_string())
        };
        assert_eq!(meant(&["Database Layer", "Group 2"]), Ok(set(&["Database Layer", "Application Layer"])));
        for unknown in ["Group 0", "Group 4", "database layer", "2"] {
            let error = meant(&[unknown]).expect_err(unknown);
            let titles = r#"it has "Database Layer", "Application Layer", "Frontend Layer""#;
            assert_eq!(error, format!("--group: podsequence shop has no group \"{unknown}\"; {titles}"));
        }
        assert!(meant(&[]).expect_err("none").starts_with("which group?"));
    }
}
