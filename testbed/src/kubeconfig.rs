//! Kubeconfig files, written as JSON (which is YAML).

use std::fs;
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

/// The credentials of a client.
pub enum Identity<'a> {
    Token(&'a str),
    /// Paths of the certificate and its key.
    Certificate(&'a Path, &'a Path),
}

/// Writes a kubeconfig. `ca` is the path of the authority's certificate; a plain `http:` server has none.
pub fn write(file: &Path, server: &str, ca: Option<&Path>, namespace: &str, who: Identity<'_>) -> Result<()> {
    let user = match who {
        Identity::Token(token) => json!({"token": token}),
        Identity::Certificate(crt, key) => json!({"client-certificate": crt, "client-key": key}),
    };
    let mut cluster = json!({"server": server});
    if let Some(ca) = ca {
        cluster["certificate-authority"] = Value::String(ca.display().to_string());
    }
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "testbed",
        "clusters": [{"name": "testbed", "cluster": cluster}],
        "users": [{"name": "testbed", "user": user}],
        "contexts": [{
            "name": "testbed",
            "context": {"cluster": "testbed", "user": "testbed", "namespace": namespace},
        }],
    });
    fs::write(file, serde_json::to_vec_pretty(&config)?)?;
    Ok(())
}
