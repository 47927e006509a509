//! Administrators decide what sequences may do to nodes, and which foreign gates they remove. Write permission for a Namespace
//! is not sufficient.

use super::{JSON, MERGE, full, namespace, send};
use crate::common::*;
use http::Method;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};

/// The permissions of a tenant of a portal: to write Namespaces and all objects in them.
const RIGHTS: &str = "
apiVersion: v1
kind: ServiceAccount
metadata: {name: tenant, namespace: portal}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: trusted, namespace: portal}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: portal}
rules:
- {apiGroups: [''], resources: [namespaces, namespaces/status, namespaces/finalize], verbs: [create, get, patch, update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: portal}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: portal}
subjects:
- {kind: ServiceAccount, namespace: portal, name: tenant}
- {kind: ServiceAccount, namespace: portal, name: trusted}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: everything-here, namespace: portal}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, namespace: portal, name: tenant}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: trusted}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: podsequence-allow-on-nodes}
subjects: [{kind: ServiceAccount, namespace: portal, name: trusted}]
";

async fn account(lab: &Lab, name: &str) -> Result<Client> {
    let file = lab.cluster().service_account_kubeconfig("portal", name).await?;
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(Kubeconfig::read_from(file)?, &options).await?;
    Ok(Client::try_from(config)?)
}

#[tokio::test]
async fn only_who_may_allow_on_nodes_changes_these_annotations() -> Result<()> {
    let lab = full().await?;
    let permission = "podsequence.example.com/allow-node-taints";
    namespace(lab.cluster(), "portal", json!({ permission: "true", "example.com/x": "1" })).await?;
    lab.apply_file("config/rbac/user-roles.yaml")?;
    lab.cluster().apply(RIGHTS)?;
    let (tenant, trusted) = (account(lab, "tenant").await?, account(lab, "trusted").await?);
    let admin = lab.cluster().client();
    let path = "/api/v1/namespaces/portal";
    let annotated = |annotations: Value| json!({ "metadata": { "annotations": annotations } });
    let new = |annotations: Value| {
        let metadata = json!({ "name": "portal-new", "annotations": annotations });
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata })
    };
    let finalized = json!({
        "apiVersion": "v1", "kind": "Namespace", "spec": { "finalizers": ["kubernetes"] },
        "metadata": { "name": "portal", "annotations": { permission: "true", "podsequence.example.com/allow-gates": "*" } },
    });
    let refused = [
        (Method::PATCH, path, annotated(json!({ "podsequence.example.com/allow-gates": "*" }))),
        (Method::PATCH, path, annotated(json!({ "podsequence.example.com/allow-node-scope": "true" }))),
        // An annotation with the prefix of node permissions that no version uses yet.
        (Method::PATCH, path, annotated(json!({ "podsequence.example.com/allow-node-anything": "true" }))),
        (Method::PATCH, path, annotated(json!({ permission: "false" }))),
        (Method::PATCH, path, annotated(json!({ permission: null, "example.com/x": "2" }))),
        (
            Method::PATCH,
            &format!("{path}/status"),
            annotated(json!({ "podsequence.example.com/allow-gates": "*" })),
        ),
        (Method::PUT, &format!("{path}/finalize"), finalized),
        (Method::POST, "/api/v1/namespaces", new(json!({ permission: "true" }))),
    ];
    let allowed = [
        (
            Method::PATCH,
            path,
            annotated(json!({ "example.com/x": null, "podsequence.example.com/allow-from": "shop" })),
        ),
        (Method::PATCH, path, json!({ "metadata": { "labels": { "podsequence-enabled": "true" } } })),
        (Method::POST, "/api/v1/namespaces", new(json!({ "example.com/x": "1" }))),
    ];
    let try_it = async |client: &Client, (method, path, body): &(Method, &str, Value)| {
        let content = if *method == Method::PATCH { MERGE } else { JSON };
        send(client, method.clone(), &format!("{path}?dryRun=All"), content, body).await
    };
    let first = wait::until("enforcement of the policy", LIMIT, async || {
        Ok(try_it(&tenant, &refused[0]).await?.err())
    });
    let (code, words) = first.await?;
    let expected = "metadata.annotations: podsequence.example.com/allow-gates can only be changed by users with the permission allow-on-nodes";
    assert!(code == 403 && words.contains(expected), "{code}: {words}");
    for case in &refused {
        let answer = try_it(&tenant, case).await?;
        let named = |(code, words): &(u16, String)| {
            *code == 403 && words.contains("the permission allow-on-nodes on podsequences")
        };
        assert!(answer.as_ref().is_err_and(named), "{case:?}: {answer:?}");
        for client in [&trusted, &admin] {
            let answer = try_it(client, case).await?;
            assert!(answer.is_ok(), "{case:?}: {answer:?}");
        }
    }
    for case in &allowed {
        let answer = try_it(&tenant, case).await?;
        assert!(answer.is_ok(), "{case:?}: {answer:?}");
    }
    Ok(())
}
