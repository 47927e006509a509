//! What a pod wants of a ticket, and how much room it takes.

use crate::watch::Meta;
use rollcall_core::quantity::{Form, Quantity};
use rollcall_core::reservation::spec::{Resources, Wanted};
use rollcall_core::reservation::wanted::wanted as wanted_by;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// Resources of one container that are looked at. Whoever may create pods may name thousands.
const MOST_RESOURCES: usize = 32;

/// Amounts as they are written.
#[derive(Clone, Debug, Default)]
pub struct Amounts(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Amounts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Amounts, D::Error> {
        struct Picking;
        impl<'de> Visitor<'de> for Picking {
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
        deserializer.deserialize_map(Picking)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ContainerResources {
    requests: Option<Amounts>,
}

/// A container, as far as it takes room.
pub trait PodResources {
    fn resources(&self) -> &ContainerResources;
    /// An init container that runs beside the others from then on.
    fn keeps_running(&self) -> bool;
}

/// What a pod asks for by its annotations.
pub fn wanted(metadata: &Meta) -> Wanted {
    wanted_by(|key| metadata.annotation(key))
}

/// What the scheduler counts for a pod: what runs at the same time, at the moment when that is most.
pub fn requested<C: PodResources>(containers: &[C], init: &[C], overhead: Option<&Amounts>) -> Resources {
    let mut sum = Resources::new();
    for container in containers {
        add(&mut sum, container.resources().requests.as_ref());
    }
    // Init containers run one after the other, beside those before them that keep running.
    let (mut beside, mut most) = (Resources::new(), Resources::new());
    for container in init {
        let requests = container.resources().requests.as_ref();
        let mut now = beside.clone();
        add(&mut now, requests);
        if container.keeps_running() {
            add(&mut beside, requests);
            add(&mut sum, requests);
        }
        for (name, amount) in now {
            let known = most.entry(name).or_insert(NOTHING);
            *known = (*known).max(amount);
        }
    }
    for (name, amount) in most {
        let known = sum.entry(name).or_insert(NOTHING);
        *known = (*known).max(amount);
    }
    add(&mut sum, overhead);
    sum
}

const NOTHING: Quantity = Quantity::new(0, Form::Decimal);

fn add(sum: &mut Resources, amounts: Option<&Amounts>) {
    for (name, amount) in amounts.into_iter().flat_map(|amounts| &amounts.0) {
        let text = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
        let Ok(amount) = text.parse::<Quantity>() else { continue };
        let known = sum.entry(Arc::from(name.as_str())).or_insert(Quantity::new(0, amount.form()));
        *known = *known + amount;
    }
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
    fn room_is_counted_as_the_scheduler_does() {
        let cpu = |main: &[(&str, bool)], init: &[(&str, bool)], overhead: Option<&str>| {
            let overhead = overhead.map(|cpu| Amounts(vec![("cpu".to_owned(), json!(cpu))]));
            requested(&containers(main), &containers(init), overhead.as_ref())["cpu"].to_string()
        };
        assert_eq!(cpu(&[("100m", false), ("100m", false), ("100m", false)], &[], None), "300m");
        assert_eq!(cpu(&[("1", false)], &[("2", false), ("500m", false)], None), "2");
        assert_eq!(cpu(&[("1", false)], &[("500m", true)], None), "1500m", "a sidecar runs beside it");
        assert_eq!(
            cpu(&[("1", false)], &[("500m", true), ("2", false)], None),
            "2500m",
            "beside an init container, too"
        );
        assert_eq!(cpu(&[("1", false)], &[("2", false), ("500m", true)], Some("250m")), "2250m");
    }

    #[test]
    fn what_pods_write_is_understood() {
        let asks = |annotations: Value| {
            let metadata: Meta =
                serde_json::from_value(json!({ "annotations": annotations })).expect("metadata");
            wanted(&metadata)
        };
        let label = |key: &str, value: &str| Wanted::Label { key: key.into(), value: value.into() };
        for (request, expected) in [
            ("a", Wanted::Ticket("a".into())),
            ("name:a", Wanted::Ticket("a".into())),
            ("selector:zone=a", label("zone", "a")),
            ("selector:zone==a", label("zone", "a")),
            ("group:gpu", label(names::GROUP, "gpu")),
        ] {
            assert_eq!(asks(json!({ names::TICKET_REQUEST: request })), expected);
        }
        assert!(matches!(asks(json!({ names::TICKET_REQUEST: "selector:zone" })), Wanted::Unclear(_)));
        assert!(matches!(asks(json!({ names::TICKET_REQUEST: "what:zone" })), Wanted::Unclear(_)));
        assert_eq!(asks(json!({ names::ORDER_REQUEST: "o" })), Wanted::Order("o".into()));
        assert_eq!(asks(json!({ names::REQUIRED: "true", names::ORDER: "o" })), Wanted::Order("o".into()));
        assert!(matches!(asks(json!({ names::REQUIRED: "true" })), Wanted::Unclear(_)));
        assert_eq!(asks(json!({ names::ORDER: "o" })), Wanted::Any);
        assert_eq!(asks(json!({})), Wanted::Any);
    }
}
