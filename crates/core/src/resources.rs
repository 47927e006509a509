//! The requests of a pod, computed as the scheduler computes them. Used for claims of tickets, by the embedded scheduler and by
//! the embedded quotas.

use crate::quantity::{Form, Quantity};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Amounts by resource name.
pub type Resources = BTreeMap<Arc<str>, Quantity>;

/// The amounts of one container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerAmounts {
    pub amounts: Resources,
    /// Whether this is an init container that keeps running beside the containers (`restartPolicy: Always`).
    pub is_sidecar: bool,
}

/// The parts of a pod that determine its requests or its limits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodAmounts {
    pub containers: Vec<ContainerAmounts>,
    /// In starting order.
    pub init_containers: Vec<ContainerAmounts>,
    /// `spec.resources`: amounts of the pod as a whole.
    pub pod_level: Resources,
    pub overhead: Resources,
}

impl PodAmounts {
    /// The requests of the pod, plus its overhead. The requests are the maximum of what runs at the same time. For resources that
    /// Kubernetes allows in `spec.resources`, the amounts there replace that sum.
    pub fn requests(&self) -> Resources {
        let mut total = self.without_overhead();
        add(&mut total, &self.overhead);
        total
    }

    /// The limits of the pod. Overhead is added only to resources that have a limit.
    pub fn limits(&self) -> Resources {
        let mut total = self.without_overhead();
        for (name, amount) in &mut total {
            *amount = *amount + self.overhead.get(name).copied().unwrap_or(NOTHING);
        }
        total
    }

    fn without_overhead(&self) -> Resources {
        let mut total = self.most_at_once();
        let counts = |name: &&Arc<str>| is_pod_level(name);
        for name in self.pod_level.keys().filter(counts) {
            total.insert(name.clone(), self.pod_level[name]);
        }
        total
    }

    fn most_at_once(&self) -> Resources {
        let mut sum = Resources::new();
        self.containers.iter().for_each(|container| add(&mut sum, &container.amounts));
        // Init containers run one after another, each beside the sidecars that were started before it.
        let (mut sidecars, mut most) = (Resources::new(), Resources::new());
        for container in &self.init_containers {
            let mut at_once = sidecars.clone();
            add(&mut at_once, &container.amounts);
            raise(&mut most, &at_once);
            if container.is_sidecar {
                sidecars = at_once;
            }
        }
        add(&mut sum, &sidecars);
        raise(&mut sum, &most);
        sum
    }
}

const NOTHING: Quantity = Quantity::new(0, Form::Decimal);

/// Whether Kubernetes allows a resource in `spec.resources` of a pod.
fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

fn add(sum: &mut Resources, amounts: &Resources) {
    for (name, amount) in amounts {
        let known = sum.entry(name.clone()).or_insert(Quantity::new(0, amount.form()));
        *known = *known + *amount;
    }
}

fn raise(floor: &mut Resources, amounts: &Resources) {
    for (name, amount) in amounts {
        let known = floor.entry(name.clone()).or_insert(*amount);
        *known = (*known).max(*amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(list: &[(&str, &str)]) -> Resources {
        let amount = |(name, amount): &(&str, &str)| (Arc::from(*name), amount.parse().expect("a quantity"));
        list.iter().map(amount).collect()
    }

    fn cpu(amount: &str) -> ContainerAmounts {
        ContainerAmounts { amounts: amounts(&[("cpu", amount)]), is_sidecar: false }
    }

    fn sidecar(amount: &str) -> ContainerAmounts {
        ContainerAmounts { is_sidecar: true, ..cpu(amount) }
    }

    fn pod(containers: &[ContainerAmounts], init_containers: &[ContainerAmounts]) -> PodAmounts {
        PodAmounts {
            containers: containers.to_vec(),
            init_containers: init_containers.to_vec(),
            ..PodAmounts::default()
        }
    }

    #[test]
    fn the_most_that_runs_at_the_same_time_counts() {
        let sum = |containers: &[ContainerAmounts], init: &[ContainerAmounts]| {
            pod(containers, init).requests()["cpu"].to_string()
        };
        assert_eq!(sum(&[cpu("100m"), cpu("100m"), cpu("100m")], &[]), "300m");
        assert_eq!(sum(&[cpu("1")], &[cpu("2"), cpu("500m")]), "2");
        assert_eq!(sum(&[cpu("1")], &[sidecar("500m")]), "1500m", "a sidecar runs beside the container");
        assert_eq!(
            sum(&[cpu("1")], &[sidecar("500m"), cpu("2")]),
            "2500m",
            "a sidecar runs beside later init containers"
        );
        assert_eq!(
            sum(&[cpu("1")], &[cpu("2"), sidecar("500m")]),
            "2",
            "a sidecar does not run beside earlier init containers"
        );
        assert_eq!(sum(&[cpu("1")], &[sidecar("200m"), cpu("2"), sidecar("300m")]), "2200m");
    }

    #[test]
    fn overhead_comes_on_top() {
        let with_overhead = PodAmounts {
            overhead: amounts(&[("cpu", "250m"), ("memory", "1Mi")]),
            ..pod(&[cpu("1")], &[cpu("2")])
        };
        assert_eq!(with_overhead.requests(), amounts(&[("cpu", "2250m"), ("memory", "1Mi")]));
        assert_eq!(
            with_overhead.limits(),
            amounts(&[("cpu", "2250m")]),
            "overhead is added only to existing limits"
        );
    }

    #[test]
    fn amounts_of_the_pod_as_a_whole_take_the_place_of_the_sum() {
        let mut whole = pod(&[cpu("1"), cpu("1")], &[cpu("9")]);
        whole.containers[0].amounts.extend(amounts(&[("memory", "1Ki"), ("example.com/gpu", "1")]));
        whole.overhead = amounts(&[("cpu", "50m")]);
        // Extended resources and storage are ignored in `spec.resources`.
        whole.pod_level = amounts(&[("cpu", "5"), ("hugepages-2Mi", "4Mi"), ("example.com/gpu", "3")]);
        assert_eq!(
            whole.requests(),
            amounts(&[
                ("cpu", "5050m"),
                ("memory", "1Ki"),
                ("hugepages-2Mi", "4Mi"),
                ("example.com/gpu", "1")
            ])
        );
        // The amounts of the pod as a whole count even if its containers request nothing.
        whole.containers = vec![ContainerAmounts::default()];
        whole.init_containers = Vec::new();
        assert_eq!(whole.requests()["cpu"].to_string(), "5050m");
    }
}
