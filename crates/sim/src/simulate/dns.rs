//! DNS names of single pods.

use super::timeline::{Identity, PodLife};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::server::selectors::selects;
use serde_json::json;

/// The default cluster domain.
const CLUSTER: &str = "cluster.local";

/// The DNS names of a pod. It has one if it has a host name and if the headless Service of its subdomain selects it.
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
