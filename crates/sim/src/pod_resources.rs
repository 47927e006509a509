//! Parses the resource amounts of stored pods.

use crate::server::defaults::quantity;
use rollcall_core::resources::{ContainerAmounts, PodAmounts, Resources};
use serde_json::Value;
use std::sync::Arc;

/// Parses a resource list. Skips invalid amounts, which the API server would have rejected.
pub fn read(list: &Value) -> Resources {
    let amount = |(name, value): (&String, &Value)| Some((Arc::from(name.as_str()), quantity::parse(value)?));
    list.as_object().into_iter().flatten().filter_map(amount).collect()
}

/// Parses the `requests` or the `limits` of a pod.
pub fn read_pod(spec: &Value, list: &str) -> PodAmounts {
    let container = |container: &Value| ContainerAmounts {
        amounts: read(&container["resources"][list]),
        is_sidecar: container["restartPolicy"] == "Always",
    };
    let containers = |name: &str| spec[name].as_array().into_iter().flatten().map(container).collect();
    PodAmounts {
        containers: containers("containers"),
        init_containers: containers("initContainers"),
        pod_level: read(&spec["resources"][list]),
        overhead: read(&spec["overhead"]),
    }
}
