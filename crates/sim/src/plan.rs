//! What to simulate: objects, nodes and user actions.

use crate::kinds::Kind;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The objects in the given order, with lists unpacked.
    pub objects: Vec<Given>,
    /// If empty: the Nodes among the objects, or [`USUAL_NODES`] nodes if the objects contain none.
    pub nodes: Vec<NodePool>,
    /// How long pods take from their start until ready. The last rule that matches a pod counts.
    pub ready_after: Vec<ReadyAfter>,
    /// Pods that fail. The last rule that matches a pod counts.
    pub fail: Vec<Fail>,
    /// User actions in order of time; actions at the same time keep the given order.
    pub at: Vec<At>,
    pub seed: u64,
    /// Time limit. A run that does not end by then is reported as unfinished.
    pub until: Duration,
}

/// Default number of nodes: enough for usual anti-affinity rules.
pub const USUAL_NODES: usize = 3;

/// An object and its source.
#[derive(Clone, Debug, PartialEq)]
pub struct Given {
    pub value: Value,
    pub origin: Origin,
}

/// File and line of an object, printed in the form that editors and terminals recognise: `shop.yaml:12`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The file name as given, or `standard input`.
    pub file: String,
    /// The first line of the object, counted from 1.
    pub line: usize,
}

/// Identical nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePool {
    pub count: usize,
    /// Valid quantities such as `cpu: 4`, `memory: 16Gi`. The simulator chooses defaults for the others.
    pub capacity: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyAfter {
    pub pods: Selector,
    /// Counted from the start of the pod's containers.
    pub after: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fail {
    pub pods: Selector,
    /// Counted from the start of the pod's containers; `None` means at their start.
    pub after: Option<Duration>,
}

/// Selects pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// `None` selects pods of all namespaces.
    pub namespace: Option<Pattern>,
    pub by: SelectBy,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectBy {
    /// Pods with all of these labels.
    Labels(BTreeMap<String, String>),
    /// `pod=web-*`
    Name(Pattern),
    /// Pods of a workload such as `deployment/web`, including those of its ReplicaSets and Jobs.
    Workload(Kind, Pattern),
}

/// A name where `*` stands for any number of characters, including none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(pub String);

#[derive(Clone, Debug, PartialEq)]
pub struct At {
    pub time: Duration,
    pub action: Action,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    Scale {
        target: ActionTarget,
        replicas: u32,
    },
    Delete {
        target: ActionTarget,
    },
    Apply {
        objects: Vec<Given>,
    },
    Cordon {
        node: String,
    },
    /// Cordons the node and evicts its pods.
    Drain {
        node: String,
    },
    AddNode {
        name: String,
    },
}

/// One object, as the user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionTarget {
    pub kind: Kind,
    /// `None` means the only namespace with an object of this name; several such namespaces are an error.
    pub namespace: Option<String>,
    pub name: String,
}

impl Pattern {
    pub fn matches(&self, name: &str) -> bool {
        let mut parts = self.0.split('*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = name.strip_prefix(first) else { return false };
        let Some(last) = parts.next_back() else { return rest.is_empty() };
        // The earliest match of each part leaves the most text for the following parts.
        for part in parts {
            match rest.find(part) {
                Some(at) => rest = &rest[at + part.len()..],
                None => return false,
            }
        }
        rest.ends_with(last)
    }
}

impl Selector {
    /// Pods by name, in every namespace.
    pub fn named(pattern: &str) -> Selector {
        Selector { namespace: None, by: SelectBy::Name(Pattern(pattern.into())) }
    }

    /// Whether the selector matches a pod, given its labels and all of its direct and indirect owners.
    pub fn matches<'a>(
        &self,
        namespace: &str,
        name: &str,
        label: impl Fn(&str) -> Option<&'a str>,
        owners: &[(Kind, &str)],
    ) -> bool {
        let Selector { namespace: wanted, by } = self;
        if wanted.as_ref().is_some_and(|wanted| !wanted.matches(namespace)) {
            return false;
        }
        match by {
            SelectBy::Labels(labels) => labels.iter().all(|(key, value)| label(key) == Some(value)),
            SelectBy::Name(pattern) => pattern.matches(name),
            SelectBy::Workload(kind, pattern) => {
                owners.iter().any(|(owner, name)| owner == kind && pattern.matches(name))
            }
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `deployment/web`, or `deployment/web in namespace shop` where a namespace was given.
impl fmt::Display for ActionTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.info().name.to_lowercase(), self.name)?;
        match &self.namespace {
            Some(namespace) => write!(f, " in namespace {namespace}"),
            None => Ok(()),
        }
    }
}

/// Printed as the user typed it, for messages about a selector that matches no pod.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.by {
            SelectBy::Labels(labels) => {
                let pairs: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
                f.write_str(&pairs.join(","))?;
            }
            SelectBy::Name(pattern) => write!(f, "pod={pattern}")?,
            SelectBy::Workload(kind, pattern) => {
                write!(f, "{}/{pattern}", kind.info().name.to_lowercase())?;
            }
        }
        match &self.namespace {
            Some(namespace) => write!(f, ",namespace={namespace}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let fits = |pattern: &str, name: &str| Pattern(pattern.into()).matches(name);
        for (pattern, name) in [
            ("web", "web"),
            ("*", ""),
            ("*", "web"),
            ("web-*", "web-"),
            ("web-*", "web-7d4b9c-x2x1z"),
            ("*-0", "postgres-0"),
            ("a*b*c", "a-b-b-c"),
            ("a*c", "ac"),
            ("a**c", "abc"),
        ] {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("web", "web-1"),
            ("web", "a-web"),
            ("", "web"),
            ("web-*", "web"),
            ("*-0", "postgres-01"),
            ("ab*ba", "aba"),
            ("a*b*c", "a-c-b"),
        ] {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn pods_are_meant_by_labels_name_or_owner() {
        let pod = |by: SelectBy, namespace: Option<&str>| {
            let selector = Selector { namespace: namespace.map(|name| Pattern(name.into())), by };
            let label = |key: &str| (key == "app").then_some("db");
            let owners = [(Kind::ReplicaSet, "web-7d4b9c"), (Kind::Deployment, "web")];
            selector.matches("shop", "web-7d4b9c-x2x1z", label, &owners)
        };
        let labels = |pairs: &[(&str, &str)]| {
            SelectBy::Labels(pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect())
        };
        let name = |pattern: &str| Pattern(pattern.into());
        assert!(pod(labels(&[("app", "db")]), None));
        assert!(!pod(labels(&[("app", "db"), ("tier", "1")]), None));
        assert!(pod(SelectBy::Name(name("web-*")), Some("shop")));
        assert!(!pod(SelectBy::Name(name("web-*")), Some("other")));
        assert!(pod(SelectBy::Workload(Kind::Deployment, name("web")), None));
        assert!(!pod(SelectBy::Workload(Kind::StatefulSet, name("web")), None));
    }

    #[test]
    fn printed_as_typed() {
        let target =
            ActionTarget { kind: Kind::Deployment, namespace: Some("shop".into()), name: "web".into() };
        assert_eq!(target.to_string(), "deployment/web in namespace shop");
        let by = SelectBy::Labels([("app".into(), "db".into()), ("tier".into(), "1".into())].into());
        let selector = Selector { namespace: Some(Pattern("shop".into())), by };
        assert_eq!(selector.to_string(), "app=db,tier=1,namespace=shop");
        assert_eq!(Origin { file: "shop.yaml".into(), line: 12 }.to_string(), "shop.yaml:12");
    }
}
