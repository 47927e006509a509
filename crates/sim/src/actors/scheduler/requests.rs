//! Requests of pods and capacities of nodes, in the units of the scheduler.

use crate::pod_resources;
use rollcall_core::quantity::{Form, Quantity};
use rollcall_core::resources::Resources;
use serde_json::Value;
use std::collections::BTreeMap;

/// Assumed requests of a container without requests, for comparing the load of nodes: 0.1 CPU and 200 MiB.
const USUAL: [(&str, Quantity); 2] = [
    ("cpu", Quantity::new(100_000_000, Form::Decimal)),
    ("memory", Quantity::new(200 * 1024 * 1024 * 1_000_000_000, Form::Binary)),
];

/// Amounts by resource: CPU in millicores, all others in whole units.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    pub cpu: i64,
    pub memory: i64,
    pub ephemeral: i64,
    /// All other resources, by name.
    pub others: BTreeMap<String, i64>,
}

impl Amounts {
    pub fn read(list: &Value) -> Amounts {
        Amounts::from_resources(&pod_resources::read(list))
    }

    fn from_resources(resources: &Resources) -> Amounts {
        let mut amounts = Amounts::default();
        for (name, quantity) in resources {
            match &**name {
                "cpu" => amounts.cpu = quantity.millis(),
                "memory" => amounts.memory = quantity.value(),
                "ephemeral-storage" => amounts.ephemeral = quantity.value(),
                other => drop(amounts.others.insert(other.to_owned(), quantity.value())),
            }
        }
        amounts
    }

    pub fn add(&mut self, other: &Amounts) {
        self.cpu += other.cpu;
        self.memory += other.memory;
        self.ephemeral += other.ephemeral;
        for (name, amount) in &other.others {
            *self.others.entry(name.clone()).or_default() += amount;
        }
    }

    pub fn take(&mut self, other: &Amounts) {
        self.cpu -= other.cpu;
        self.memory -= other.memory;
        self.ephemeral -= other.ephemeral;
        for (name, amount) in &other.others {
            if let Some(is) = self.others.get_mut(name) {
                *is -= amount;
            }
        }
    }
}

/// The requests of a pod.
pub fn of_pod(spec: &Value) -> Amounts {
    Amounts::from_resources(&pod_resources::read_pod(spec, "requests").requests())
}

/// CPU and memory requests of a pod, with the assumed requests for containers that have none.
pub fn usual_of_pod(spec: &Value) -> (i64, i64) {
    let mut pod = pod_resources::read_pod(spec, "requests");
    for container in pod.containers.iter_mut().chain(&mut pod.init_containers) {
        for (name, amount) in USUAL {
            container.amounts.entry(name.into()).or_insert(amount);
        }
    }
    let total = Amounts::from_resources(&pod.requests());
    (total.cpu, total.memory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn container(cpu: &str, memory: &str) -> Value {
        json!({ "resources": { "requests": { "cpu": cpu, "memory": memory } } })
    }

    #[test]
    fn sums_in_the_units_of_the_scheduler() {
        let mut spec = json!({ "containers": [container("100m", "1Gi"), container("1", "1Mi")] });
        spec["containers"][0]["resources"]["requests"]["example.com/gpu"] = json!("1");
        let sum = of_pod(&spec);
        assert_eq!((sum.cpu, sum.memory), (1100, (1 << 30) + (1 << 20)));
        assert_eq!(sum.others["example.com/gpu"], 1);
    }

    #[test]
    fn the_usual_stands_for_nothing() {
        let spec = json!({ "containers": [{ "resources": { "requests": { "cpu": "2" } } }, {}] });
        assert_eq!(usual_of_pod(&spec), (2100, 2 * 200 * 1024 * 1024));
    }

    #[test]
    fn the_pod_as_a_whole() {
        let spec =
            json!({ "resources": { "requests": { "cpu": "5" } }, "containers": [container("1", "1Ki")] });
        assert_eq!((of_pod(&spec).cpu, of_pod(&spec).memory), (5000, 1024));
    }
}
