//! Reads objects as JSON with the Kubernetes client. A kubectl process costs twenty times as much, and waiting tests
//! read often.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::cluster::Cluster;

/// The API path and the singular name of each kind that tests read.
const RESOURCES: &[(&str, &str)] = &[
    ("/api/v1", "configmap"),
    ("/api/v1", "event"),
    ("/api/v1", "pod"),
    ("/apis/apps/v1", "daemonset"),
    ("/apis/apps/v1", "deployment"),
    ("/apis/apps/v1", "replicaset"),
    ("/apis/core.korder.dev/v1alpha1", "order"),
    ("/apis/core.korder.dev/v1alpha1", "ticket"),
    ("/apis/scheduling.example.com/v1alpha1", "podsequence"),
];

/// The API path of `what`, which is written as for kubectl: `pods`, `pod/NAME`, `pods?labelSelector=app%3Dweb`.
fn path(namespace: &str, what: &str) -> Result<String> {
    let end = what.find(['/', '?']).unwrap_or(what.len());
    let (resource, rest) = what.split_at(end);
    let singular = resource.strip_suffix('s').unwrap_or(resource);
    let known = RESOURCES.iter().find(|(_, name)| *name == singular);
    let Some((api, name)) = known else { bail!("{resource} is not in the table of resources") };
    Ok(format!("{api}/namespaces/{namespace}/{name}s{rest}"))
}

impl Cluster {
    /// Reads an object (`pod/NAME`) or a list (`pods`) of a namespace. Blocks the thread.
    pub fn read(&self, namespace: &str, what: &str) -> Result<Value> {
        let path = path(namespace, what)?;
        let read = async || -> Result<Value> {
            let request = http::Request::get(&path).body(Vec::new())?;
            let text = self.client().request_text(request).await.with_context(|| format!("read {path}"))?;
            Ok(serde_json::from_str(&text)?)
        };
        // Uses a thread of its own, because the caller's thread may already run a runtime, and runtimes cannot be
        // nested.
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(read())
            });
            thread.join().expect("a reader that does not panic")
        })
    }

    /// Like [`Cluster::read`], for the items of a list.
    pub fn read_items(&self, namespace: &str, what: &str) -> Result<Vec<Value>> {
        match self.read(namespace, what)?["items"].take() {
            Value::Array(items) => Ok(items),
            other => bail!("{what} is not a list: {other}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::path;

    #[test]
    fn paths_of_objects_and_lists() {
        assert_eq!(path("shop", "pods").unwrap(), "/api/v1/namespaces/shop/pods");
        assert_eq!(path("shop", "pod/web-0").unwrap(), "/api/v1/namespaces/shop/pods/web-0");
        assert_eq!(
            path("shop", "replicasets?labelSelector=app%3Dweb").unwrap(),
            "/apis/apps/v1/namespaces/shop/replicasets?labelSelector=app%3Dweb"
        );
        assert!(path("shop", "pots").is_err());
    }
}
