//! The ticket that a pod requests, and the resource requests of the pod.

use crate::watch::Meta;
use rollcall_core::quantity::Quantity;
use rollcall_core::reservation::spec::RequestedTicket;
use rollcall_core::reservation::wanted::wanted as wanted_by;
use rollcall_core::resources::{ContainerAmounts, PodAmounts, Resources};
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// Maximum number of resources read per container. A pod may list thousands.
const MOST_RESOURCES: usize = 32;

/// Unparsed amounts by resource name.
#[derive(Clone, Debug, Default)]
pub struct Amounts(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Amounts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Amounts, D::Error> {
        struct AmountsVisitor;
        impl<'de> Visitor<'de> for AmountsVisitor {
            type Value = Amounts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("amounts of resources")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Amounts, A::Error> {
                let mut picked = Vec::new();
                while picked.len() < MOST_RESOURCES
                    && let Some(pair) = map.next_entry()?
                {
                    picked.push(pair);
                }
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Amounts(picked))
            }
        }
        deserializer.deserialize_map(AmountsVisitor)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ContainerResources {
    requests: Option<Amounts>,
}

/// The resource requirements of a container.
pub trait PodResources {
    fn resources(&self) -> &ContainerResources;
    /// Whether this is a sidecar: an init container that keeps running beside the containers.
    fn keeps_running(&self) -> bool;
}

/// Returns the ticket that the annotations of a pod request.
pub fn wanted(metadata: &Meta) -> RequestedTicket {
    wanted_by(|key| metadata.annotation(key))
}

/// Returns the resource requests of a pod, as the scheduler computes them.
pub fn requested<C: PodResources>(
    containers: &[C],
    init: &[C],
    pod_level: &ContainerResources,
    overhead: Option<&Amounts>,
) -> Resources {
    let container = |container: &C| ContainerAmounts {
        amounts: read(container.resources().requests.as_ref()),
        is_sidecar: container.keeps_running(),
    };
    let pod = PodAmounts {
        containers: containers.iter().map(container).collect(),
        init_containers: init.iter().map(container).collect(),
        pod_level: read(pod_level.requests.as_ref()),
        overhead: read(overhead),
    };
    pod.requests()
}

/// Parses amounts. An amount that cannot be parsed is skipped: the API server has accepted it, so it supports a format that we do
/// not.
fn read(amounts: Option<&Amounts>) -> Resources {
    let amount = |(name, amount): &(String, Value)| {
        let text = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
        Some((Arc::from(name.as_str()), text.parse::<Quantity>().ok()?))
    };
    amounts.into_iter().flat_map(|amounts| &amounts.0).filter_map(amount).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rollcall_core::reservation::names;
    use serde_json::json;

    #[derive(Deserialize)]
    struct Container {
        #[serde(default)]
        resources: ContainerResources,
        #[serde(default)]
        always: bool,
    }

    impl PodResources for Container {
        fn resources(&self) -> &ContainerResources {
            &self.resources
        }

        fn keeps_running(&self) -> bool {
            self.always
        }
    }

    fn containers(cpus: &[(&str, bool)]) -> Vec<Container> {
        let container = |(cpu, always): &(&str, bool)| json!({ "resources": { "requests": { "cpu": cpu } }, "always": always });
        cpus.iter().map(|cpu| serde_json::from_value(container(cpu)).expect("a container")).collect()
    }

    #[test]
    fn every_part_of_a_pod_is_read() {
        let amount = |cpu: &str| Amounts(vec![("cpu".to_owned(), json!(cpu))]);
        let cpu = |pod_level: Option<&str>| {
            let (main, init) = (containers(&[("1", false)]), containers(&[("500m", true), ("2", false)]));
            let pod_level = ContainerResources { requests: pod_level.map(amount) };
            requested(&main, &init, &pod_level, Some(&amount("250m")))["cpu"].to_string()
        };
        assert_eq!(cpu(None), "2750m");
        assert_eq!(cpu(Some("5")), "5250m");
    }

    #[test]
    fn what_pods_write_is_understood() {
        let asks = |annotations: Value| {
            let metadata: Meta =
                serde_json::from_value(json!({ "annotations": annotations })).expect("metadata");
            wanted(&metadata)
        };
        let label = |key: &str, value: &str| RequestedTicket::Label { key: key.into(), value: value.into() };
        for (request, expected) in [
            ("a", RequestedTicket::Ticket("a".into())),
            ("name:a", RequestedTicket::Ticket("a".into())),
            ("selector:zone=a", label("zone", "a")),
            ("selector:zone==a", label("zone", "a")),
            ("group:gpu", label(names::GROUP, "gpu")),
        ] {
            assert_eq!(asks(json!({ names::TICKET_REQUEST: request })), expected);
        }
        assert!(matches!(
            asks(json!({ names::TICKET_REQUEST: "selector:zone" })),
            RequestedTicket::Unclear(_)
        ));
        assert!(matches!(asks(json!({ names::TICKET_REQUEST: "what:zone" })), RequestedTicket::Unclear(_)));
        assert_eq!(asks(json!({ names::ORDER_REQUEST: "o" })), RequestedTicket::Order("o".into()));
        assert_eq!(
            asks(json!({ names::REQUIRED: "true", names::ORDER: "o" })),
            RequestedTicket::Order("o".into())
        );
        assert!(matches!(asks(json!({ names::REQUIRED: "true" })), RequestedTicket::Unclear(_)));
        assert_eq!(asks(json!({ names::ORDER: "o" })), RequestedTicket::Any);
        assert_eq!(asks(json!({})), RequestedTicket::Any);
    }
}
