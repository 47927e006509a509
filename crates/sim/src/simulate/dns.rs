//! The names by which single pods are found.

use super::timeline::{Identity, PodLife};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::server::selectors::selects;
use serde_json::json;

/// What clusters are called unless somebody says otherwise.
const CLUSTER: &str = "cluster.local";

/// A pod has a name of its own if it has a host name and a headless Service of its subdomain selects it.
pub fn names(cluster: &Cluster, life: &PodLife) -> Vec<String> {
    let Identity { hostname, subdomain, labels } = &life.identity;
    if hostname.is_empty() || subdomain.is_empty() {
        return Vec::new();
    }
    let service = cluster.store.find(Kind::Service, &life.namespace, subdomain);
    let names = service.filter(|service| {
        let selector = &service["spec"]["selector"];
        let headless = service["spec"]["clusterIP"] == "None";
        headless && selector.is_object() && selects(&json!({ "matchLabels": selector }), labels)
    });
    let name = |_| format!("{hostname}.{subdomain}.{}.svc.{CLUSTER}", life.namespace);
    names.map(name).into_iter().collect()
}
