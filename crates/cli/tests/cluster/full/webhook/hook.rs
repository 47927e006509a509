//! A cluster with the shipped webhook configuration; API servers call a controller on this machine.

use crate::cases;
use crate::common::server::Server;
use crate::common::*;
use base64::{Engine, engine::general_purpose::STANDARD};
use rollcall_api::names::{OWN_NAMESPACE, WEBHOOK_CONFIGURATION, WEBHOOK_SECRET};

/// Installs Full mode and the webhook as described in the README.
pub async fn install(nodes: usize) -> Result<Lab> {
    let lab = Lab::full(rollcall_testbed::Options { nodes, ..Default::default() }).await?;
    lab.apply_file("config/webhook/webhook.yaml")?;
    Ok(lab)
}

/// Sets the longest possible timeout of the webhook. A pod without its gate then indicates a rejected connection, not a busy
/// machine.
pub fn with_patience(lab: &Lab) -> Result<()> {
    let longest = |place: usize| json!({ "op": "replace", "path": format!("/webhooks/{place}/timeoutSeconds"), "value": 30 });
    let patch = json!([longest(0), longest(1)]).to_string();
    let args = ["patch", "mutatingwebhookconfiguration", WEBHOOK_CONFIGURATION, "--type=json", "-p", &patch];
    lab.cluster().kubectl_ok(&args).map(drop)
}

/// Returns one entry of the Secret as text; empty if it is missing.
pub async fn secret(server: &Server<'_>, key: &str) -> Result<String> {
    let path = format!("/api/v1/namespaces/{OWN_NAMESPACE}/secrets/{WEBHOOK_SECRET}");
    let Ok(secret) = server.get(&path).await else { return Ok(String::new()) };
    let text = secret["data"][key].as_str().unwrap_or_default();
    Ok(String::from_utf8(STANDARD.decode(text)?)?)
}

/// Waits until a matching pod gets its gate, which shows that the certificate is trusted and the sequence is known.
pub async fn in_force(server: &Server<'_>) -> Result<()> {
    let namespace = server.namespace("in-force", json!({})).await?;
    server.until_seen(&namespace).await
}

/// Returns a sequence with one group that selects by label, and a function that creates its members.
pub fn claimed(namespace: &str) -> (Value, impl Fn(&str) -> Value) {
    let spec =
        json!({ "podGroups": [{ "podSelector": { "matchLabels": { "app": "claimed" } } }], "suspend": true });
    let pod =
        |name: &str| cases::pod(&json!({ "metadata": { "name": name, "labels": { "app": "claimed" } } }));
    (cases::sequence(namespace, "claims", spec), pod)
}
