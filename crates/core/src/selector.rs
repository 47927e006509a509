//! Label selectors: all four operators, with the semantics of the API server.

use crate::labels::Labels;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operator {
    In(Vec<Arc<str>>),
    NotIn(Vec<Arc<str>>),
    Exists,
    DoesNotExist,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    pub key: Arc<str>,
    pub operator: Operator,
}

/// All requirements must hold. An empty selector would match every pod; the API rejects it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    pub requirements: Vec<Requirement>,
}

impl Selector {
    pub fn matches(&self, labels: &Labels) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(labels))
    }

    /// The label keys that the selector uses, without duplicates.
    pub fn keys(&self) -> BTreeSet<&Arc<str>> {
        self.requirements.iter().map(|requirement| &requirement.key).collect()
    }

    /// The requirements that list the wanted values. Members are looked up by one of them.
    pub fn equalities(&self) -> impl Iterator<Item = (&Arc<str>, &[Arc<str>])> {
        self.requirements.iter().filter_map(|requirement| match &requirement.operator {
            Operator::In(values) => Some((&requirement.key, values.as_slice())),
            Operator::NotIn(_) | Operator::Exists | Operator::DoesNotExist => None,
        })
    }
}

impl Requirement {
    fn matches(&self, labels: &Labels) -> bool {
        self.operator.holds(labels.get(&self.key))
    }
}

impl Operator {
    /// Whether the operator holds for the value of a label; `None` if the label is missing.
    pub fn holds(&self, value: Option<&Arc<str>>) -> bool {
        match self {
            Operator::In(values) => value.is_some_and(|value| values.contains(value)),
            // As in Kubernetes: a missing label is not in the list.
            Operator::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }

    /// Writes a requirement on a label, such as `tier=db`, in the syntax of `kubectl get -l`.
    pub(crate) fn write(&self, key: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operator::In(values) if values.len() == 1 => write!(f, "{key}={}", values[0]),
            Operator::In(values) => write!(f, "{key} in ({})", values.join(",")),
            Operator::NotIn(values) => write!(f, "{key} notin ({})", values.join(",")),
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
        }
    }
}

/// Prints the syntax of `kubectl get pods -l`, so that users can paste it from a message.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, Requirement { key, operator }) in self.requirements.iter().enumerate() {
            if position > 0 {
                f.write_str(",")?;
            }
            operator.write(key, f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(key: &str, operator: Operator) -> Selector {
        Selector { requirements: vec![Requirement { key: key.into(), operator }] }
    }

    #[test]
    fn the_four_operators() {
        let labels: Labels = [("tier", "db"), ("zone", "a")].into_iter().collect();
        let values = |list: &[&str]| list.iter().map(|v| Arc::from(*v)).collect::<Vec<Arc<str>>>();
        for (selector, expected) in [
            (selector("tier", Operator::In(values(&["db", "cache"]))), true),
            (selector("tier", Operator::In(values(&["web"]))), false),
            (selector("absent", Operator::In(values(&["web"]))), false),
            (selector("tier", Operator::NotIn(values(&["web"]))), true),
            (selector("tier", Operator::NotIn(values(&["db"]))), false),
            (selector("absent", Operator::NotIn(values(&["db"]))), true),
            (selector("tier", Operator::Exists), true),
            (selector("absent", Operator::Exists), false),
            (selector("tier", Operator::DoesNotExist), false),
            (selector("absent", Operator::DoesNotExist), true),
        ] {
            assert_eq!(selector.matches(&labels), expected, "{selector}");
        }
    }

    #[test]
    fn printed_as_kubectl_takes_it() {
        let both = Selector {
            requirements: vec![
                Requirement { key: "app".into(), operator: Operator::In(vec!["web".into()]) },
                Requirement { key: "zone".into(), operator: Operator::NotIn(vec!["a".into(), "b".into()]) },
                Requirement { key: "old".into(), operator: Operator::DoesNotExist },
                Requirement { key: "new".into(), operator: Operator::Exists },
                Requirement { key: "t".into(), operator: Operator::In(vec!["x".into(), "y".into()]) },
            ],
        };
        assert_eq!(both.to_string(), "app=web,zone notin (a,b),!old,new,t in (x,y)");
    }
}
