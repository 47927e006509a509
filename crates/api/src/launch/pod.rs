//! Reads the launch order of a pod's containers from its environment variables, annotations and container statuses.

use crate::watch::{ContainerStatus, Meta};
use rollcall_core::launch::facts::{Launch, LaunchContainer};
use rollcall_core::launch::ranks::{MOST_CONTAINERS, Spelling, barrier_name};
use rollcall_core::launch::{COMPLETED, NUDGE, RANK, RESTART_DEPENDENTS};
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::fmt;

/// The waiting reason of a container whose key the kubelet has not found.
const KEY_MISSING: &str = "CreateContainerConfigError";

/// The barrier variable of a container, if it has one. Other variables are not kept, because there may be many long ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Barrier(Option<Box<Reference>>);

#[derive(Clone, Debug)]
struct Reference {
    spelling: Spelling,
    config_map: String,
    key: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Variable<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(default)]
    value_from: Option<ValueFrom>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ValueFrom {
    #[serde(default)]
    config_map_key_ref: Option<ConfigMapKey>,
}

#[derive(Deserialize)]
struct ConfigMapKey {
    #[serde(default)]
    name: String,
    #[serde(default)]
    key: String,
    #[serde(default)]
    optional: Option<bool>,
}

impl<'de> Deserialize<'de> for Barrier {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Barrier, D::Error> {
        struct BarrierVisitor;
        impl<'de> Visitor<'de> for BarrierVisitor {
            type Value = Barrier;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of environment variables")
            }

            fn visit_unit<E>(self) -> Result<Barrier, E> {
                Ok(Barrier(None))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut variables: A) -> Result<Barrier, A::Error> {
                let mut found = None;
                while let Some(variable) = variables.next_element::<Variable<'_>>()? {
                    if let Some(spelling) = Spelling::of_barrier(&variable.name) {
                        // If two variables have the same name, the last one counts, as in the container.
                        found = variable.reference(spelling);
                    }
                }
                while variables.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Barrier(found.map(Box::new)))
            }
        }
        deserializer.deserialize_any(BarrierVisitor)
    }
}

impl Variable<'_> {
    fn reference(self, spelling: Spelling) -> Option<Reference> {
        let key = self.value_from?.config_map_key_ref.filter(|key| key.optional != Some(true))?;
        Some(Reference { spelling, config_map: key.name, key: key.key })
    }
}

/// Returns the launch order of a pod's containers, given their names and barrier variables.
pub(crate) fn launch<'a>(
    metadata: &Meta,
    containers: impl Iterator<Item = (&'a str, &'a Barrier)>,
    statuses: &[ContainerStatus],
    exits: bool,
    gated: bool,
) -> Launch {
    let mut config_map = None;
    let ordered = containers.filter_map(|(name, barrier)| {
        let Reference { spelling, config_map: of, key } = barrier.0.as_deref()?;
        let priority = spelling.priority_of_key(key)?;
        // A container may refer to any ConfigMap. Only the barrier of this pod is managed by the controller.
        if of != config_map.get_or_insert_with(|| barrier_name(&metadata.name)) {
            return None;
        }
        let status = statuses.iter().find(|status| status.name == name);
        Some(LaunchContainer {
            name: name.into(),
            spelling: *spelling,
            priority,
            passed: status.is_some_and(|status| status.ready || exits && status.has_succeeded()),
            waits_for_key: status.is_some_and(|status| status.waits_for(KEY_MISSING)),
            trouble: status.and_then(ContainerStatus::trouble).map(|trouble| trouble.what),
            since: status.and_then(ContainerStatus::runs_since),
        })
    });
    // The webhook rejects pods that order more containers. A pod with more has not passed the webhook, and is not ordered.
    let ordered: Box<[LaunchContainer]> = ordered.take(MOST_CONTAINERS + 1).collect();
    Launch {
        containers: if ordered.len() > MOST_CONTAINERS { Box::default() } else { ordered },
        rank: metadata.annotation(RANK).filter(|_| !gated).and_then(|rank| rank.parse().ok()),
        nudges: metadata.annotation(NUDGE).and_then(|nudges| nudges.parse().ok()).unwrap_or(0),
        completed: !gated && metadata.annotation(COMPLETED) == Some("true"),
        copied: gated && [RANK, COMPLETED].iter().any(|key| metadata.annotation(key).is_some()),
        asks_restart: metadata.annotation(RESTART_DEPENDENTS) == Some("true"),
    }
}
