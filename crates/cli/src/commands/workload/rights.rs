//! Checks that the caller has the permissions for all writes, before the first change.

use super::write::Write;
use crate::connect::Connection;
use anyhow::{Result, bail};
use futures::future::try_join_all;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::{Api, PostParams};
use rollcall_api::resource::Resource;
use rollcall_core::kind::Kind;
use std::collections::BTreeSet;

/// Checks the permissions that these writes need. The error names the missing ones.
pub async fn ask<'w>(
    connection: &Connection,
    namespace: &str,
    writes: impl IntoIterator<Item = &'w Write>,
) -> Result<()> {
    let needed: BTreeSet<(&'static str, Kind)> = writes.into_iter().map(Write::right).collect();
    let answers = needed.into_iter().map(|(verb, kind)| async move {
        let namespace = if kind == Kind::Sequence { connection.namespace.as_str() } else { namespace };
        let right = format!("{verb} {} in namespace {namespace}", Resource::from_kind(kind).plural);
        let reviews = Api::<SelfSubjectAccessReview>::all(connection.client.clone());
        let answer = reviews.create(&PostParams::default(), &review(verb, kind, namespace)).await;
        let answer = answer
            .map_err(|error| connection.explained(error, &format!("check the permission to {right}")))?;
        let allowed = answer.status.is_some_and(|status| status.allowed);
        anyhow::Ok((!allowed).then_some(right))
    });
    let missing: Vec<String> = try_join_all(answers).await?.into_iter().flatten().collect();
    match missing.is_empty() {
        true => Ok(()),
        false => bail!("not allowed to {}; nothing was changed", missing.join(", to ")),
    }
}

fn review(verb: &str, kind: Kind, namespace: &str) -> SelfSubjectAccessReview {
    let Resource { api_version, plural, .. } = Resource::from_kind(kind);
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let attributes = ResourceAttributes {
        namespace: Some(namespace.to_owned()),
        verb: Some(verb.to_owned()),
        group: Some(group.to_owned()),
        version: Some(version.to_owned()),
        resource: Some(plural.to_owned()),
        ..ResourceAttributes::default()
    };
    let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() };
    SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() }
}
