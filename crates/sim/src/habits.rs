//! How the programs in the containers behave, where nobody says it: the things that a cluster cannot know about them.
//!
//! What a pod says about itself by annotations wins; see [`crate::actors::kubelet`].

use crate::kinds::Kind;
use crate::plan::Selector;
use crate::server::selectors;
use jiff::SignedDuration;
use serde_json::Value;

const SECOND: SignedDuration = SignedDuration::from_secs(1);

#[derive(Clone, Debug)]
pub struct Habits {
    /// From its turn until a container runs.
    pub start: SignedDuration,
    /// How long an init container runs.
    pub init: SignedDuration,
    /// How long after its pod is ready the work of a Job is done.
    pub job: SignedDuration,
    /// Whether pods that nobody restarts and nobody asks whether they are ready end like those of Jobs. People write such
    /// pods for what is to be done once; kwok lets them run for ever.
    pub unprobed_pods_end: bool,
    /// How long a container takes to end when it is asked to.
    pub stop: SignedDuration,
    /// Whether nodes renew their leases. A write per node in ten seconds, for nothing that most want to see.
    pub heartbeats: bool,
    /// What is different for some pods. Where several rules say something, the first one counts.
    pub rules: Vec<Rule>,
}

impl Default for Habits {
    fn default() -> Habits {
        Habits {
            start: SECOND,
            init: SECOND,
            job: SECOND,
            unprobed_pods_end: false,
            stop: SECOND,
            heartbeats: false,
            rules: Vec::new(),
        }
    }
}

/// How some pods behave.
#[derive(Clone, Debug, Default)]
pub struct Rule {
    pub pods: Which,
    /// From the binding until the containers run.
    pub start_after: Option<SignedDuration>,
    /// From then until the application can answer.
    pub ready_after: Option<SignedDuration>,
    /// Runs, and is never ready.
    pub never_ready: bool,
    /// The containers exit with 0 this long after their start; what follows is up to the restart policy.
    pub complete_after: Option<SignedDuration>,
    /// The containers exit with 1 this long after their start; what follows is up to the restart policy.
    pub fail_after: Option<SignedDuration>,
    /// How often they exit in this way before they run on; every time, if it is not said.
    pub times: Option<u32>,
}

/// Which pods a rule is about.
#[derive(Clone, Debug, Default)]
pub enum Which {
    #[default]
    All,
    /// By name; `*` is any text.
    Named { namespace: Option<String>, glob: String },
    /// By a LabelSelector as it stands in a workload.
    Labelled { namespace: Option<String>, selector: Value },
    /// As a plan says.
    Chosen(Selector),
}

impl Which {
    pub fn includes(&self, pod: &Value) -> bool {
        let metadata = &pod["metadata"];
        let within = |namespace: &Option<String>| {
            namespace.as_deref().is_none_or(|namespace| metadata["namespace"] == namespace)
        };
        match self {
            Which::All => true,
            Which::Named { namespace, glob } => {
                within(namespace) && fits(glob, metadata["name"].as_str().unwrap_or_default())
            }
            Which::Labelled { namespace, selector } => {
                within(namespace) && selectors::selects(selector, &metadata["labels"])
            }
            Which::Chosen(selector) => {
                let text = |value: &'static str| metadata[value].as_str().unwrap_or_default();
                let label = |key: &str| metadata["labels"][key].as_str();
                let owners = owners(metadata);
                let owners: Vec<(Kind, &str)> =
                    owners.iter().map(|(kind, name)| (*kind, name.as_str())).collect();
                selector.matches(text("namespace"), text("name"), label, &owners)
            }
        }
    }
}

/// Who owns a pod, and who owns that: a ReplicaSet and a Job are named after the Deployment and the CronJob that made
/// them, with an end of their own.
fn owners(metadata: &Value) -> Vec<(Kind, String)> {
    let mut all = Vec::new();
    for reference in metadata["ownerReferences"].as_array().into_iter().flatten() {
        let text = |field: &str| reference[field].as_str().unwrap_or_default();
        let Some(kind) = Kind::named(text("apiVersion"), text("kind")) else { continue };
        let made_by = match kind {
            Kind::ReplicaSet => Some(Kind::Deployment),
            Kind::Job => Some(Kind::CronJob),
            _ => None,
        };
        let parent = made_by.zip(text("name").rsplit_once('-'));
        all.extend(parent.map(|(kind, (name, _))| (kind, name.to_owned())));
        all.push((kind, text("name").to_owned()));
    }
    all
}

/// Whether a text is as the glob says, `*` being any text.
pub fn fits(glob: &str, text: &str) -> bool {
    let mut parts = glob.split('*');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn globs() {
        let yes = [
            ("web", "web"),
            ("*", ""),
            ("*", "x"),
            ("web-*", "web-1"),
            ("*-db-*", "a-db-0"),
            ("a*b*c", "abbc"),
        ];
        let no = [("web", "web-1"), ("web-*", "we"), ("a*b*c", "acb"), ("ab*b", "ab"), ("", "x")];
        assert!(yes.iter().all(|(glob, text)| fits(glob, text)));
        for (glob, text) in no {
            assert!(!fits(glob, text), "{glob} {text}");
        }
    }

    #[test]
    fn rules_choose_by_name_or_labels() {
        let pod = json!({ "metadata": { "namespace": "shop", "name": "web-0", "labels": { "app": "web" } } });
        let named = |namespace: Option<&str>| Which::Named {
            namespace: namespace.map(str::to_owned),
            glob: "web-*".to_owned(),
        };
        assert!(named(None).includes(&pod) && named(Some("shop")).includes(&pod));
        assert!(!named(Some("other")).includes(&pod));
        let labelled = |app: &str| Which::Labelled {
            namespace: None,
            selector: json!({ "matchLabels": { "app": app } }),
        };
        assert!(labelled("web").includes(&pod) && !labelled("db").includes(&pod));
    }
}
