//! What pods ask for and nodes have: amounts of resources, summed as Kubernetes sums them.

use crate::server::defaults::quantity;
use serde_json::Value;
use std::collections::BTreeMap;

/// What a container that asks for nothing is taken to need when nodes are compared.
const USUAL_CPU: i64 = 100;
const USUAL_MEMORY: i64 = 200 * 1024 * 1024;

/// Amounts by resource: CPU in thousandths, all others in whole units.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    pub cpu: i64,
    pub memory: i64,
    pub ephemeral: i64,
    /// All others, by name.
    pub others: BTreeMap<String, i64>,
}

impl Amounts {
    /// Reads a list of resources; what cannot be read counts as nothing, the server has refused it.
    pub fn read(list: &Value) -> Amounts {
        let mut amounts = Amounts::default();
        for (name, value) in list.as_object().into_iter().flatten() {
            let Some(quantity) = quantity::of(value) else { continue };
            match name.as_str() {
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

    fn at_least(&mut self, other: &Amounts) {
        self.cpu = self.cpu.max(other.cpu);
        self.memory = self.memory.max(other.memory);
        self.ephemeral = self.ephemeral.max(other.ephemeral);
        for (name, amount) in &other.others {
            let is = self.others.entry(name.clone()).or_default();
            *is = (*is).max(*amount);
        }
    }
}

/// What a pod asks for: what its containers and sidecars need together, or what an init container needs beside the
/// sidecars before it, whichever is more; and its overhead.
pub fn of_pod(spec: &Value) -> Amounts {
    sum(spec, |container| requests(&container["resources"]))
}

/// The same where every container that asks for no CPU or memory is taken to need the usual: `(cpu, memory)`.
pub fn usual_of_pod(spec: &Value) -> (i64, i64) {
    let total = sum(spec, |container| {
        let mut amounts = requests(&container["resources"]);
        let asked = &container["resources"]["requests"];
        if asked["cpu"].is_null() && amounts.cpu == 0 {
            amounts.cpu = USUAL_CPU;
        }
        if asked["memory"].is_null() && amounts.memory == 0 {
            amounts.memory = USUAL_MEMORY;
        }
        amounts
    });
    (total.cpu, total.memory)
}

/// A limit without a request is a request.
fn requests(resources: &Value) -> Amounts {
    let mut amounts = Amounts::read(&resources["requests"]);
    if resources["limits"].is_object() {
        let limits = Amounts::read(&resources["limits"]);
        let unsaid = |name: &str| resources["requests"][name].is_null();
        if unsaid("cpu") {
            amounts.cpu = limits.cpu;
        }
        if unsaid("memory") {
            amounts.memory = limits.memory;
        }
        if unsaid("ephemeral-storage") {
            amounts.ephemeral = limits.ephemeral;
        }
        for (name, amount) in limits.others {
            amounts.others.entry(name).or_insert(amount);
        }
    }
    amounts
}

fn sum(spec: &Value, of: impl Fn(&Value) -> Amounts) -> Amounts {
    let list = |name: &str| spec[name].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut total = Amounts::default();
    list("containers").iter().for_each(|container| total.add(&of(container)));
    let (mut sidecars, mut most) = (Amounts::default(), Amounts::default());
    for container in list("initContainers") {
        let needs = of(container);
        if container["restartPolicy"] == "Always" {
            total.add(&needs);
            sidecars.add(&needs);
            most.at_least(&sidecars);
        } else {
            let mut beside = sidecars.clone();
            beside.add(&needs);
            most.at_least(&beside);
        }
    }
    total.at_least(&most);
    if spec["resources"].is_object() {
        // What is asked for the pod as a whole counts in place of the sum.
        let whole = requests(&spec["resources"]);
        for (name, is, given) in
            [("cpu", &mut total.cpu, whole.cpu), ("memory", &mut total.memory, whole.memory)]
        {
            let said = |list: &str| !spec["resources"][list][name].is_null();
            if said("requests") || said("limits") {
                *is = given;
            }
        }
    }
    total.add(&Amounts::read(&spec["overhead"]));
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn container(cpu: &str, memory: &str) -> Value {
        json!({ "resources": { "requests": { "cpu": cpu, "memory": memory } } })
    }

    fn sidecar(cpu: &str, memory: &str) -> Value {
        let mut container = container(cpu, memory);
        container["restartPolicy"] = "Always".into();
        container
    }

    #[test]
    fn sums() {
        let both = json!({ "containers": [container("100m", "1Gi"), container("1", "1Mi")] });
        let sum = of_pod(&both);
        assert_eq!((sum.cpu, sum.memory), (1100, (1 << 30) + (1 << 20)));

        // A large init container beside a sidecar before it, and a sidecar after it that does not count there.
        let spec = json!({
            "initContainers": [sidecar("200m", "0"), container("2", "0"), sidecar("300m", "0")],
            "containers": [container("1", "0")],
            "overhead": { "cpu": "50m" },
        });
        assert_eq!(of_pod(&spec).cpu, 2250);
        let spec = json!({ "initContainers": [sidecar("200m", "0")], "containers": [container("1", "0")] });
        assert_eq!(of_pod(&spec).cpu, 1200);
    }

    #[test]
    fn limits_stand_for_requests_and_the_usual_for_nothing() {
        let spec = json!({ "containers": [{ "resources": { "limits": { "cpu": "2", "example.com/gpu": "1" } } }, {}] });
        let sum = of_pod(&spec);
        assert_eq!((sum.cpu, sum.others["example.com/gpu"]), (2000, 1));
        assert_eq!(usual_of_pod(&spec), (2100, 2 * USUAL_MEMORY));
    }

    #[test]
    fn the_pod_as_a_whole() {
        let spec =
            json!({ "resources": { "requests": { "cpu": "5" } }, "containers": [container("1", "1Ki")] });
        assert_eq!((of_pod(&spec).cpu, of_pod(&spec).memory), (5000, 1024));
    }
}
