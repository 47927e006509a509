//! The priorities of containers, as users write them, and the barrier variables that make containers wait. The webhook, the
//! controller, the embedded kubelet and `lint` all use this module to read them.

use std::fmt;
use std::num::IntErrorKind;

/// A label or annotation of a pod. With the value [`ORDERED`], containers start one after another in the order of
/// `spec.containers`.
pub const ORDERED_KEY: &str = "apps.kruise.io/container-launch-priority";
pub const ORDERED: &str = "Ordered";
/// The suffix that, appended to the name of a pod, gives the name of its ConfigMap.
const BARRIER_SUFFIX: &str = "-barrier";
/// The longest name of a pod with a ConfigMap, whose name has at most 253 characters.
pub const LONGEST_POD_NAME: usize = 253 - BARRIER_SUFFIX.len();
/// Maximum number of containers in a pod with a launch order. Every rank costs two writes.
pub const MOST_CONTAINERS: usize = 64;

/// The priority of a container: higher starts first. All containers of one priority form a rank.
pub type Priority = i32;

const LOWEST: Priority = -2_147_483_647;
const HIGHEST: Priority = 2_147_483_647;

/// A naming scheme of the environment variables. Each pod uses only one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Spelling {
    /// The names in OpenKruise's proposal.
    Proposed,
    /// The names in OpenKruise's releases.
    Shipped,
}

impl Spelling {
    pub const ALL: [Spelling; 2] = [Spelling::Proposed, Spelling::Shipped];

    /// The variable that sets the priority of a container.
    pub fn priority_variable(self) -> &'static str {
        match self {
            Spelling::Proposed => "KRUISE_CONTAINER_LAUNCH_PRIORITY",
            Spelling::Shipped => "KRUISE_CONTAINER_PRIORITY",
        }
    }

    /// The variable that makes a container wait until its key is in the ConfigMap of the pod.
    pub fn barrier_variable(self) -> &'static str {
        match self {
            Spelling::Proposed => "KRUISE_CONTAINER_LAUNCH_BARRIER",
            Spelling::Shipped => "KRUISE_CONTAINER_BARRIER",
        }
    }

    fn key_prefix(self) -> &'static str {
        match self {
            Spelling::Proposed => "c_",
            Spelling::Shipped => "p_",
        }
    }

    /// The key of a rank in the ConfigMap of the pod.
    pub fn key(self, priority: Priority) -> String {
        format!("{}{priority}", self.key_prefix())
    }

    /// Parses a key in the form that [`Spelling::key`] produces.
    pub fn priority_of_key(self, key: &str) -> Option<Priority> {
        let priority = key.strip_prefix(self.key_prefix()).and_then(|number| parse_priority(number).ok())?;
        (self.key(priority) == key).then_some(priority)
    }

    fn of_priority(variable: &str) -> Option<Spelling> {
        Spelling::ALL.into_iter().find(|spelling| spelling.priority_variable() == variable)
    }

    pub fn of_barrier(variable: &str) -> Option<Spelling> {
        Spelling::ALL.into_iter().find(|spelling| spelling.barrier_variable() == variable)
    }
}

/// Whether a variable is a priority or barrier variable.
pub fn is_variable(name: &str) -> bool {
    Spelling::of_priority(name).is_some() || Spelling::of_barrier(name).is_some()
}

/// The name of the ConfigMap of a pod.
pub fn barrier_name(pod: &str) -> String {
    format!("{pod}{BARRIER_SUFFIX}")
}

/// The launch order settings of a pod, as its author wrote them.
#[derive(Clone, Debug, Default)]
pub struct WrittenPod<'a> {
    /// Empty if the API server has not generated it yet.
    pub name: &'a str,
    /// The values of the label and of the annotation [`ORDERED_KEY`].
    pub ordered: Vec<&'a str>,
    /// Whether our webhook may have reviewed the pod before: it has our gate, or it names its node and so cannot have a gate.
    pub reviewed: bool,
    pub containers: Vec<WrittenContainer<'a>>,
    /// The init containers and native sidecars that have priority or barrier variables.
    pub init_containers: Vec<WrittenContainer<'a>>,
    /// Number of further containers that are not in `containers`. They have no such variables.
    pub plain_containers: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrittenContainer<'a> {
    pub name: &'a str,
    /// The priority and barrier variables of the container ([`is_variable`]).
    pub variables: Vec<Variable<'a>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable<'a> {
    pub name: &'a str,
    pub value: Value<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    Text(&'a str),
    /// A required key of a ConfigMap: the container does not start without it.
    ConfigMapKey {
        config_map: &'a str,
        key: &'a str,
    },
    /// Any other `valueFrom`.
    Other,
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(text) => write!(f, "\"{text}\""),
            Value::ConfigMapKey { config_map, key } => {
                write!(f, "the key \"{key}\" of the ConfigMap \"{config_map}\"")
            }
            Value::Other => f.write_str("a valueFrom"),
        }
    }
}

/// The launch order of a pod's containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchOrder {
    pub spelling: Spelling,
    /// The priority of each container, in the order of `spec.containers`.
    pub priorities: Vec<Priority>,
}

/// The result of reading a valid pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// `None` if all containers have the same priority.
    pub order: Option<LaunchOrder>,
    /// Settings that are ignored, with the reason.
    pub warnings: Vec<String>,
}

/// Why a pod is rejected: the index of the container, and a message with the value found and the value expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub container: Option<usize>,
    pub message: String,
}

impl Problem {
    fn in_container(index: usize, container: &WrittenContainer<'_>, message: impl fmt::Display) -> Problem {
        Problem { container: Some(index), message: format!("container \"{}\": {message}", container.name) }
    }
}

/// Reads the launch order of a pod. An invalid setting is an error even if all containers have the same priority.
pub fn read(pod: &WrittenPod<'_>) -> Result<Reading, Problem> {
    let mut warnings = ignored(pod);
    no_barriers_of_init_containers(pod)?;
    let written = written_priorities(pod)?;
    let spelling = one_spelling(pod)?;
    let priorities = match pod.ordered.contains(&ORDERED) {
        true => {
            if written.iter().any(Option::is_some) {
                let variable = spelling.priority_variable();
                warnings.push(format!(
                    "{ORDERED_KEY}: {ORDERED} takes precedence; the values of {variable} are ignored"
                ));
            }
            (0..).map(|place: Priority| -place).take(written.len()).collect()
        }
        false => written.into_iter().map(|priority| priority.unwrap_or(0)).collect::<Vec<_>>(),
    };
    let order = LaunchOrder { spelling, priorities };
    own_barriers(pod, &order)?;
    let plain = (pod.plain_containers > 0).then_some(&0);
    let mut all = order.priorities.iter().chain(plain);
    let first = all.next();
    if all.all(|priority| Some(priority) == first) {
        return Ok(Reading { order: None, warnings });
    }
    let number = pod.containers.len() + pod.plain_containers;
    if number > MOST_CONTAINERS {
        let message = format!("the launch order has {number} containers; expected at most {MOST_CONTAINERS}");
        return Err(Problem { container: None, message });
    }
    if pod.name.len() > LONGEST_POD_NAME {
        let length = pod.name.len();
        let message = format!(
            "metadata.name has {length} characters; expected at most {LONGEST_POD_NAME}, because launch order needs \
             a ConfigMap named <pod>{BARRIER_SUFFIX}"
        );
        return Err(Problem { container: None, message });
    }
    Ok(Reading { order: Some(order), warnings })
}

/// Returns a warning for each setting that has no effect.
fn ignored(pod: &WrittenPod<'_>) -> Vec<String> {
    let unknown = pod.ordered.iter().filter(|value| **value != ORDERED);
    let unknown =
        unknown.map(|value| format!("{ORDERED_KEY}: \"{value}\" has no effect; expected \"{ORDERED}\""));
    let init = pod.init_containers.iter().map(|container| {
        let name = container.name;
        format!("container \"{name}\": the priority of an init container has no effect; init containers always start one after another")
    });
    unknown.chain(init).collect()
}

/// Rejects barrier variables on init containers. An init container runs before every rank, so its key would never be written.
fn no_barriers_of_init_containers(pod: &WrittenPod<'_>) -> Result<(), Problem> {
    let found = pod.init_containers.iter().find_map(|container| Some((container, barrier_of(container)?)));
    let Some((container, Variable { name, value })) = found else { return Ok(()) };
    let message =
        format!("container \"{}\": {name} is {value}; expected none on an init container", container.name);
    Err(Problem { container: None, message })
}

/// Returns the priority of each container; `None` for a container without a priority variable.
fn written_priorities(pod: &WrittenPod<'_>) -> Result<Vec<Option<Priority>>, Problem> {
    let containers = pod.containers.iter().enumerate();
    let priorities = containers.map(|(index, container)| {
        for variable in container.variables.iter() {
            let number = container.variables.iter().filter(|other| other.name == variable.name).count();
            if number > 1 {
                let message = format!("{} is set {number} times; expected once", variable.name);
                return Err(Problem::in_container(index, container, message));
            }
        }
        let mut written =
            container.variables.iter().filter(|variable| Spelling::of_priority(variable.name).is_some());
        let Some(Variable { name, value }) = written.next() else { return Ok(None) };
        let priority = match value {
            Value::Text(text) => parse_priority(text).ok(),
            Value::ConfigMapKey { .. } | Value::Other => None,
        };
        let expected = format!("expected an integer from {LOWEST} to {HIGHEST}");
        let problem = || Problem::in_container(index, container, format!("{name} is {value}; {expected}"));
        priority.ok_or_else(problem).map(Some)
    });
    priorities.collect()
}

fn parse_priority(text: &str) -> Result<Priority, IntErrorKind> {
    let priority: Priority = text.parse().map_err(|error: std::num::ParseIntError| *error.kind())?;
    if priority < LOWEST { Err(IntErrorKind::NegOverflow) } else { Ok(priority) }
}

/// Returns the spelling of all variables of a pod; [`Spelling::Proposed`] if it has none.
fn one_spelling(pod: &WrittenPod<'_>) -> Result<Spelling, Problem> {
    let mut found: Option<(Spelling, &str)> = None;
    for (index, container) in pod.containers.iter().enumerate() {
        for Variable { name, .. } in &container.variables {
            let Some(spelling) = Spelling::of_priority(name).or_else(|| Spelling::of_barrier(name)) else {
                continue;
            };
            match found {
                Some((other, before)) if other != spelling => {
                    let message = format!("{name} and {before} are both set; expected one spelling per pod");
                    return Err(Problem::in_container(index, container, message));
                }
                _ => found = Some((spelling, name)),
            }
        }
    }
    Ok(found.map_or(Spelling::Proposed, |(spelling, _)| spelling))
}

/// Rejects existing barrier variables that differ from those that the webhook would add. After an earlier review by our webhook,
/// the key may be outdated, because another webhook may have inserted a container since.
fn own_barriers(pod: &WrittenPod<'_>, order: &LaunchOrder) -> Result<(), Problem> {
    for ((index, container), priority) in pod.containers.iter().enumerate().zip(&order.priorities) {
        let Some(Variable { name, value }) = barrier_of(container) else { continue };
        let (config_map, expected) = (barrier_name(pod.name), order.spelling.key(*priority));
        let ours = match value {
            Value::ConfigMapKey { config_map: of, key } if *of == config_map && !pod.name.is_empty() => {
                *key == expected || pod.reviewed && order.spelling.priority_of_key(key).is_some()
            }
            _ => false,
        };
        if !ours {
            let pod = if pod.name.is_empty() { "<pod>" } else { pod.name };
            let message = format!(
                "{name} is {value}; expected none, or the key \"{expected}\" of the ConfigMap \"{}\"",
                barrier_name(pod)
            );
            return Err(Problem::in_container(index, container, message));
        }
    }
    Ok(())
}

/// Returns the barrier variable of a container, if it has one.
pub fn barrier_of<'c, 'a>(container: &'c WrittenContainer<'a>) -> Option<&'c Variable<'a>> {
    container.variables.iter().find(|variable| Spelling::of_barrier(variable.name).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROPOSED: &str = "KRUISE_CONTAINER_LAUNCH_PRIORITY";
    const SHIPPED: &str = "KRUISE_CONTAINER_PRIORITY";
    const BARRIER: &str = "KRUISE_CONTAINER_LAUNCH_BARRIER";

    fn container<'a>(name: &'a str, variables: &[(&'a str, Value<'a>)]) -> WrittenContainer<'a> {
        let variables = variables.iter().map(|(name, value)| Variable { name, value: *value });
        WrittenContainer { name, variables: variables.collect() }
    }

    fn pod<'a>(containers: &[WrittenContainer<'a>]) -> WrittenPod<'a> {
        WrittenPod { name: "web", containers: containers.to_vec(), ..WrittenPod::default() }
    }

    fn priorities(pod: &WrittenPod<'_>) -> Option<Vec<Priority>> {
        read(pod).expect("it is valid").order.map(|order| order.priorities)
    }

    fn refusal(pod: &WrittenPod<'_>) -> String {
        read(pod).expect_err("it is not valid").message
    }

    #[test]
    fn higher_starts_first_and_who_says_nothing_has_zero() {
        let two =
            |value| pod(&[container("main", &[]), container("side", &[(PROPOSED, Value::Text(value))])]);
        for (value, priority) in
            [("1", 1), ("-1", -1), ("+7", 7), ("2147483647", HIGHEST), ("-2147483647", LOWEST)]
        {
            assert_eq!(priorities(&two(value)), Some(vec![0, priority]), "{value}");
        }
        assert_eq!(priorities(&two("0")), None, "nothing to order");
        assert_eq!(priorities(&pod(&[container("side", &[(PROPOSED, Value::Text("5"))])])), None, "alone");
        let shipped = pod(&[container("main", &[(SHIPPED, Value::Text("3"))]), container("side", &[])]);
        let order = read(&shipped).expect("valid").order.expect("two ranks");
        assert_eq!((order.spelling, order.spelling.key(3)), (Spelling::Shipped, "p_3".into()));
    }

    #[test]
    fn what_is_no_priority_is_refused_even_alone() {
        for value in ["", "abc", "1.5", "2147483648", "-2147483648", " 1", "1 ", "0x1", "--1"] {
            let message = refusal(&pod(&[container("side", &[(PROPOSED, Value::Text(value))])]));
            let expected = format!(
                "container \"side\": {PROPOSED} is \"{value}\"; expected an integer from -2147483647 to 2147483647"
            );
            assert_eq!(message, expected);
        }
        let from = pod(&[container("side", &[(SHIPPED, Value::Other)])]);
        assert!(refusal(&from).contains("KRUISE_CONTAINER_PRIORITY is a valueFrom; expected an integer"));
        let twice = [(PROPOSED, Value::Text("1")), (PROPOSED, Value::Text("1"))];
        assert_eq!(
            refusal(&pod(&[container("side", &twice)])),
            format!("container \"side\": {PROPOSED} is set 2 times; expected once")
        );
        let mixed = pod(&[
            container("main", &[(SHIPPED, Value::Text("1"))]),
            container("side", &[(PROPOSED, Value::Text("2"))]),
        ]);
        assert_eq!(
            refusal(&mixed),
            format!(
                "container \"side\": {PROPOSED} and {SHIPPED} are both set; expected one spelling per pod"
            )
        );
    }

    #[test]
    fn ordered_counts_by_position_and_more_than_priorities() {
        let mut ordered = pod(&[container("a", &[]), container("b", &[]), container("c", &[])]);
        ordered.ordered = vec![ORDERED];
        assert_eq!(priorities(&ordered), Some(vec![0, -1, -2]));
        ordered.containers[2] = container("c", &[(PROPOSED, Value::Text("9"))]);
        let reading = read(&ordered).expect("valid");
        assert_eq!(reading.order.map(|order| order.priorities), Some(vec![0, -1, -2]));
        assert!(reading.warnings[0].contains("Ordered takes precedence"), "{:?}", reading.warnings);
        ordered.ordered = vec!["ordered"];
        let reading = read(&ordered).expect("valid");
        assert_eq!(reading.order.map(|order| order.priorities), Some(vec![0, 0, 9]));
        assert!(reading.warnings[0].contains("\"ordered\" has no effect"), "{:?}", reading.warnings);
        ordered.init_containers = vec![container("setup", &[(PROPOSED, Value::Text("x"))])];
        assert!(
            read(&ordered).expect("ignored").warnings[1]
                .starts_with("container \"setup\": the priority of an init")
        );
    }

    #[test]
    fn barriers_that_are_there_must_be_ours() {
        let with = |value| {
            pod(&[container("main", &[(BARRIER, value)]), container("side", &[(PROPOSED, Value::Text("1"))])])
        };
        let key = |config_map, key| Value::ConfigMapKey { config_map, key };
        assert_eq!(priorities(&with(key("web-barrier", "c_0"))), Some(vec![0, 1]));
        for value in [
            Value::Text("1"),
            Value::Other,
            key("other", "c_0"),
            key("web-barrier", "c_1"),
            key("web-barrier", "p_0"),
        ] {
            let message = refusal(&with(value));
            assert!(
                message.ends_with("expected none, or the key \"c_0\" of the ConfigMap \"web-barrier\""),
                "{message}"
            );
        }
        let mut reviewed = with(key("web-barrier", "c_1"));
        reviewed.reviewed = true;
        assert_eq!(priorities(&reviewed), Some(vec![0, 1]), "from an earlier review");
        reviewed.name = "";
        assert!(refusal(&reviewed).contains("<pod>-barrier"), "the name is not generated yet");
    }

    #[test]
    fn sizes_are_limited_only_where_something_is_ordered() {
        let (first, rest) = (container("first", &[(PROPOSED, Value::Text("1"))]), container("rest", &[]));
        let mut many = vec![rest.clone(); 64];
        assert_eq!(priorities(&pod(&[many.clone(), vec![rest.clone()]].concat())), None);
        many[0] = first.clone();
        assert_eq!(priorities(&pod(&many)).map(|all| all.len()), Some(64));
        many.push(rest.clone());
        assert_eq!(refusal(&pod(&many)), "the launch order has 65 containers; expected at most 64");
        let (fits, long) = ("x".repeat(245), "x".repeat(246));
        let named = |name| WrittenPod { name, ..pod(&[first.clone(), rest.clone()]) };
        assert!(priorities(&named(&fits)).is_some());
        assert!(refusal(&named(&long)).starts_with("metadata.name has 246 characters; expected at most 245"));
        let alone = WrittenPod { name: &long, ..pod(std::slice::from_ref(&first)) };
        assert_eq!(priorities(&alone), None);
    }

    #[test]
    fn keys_are_written_in_one_way() {
        for (key, priority) in [
            ("c_0", Some(0)),
            ("c_-5", Some(-5)),
            ("c_+5", None),
            ("c_05", None),
            ("c_", None),
            ("p_1", None),
        ] {
            assert_eq!(Spelling::Proposed.priority_of_key(key), priority, "{key}");
        }
    }
}
