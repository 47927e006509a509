//! Launch order at admission: the changes of a new pod whose containers start in order. Each container gets an
//! environment variable that refers to a missing ConfigMap key, and so cannot start before the key exists. The pod gets
//! the launch gate, and a name, because the name of its ConfigMap depends on it. [`rollcall_core::launch::ranks`]
//! interprets the requested order.

use crate::json::{
    ABoolean, AList, AText, AnObject, Found, Malformed, ObjectList, Text, Texts, object, required, text,
};
use crate::pod::SchedulingGate;
use crate::review::Verdict;
use rollcall_api::patch::json::{Operations, add, append, replace};
use rollcall_core::gates;
use rollcall_core::hash::fnv1a64;
use rollcall_core::launch::RESTART_DEPENDENTS;
use rollcall_core::launch::ranks::{
    self, LaunchOrder, MOST_CONTAINERS, ORDERED_KEY, Value, Variable, WrittenContainer, WrittenPod,
    barrier_name, barrier_of,
};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// Marks the mirror pod of a static pod: its containers already run, and its spec cannot be changed.
const MIRROR: &str = "kubernetes.io/config.mirror";

static LABELS: LazyLock<BTreeSet<&str>> = LazyLock::new(|| [ORDERED_KEY].into());
static ANNOTATIONS: LazyLock<BTreeSet<&str>> =
    LazyLock::new(|| [ORDERED_KEY, RESTART_DEPENDENTS, MIRROR].into());

/// Maximum number of our variables that are kept for one container; a container with more of them is rejected.
const MOST_VARIABLES: usize = 8;

/// The format of names that Kubernetes generates: at most 58 characters of the prefix, and a suffix of 5 characters.
const LONGEST_BASE: usize = 58;
const SUFFIX: usize = 5;
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

#[derive(Default)]
pub struct LaunchPod<'a> {
    metadata: Found<LaunchMetadata<'a>>,
    spec: Found<LaunchSpec<'a>>,
}

#[derive(Default)]
struct LaunchMetadata<'a> {
    name: Found<Text<'a>>,
    generate_name: Found<Text<'a>>,
    labels: Found<BTreeMap<&'static str, Text<'a>>>,
    annotations: Found<BTreeMap<&'static str, Text<'a>>>,
}

#[derive(Default)]
struct LaunchSpec<'a> {
    node_name: Found<Text<'a>>,
    gates: Found<LaunchGates>,
    containers: Found<Containers<'a>>,
    init_containers: Found<Containers<'a>>,
}

impl LaunchPod<'_> {
    /// Returns the changes of the pod. `seed` differs for each request; a generated name depends on it.
    pub fn ordered(self, seed: &str) -> Result<Verdict, Malformed> {
        let (metadata, spec) =
            (required(self.metadata, "object.metadata")?, required(self.spec, "object.spec")?);
        let annotations = metadata.annotations.transpose()?.unwrap_or_default();
        let labels = metadata.labels.transpose()?.unwrap_or_default();
        if annotations.contains_key(MIRROR) {
            return Ok(Verdict::default());
        }
        let gates = spec.gates.transpose()?;
        let (containers, init) = (spec.containers.transpose()?, spec.init_containers.transpose()?);
        let (containers, init) = (containers.unwrap_or_default(), init.unwrap_or_default());
        let (name, base) = (text(&metadata.name)?, text(&metadata.generate_name)?);
        let gated = gates.as_ref().is_some_and(|gates| gates.ours);
        let bound = !text(&spec.node_name)?.is_empty();
        let kept: Vec<WrittenContainer<'_>> =
            containers.kept.iter().map(LaunchContainer::written).collect::<Result<_, _>>()?;
        let init: Vec<WrittenContainer<'_>> =
            init.kept.iter().map(LaunchContainer::written).collect::<Result<_, _>>()?;
        let written = WrittenPod {
            name,
            ordered: [&labels, &annotations]
                .into_iter()
                .filter_map(|map| map.get(ORDERED_KEY))
                .map(|text| &**text)
                .collect(),
            reviewed: gated || bound,
            containers: kept,
            init_containers: init.into_iter().filter(|container| !container.variables.is_empty()).collect(),
            plain_containers: containers.plain,
        };
        let reading = match ranks::read(&written) {
            Ok(reading) => reading,
            Err(problem) => return Ok(Verdict { denied: Some(problem.message), ..Verdict::default() }),
        };
        let mut warnings = reading.warnings;
        if annotations.get(RESTART_DEPENDENTS).is_some_and(|value| value == "true") {
            warnings.push(format!(
                "{RESTART_DEPENDENTS} has no effect: Rollcall orders only the first start of containers"
            ));
        }
        let Some(order) = reading.order else { return Ok(Verdict { warnings, ..Verdict::default() }) };
        // A pod without a name and a `generateName` is rejected by the API server.
        let generated = (name.is_empty() && !base.is_empty()).then(|| generated(base, seed));
        let config_map = barrier_name(generated.as_deref().unwrap_or(name));
        let mut patch: Operations =
            generated.iter().map(|name| add("/metadata/name", name.as_str())).collect();
        patch.extend(variables(&containers, &written, &order, &config_map)?);
        // Kubernetes rejects a gate on a pod with a `nodeName`.
        if !gated && !bound {
            patch.extend(append(
                "/spec/schedulingGates",
                gates.is_some(),
                vec![json!({ "name": gates::LAUNCH })],
            ));
        }
        Ok(Verdict { patch, warnings, denied: None })
    }
}

/// The patch operations for containers whose variable is missing or outdated.
fn variables(
    containers: &Containers<'_>,
    written: &WrittenPod<'_>,
    order: &LaunchOrder,
    config_map: &str,
) -> Result<Operations, Malformed> {
    let mut patch = Operations::new();
    for (index, priority) in order.priorities.iter().enumerate() {
        let key = order.spelling.key(*priority);
        let reference = json!({ "name": config_map, "key": key });
        let variable = json!({
            "name": order.spelling.barrier_variable(), "valueFrom": { "configMapKeyRef": reference },
        });
        let path = format!("/spec/containers/{index}/env");
        let env = containers.kept[index].env.clone().transpose()?;
        match barrier_of(&written.containers[index]).map(|there| there.value) {
            None => patch.extend(append(&path, env.is_some(), vec![variable])),
            Some(Value::ConfigMapKey { key: there, .. }) if there == key => {}
            Some(_) => {
                let place = env.and_then(|env| env.barrier).unwrap_or_default();
                patch.push(replace(&format!("{path}/{place}"), variable));
            }
        }
    }
    Ok(patch)
}

/// Generates a name in the same way as the API server.
fn generated(base: &str, seed: &str) -> String {
    let mut name: String = base.chars().take(LONGEST_BASE).collect();
    let mut chance = fnv1a64(seed.as_bytes());
    for _ in 0..SUFFIX {
        name.push(char::from(ALPHABET[(chance % ALPHABET.len() as u64) as usize]));
        chance /= ALPHABET.len() as u64;
    }
    name
}

object! { LaunchPod<'a>, "object", |this|
    "metadata" => metadata: AnObject(LaunchMetadata::default()),
    "spec" => spec: AnObject(LaunchSpec::default()),
}

object! { LaunchMetadata<'a>, "object.metadata", |this|
    "name" => name: AText,
    "generateName" => generate_name: AText,
    "labels" => labels: Texts(&LABELS),
    "annotations" => annotations: Texts(&ANNOTATIONS),
}

object! { LaunchSpec<'a>, "object.spec", |this|
    "nodeName" => node_name: AText,
    "schedulingGates" => gates: AList(LaunchGates::default()),
    "containers" => containers: AList(Containers::default()),
    "initContainers" => init_containers: AList(Containers::default()),
}

/// Whether the pod has the launch gate.
#[derive(Default)]
struct LaunchGates {
    ours: bool,
}

impl<'a> ObjectList<'a> for LaunchGates {
    const ITEM: &'static str = "object.spec.schedulingGates[]";
    type Item = SchedulingGate<'a>;

    fn put(&mut self, gate: Result<SchedulingGate<'a>, Malformed>) -> Result<(), Malformed> {
        self.ours |= text(&gate?.name)? == gates::LAUNCH;
        Ok(())
    }
}

/// The containers of a pod. Kept are one more container than can be ordered, and as many again that have our variables;
/// the others are only counted.
#[derive(Default)]
struct Containers<'a> {
    kept: Vec<LaunchContainer<'a>>,
    plain: usize,
}

#[derive(Default)]
struct LaunchContainer<'a> {
    name: Found<Text<'a>>,
    env: Found<Env<'a>>,
}

impl LaunchContainer<'_> {
    fn written(&self) -> Result<WrittenContainer<'_>, Malformed> {
        let name = text(&self.name)?;
        let env = self.env.as_ref().map(Result::as_ref).transpose().map_err(|malformed| *malformed)?;
        let kept = env.into_iter().flat_map(|env| &env.kept);
        let variables = kept.map(|kept| Ok(Variable { name: text(&kept.name)?, value: kept.value()? }));
        Ok(WrittenContainer { name, variables: variables.collect::<Result<_, Malformed>>()? })
    }
}

impl<'a> ObjectList<'a> for Containers<'a> {
    const ITEM: &'static str = "object.spec.containers[]";
    type Item = LaunchContainer<'a>;

    fn put(&mut self, container: Result<LaunchContainer<'a>, Malformed>) -> Result<(), Malformed> {
        let container = container?;
        let has_variables = matches!(&container.env, Some(Ok(env)) if !env.kept.is_empty());
        let room = if has_variables { 2 * MOST_CONTAINERS } else { MOST_CONTAINERS };
        match self.kept.len() <= room {
            true => self.kept.push(container),
            false => self.plain += 1,
        }
        Ok(())
    }
}

object! { LaunchContainer<'a>, "object.spec.containers[]", |this|
    "name" => name: AText,
    "env" => env: AList(Env::default()),
}

/// The variables that concern launch order, and the position of the variable that holds the container.
#[derive(Clone, Default)]
struct Env<'a> {
    kept: Vec<EnvVariable<'a>>,
    number: usize,
    barrier: Option<usize>,
}

#[derive(Clone, Default)]
struct EnvVariable<'a> {
    name: Found<Text<'a>>,
    value: Found<Text<'a>>,
    value_from: Found<ValueFrom<'a>>,
}

impl EnvVariable<'_> {
    fn value(&self) -> Result<Value<'_>, Malformed> {
        let Some(from) = &self.value_from else { return Ok(Value::Text(text(&self.value)?)) };
        let Some(key) = &from.as_ref().map_err(|malformed| *malformed)?.config_map_key else {
            return Ok(Value::Other);
        };
        let key = key.as_ref().map_err(|malformed| *malformed)?;
        Ok(match key.optional {
            Some(Ok(true)) => Value::Other,
            _ => Value::ConfigMapKey { config_map: text(&key.name)?, key: text(&key.key)? },
        })
    }
}

impl<'a> ObjectList<'a> for Env<'a> {
    const ITEM: &'static str = "object.spec.containers[].env[]";
    type Item = EnvVariable<'a>;

    fn put(&mut self, variable: Result<EnvVariable<'a>, Malformed>) -> Result<(), Malformed> {
        let variable = variable?;
        let name = text(&variable.name)?;
        if ranks::is_variable(name) && self.kept.len() < MOST_VARIABLES {
            if ranks::Spelling::of_barrier(name).is_some() {
                self.barrier.get_or_insert(self.number);
            }
            self.kept.push(variable);
        }
        self.number += 1;
        Ok(())
    }
}

object! { EnvVariable<'a>, "object.spec.containers[].env[]", |this|
    "name" => name: AText,
    "value" => value: AText,
    "valueFrom" => value_from: AnObject(ValueFrom::default()),
}

#[derive(Clone, Default)]
struct ValueFrom<'a> {
    config_map_key: Found<ConfigMapKey<'a>>,
}

#[derive(Clone, Default)]
struct ConfigMapKey<'a> {
    name: Found<Text<'a>>,
    key: Found<Text<'a>>,
    optional: Found<bool>,
}

object! { ValueFrom<'a>, "object.spec.containers[].env[].valueFrom", |this|
    "configMapKeyRef" => config_map_key: AnObject(ConfigMapKey::default()),
}

object! { ConfigMapKey<'a>, "object.spec.containers[].env[].valueFrom.configMapKeyRef", |this|
    "name" => name: AText,
    "key" => key: AText,
    "optional" => optional: ABoolean,
}
