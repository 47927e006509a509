//! The manifests of `config/`, embedded when this program is built.

use crate::outcome::Outcome;
use crate::output;
use crate::similar::suggestion;
use anyhow::{Result, anyhow, bail};
use clap::ValueEnum;
use rollcall_api::names;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

/// A test of the api crate keeps these definitions equal to the Rust types.
const CRD: &str = include_str!("../../../../config/crd/podsequence-crd.yaml");
const CRD_RESERVATION: &str = include_str!("../../../../config/crd/korder-crd.yaml");
const RBAC_LITE: &str = include_str!("../../../../config/rbac/rbac-lite.yaml");
const RBAC_FULL: &str = include_str!("../../../../config/rbac/rbac.yaml");
const POLICIES: [&str; 3] = [
    include_str!("../../../../config/admission/pod-gates.yaml"),
    include_str!("../../../../config/admission/node-unseen.yaml"),
    include_str!("../../../../config/admission/ticket-gates.yaml"),
];
const WEBHOOK: [&str; 1] = [include_str!("../../../../config/webhook/webhook.yaml")];
const LAUNCH: &str = include_str!("../../../../config/webhook/launch.yaml");

/// The image that the manifests name; `make docker-build` builds it.
pub const IMAGE: &str = "pod-sequence-controller:latest";

/// Separator of YAML documents.
const BETWEEN: &str = "\n---\n";

/// Maximum length of a namespace name (a DNS label).
const NAMESPACE_LENGTH: usize = 63;

/// Print the manifests that install the controller
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  rollcall install | kubectl apply -f -
  rollcall install --mode full --admission policies | kubectl apply -f -
  rollcall install --only Deployment/pod-sequence-controller | kubectl apply -f -")]
pub struct Arguments {
    /// Which parts to install
    #[arg(long, value_enum, default_value_t)]
    mode: Mode,
    /// In Full mode: how pods get their gates at creation, if their templates have none
    #[arg(long, value_enum)]
    admission: Option<Admission>,
    /// Image of the controller
    #[arg(long, value_name = "IMAGE", default_value = IMAGE)]
    image: String,
    /// Namespace of the controller
    #[arg(long, value_name = "NAME", default_value = names::OWN_NAMESPACE, value_parser = namespace)]
    namespace: String,
    /// Print only this object, or all objects of this kind; repeatable
    #[arg(long, value_name = "KIND[/NAME]")]
    only: Vec<String>,
}

/// The features of the controller, which determine the permissions that it needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Mode {
    /// Cluster scope only: no admission, no certificates, no permission on nodes
    #[default]
    Lite,
    /// Both scopes, reservations and launch order; watches and marks nodes
    Full,
}

/// The component that mutates pods and nodes when they are created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Admission {
    /// The API server itself: Kubernetes 1.36 and later
    Policies,
    /// A webhook that the controller serves: any version
    Webhook,
}

impl Admission {
    fn files(self) -> &'static [&'static str] {
        match self {
            Admission::Policies => &POLICIES,
            Admission::Webhook => &WEBHOOK,
        }
    }
}

impl Mode {
    /// Files with the custom resource definitions of this mode and the permissions of the controller.
    fn files(self) -> &'static [&'static str] {
        match self {
            Mode::Lite => &[CRD, RBAC_LITE],
            Mode::Full => &[CRD, CRD_RESERVATION, RBAC_FULL],
        }
    }
}

pub fn run(arguments: &Arguments) -> Result<Outcome> {
    let Arguments { mode, admission, image, namespace, only } = arguments;
    if let (Mode::Lite, Some(_)) = (mode, admission) {
        bail!("--admission: Lite mode has no admission; add --mode full");
    }
    let all = manifests(*mode, *admission, image, namespace);
    output::document(&if only.is_empty() { all } else { chosen(&all, only)? })?;
    Ok(Outcome::Done)
}

/// Selects the documents that `only` names, in their original order.
fn chosen(all: &str, only: &[String]) -> Result<String> {
    let documents: Vec<&str> = all.split(BETWEEN).collect();
    let ids: Vec<String> = documents.iter().map(|text| id(&read(text))).collect();
    let is = |id: &str, wanted: &str| id == wanted || id.split('/').next() == Some(wanted);
    for wanted in only {
        let known = ids.iter().map(String::as_str);
        if !ids.iter().any(|id| is(id, wanted)) {
            return Err(anyhow!("--only: no {wanted} in these manifests{}", suggestion(wanted, known)));
        }
    }
    let named = |id: &str| only.iter().any(|wanted| is(id, wanted));
    let kept = documents.iter().zip(&ids).filter(|(_, id)| named(id)).map(|(text, _)| *text);
    Ok(kept.collect::<Vec<&str>>().join(BETWEEN).trim_end().to_owned() + "\n")
}

/// Returns the identity of an object as `KIND/NAME`.
pub fn id(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    format!("{}/{}", text("/kind"), text("/metadata/name"))
}

/// A cache of parsed manifests: parsing takes 50 ms, and `doctor` needs the objects a dozen times.
struct Kept<K, V>(Mutex<BTreeMap<K, V>>);

impl<K: Ord, V: Clone> Kept<K, V> {
    fn get(&self, key: K, make: impl FnOnce(&K) -> V) -> V {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = kept.get(&key) {
            return value.clone();
        }
        let value = make(&key);
        kept.insert(key, value.clone());
        value
    }
}

/// Returns the objects that `rollcall install` prints.
pub fn objects(mode: Mode, admission: Option<Admission>, namespace: &str) -> Vec<Value> {
    static OBJECTS: Kept<(Mode, Option<Admission>, String), Vec<Value>> = Kept(Mutex::new(BTreeMap::new()));
    OBJECTS.get((mode, admission, namespace.to_owned()), |(mode, admission, namespace)| {
        manifests(*mode, *admission, IMAGE, namespace).split(BETWEEN).map(read).collect()
    })
}

/// Returns the objects that one kind of admission adds to those of Full mode.
pub fn objects_of(admission: Admission, namespace: &str) -> Vec<Value> {
    let without: BTreeSet<String> = objects(Mode::Full, None, namespace).iter().map(id).collect();
    let with = objects(Mode::Full, Some(admission), namespace).into_iter();
    with.filter(|object| !without.contains(&id(object))).collect()
}

/// Returns the ids of the objects that only launch order needs.
pub fn of_launch_alone(admission: Option<Admission>) -> Vec<String> {
    static IDS: Kept<Option<Admission>, Vec<String>> = Kept(Mutex::new(BTreeMap::new()));
    let ids = |file: &str| -> BTreeSet<String> { file.split(BETWEEN).map(|text| id(&read(text))).collect() };
    IDS.get(admission, |admission| {
        let shared: BTreeSet<String> =
            admission.iter().flat_map(|chosen| chosen.files()).flat_map(|file| ids(file)).collect();
        ids(LAUNCH).difference(&shared).cloned().collect()
    })
}

fn read(document: &str) -> Value {
    serde_saphyr::from_str(document).expect("the manifests of this program are YAML: tests apply them")
}

fn manifests(mode: Mode, admission: Option<Admission>, image: &str, namespace: &str) -> String {
    let launch = match mode {
        Mode::Lite => None,
        Mode::Full => Some(LAUNCH),
    };
    let admission = admission.iter().flat_map(|chosen| chosen.files()).copied();
    let files = mode.files().iter().copied().chain(admission).chain(launch);
    // No other text in the manifests contains these two names; a test checks that.
    let files = files.map(|file| {
        file.replace(&format!("image: {IMAGE}"), &format!("image: {}", quoted(image)))
            .replace(names::OWN_NAMESPACE, namespace)
    });
    once_each(&files.collect::<Vec<String>>().join("---\n"))
}

/// Removes duplicates: the files of both webhooks contain the Service and the Secret that the webhooks share.
fn once_each(documents: &str) -> String {
    let mut known = BTreeSet::new();
    let is_new = |document: &&str| known.insert(id(&read(document)));
    documents.trim_end().split(BETWEEN).filter(is_new).collect::<Vec<&str>>().join(BETWEEN) + "\n"
}

/// Quotes an image as a YAML string, so that no character of it can end the string.
fn quoted(image: &str) -> String {
    if image == IMAGE { image.to_owned() } else { serde_json::Value::from(image).to_string() }
}

pub fn namespace(text: &str) -> Result<String, String> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let edges = !text.starts_with('-') && !text.ends_with('-');
    if text.is_empty() || text.len() > NAMESPACE_LENGTH || !edges || !text.bytes().all(allowed) {
        return Err(format!(
            "a namespace consists of 1 to {NAMESPACE_LENGTH} characters a-z, 0-9 and -, and does not begin or end with -"
        ));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_the_files() {
        for (mode, admission, files) in [
            (Mode::Lite, None, vec![CRD, RBAC_LITE]),
            (Mode::Full, None, vec![CRD, CRD_RESERVATION, RBAC_FULL, LAUNCH]),
            (
                Mode::Full,
                Some(Admission::Policies),
                [&[CRD, CRD_RESERVATION, RBAC_FULL], &POLICIES[..], &[LAUNCH]].concat(),
            ),
        ] {
            let expected = files.join("---\n");
            assert_eq!(manifests(mode, admission, IMAGE, names::OWN_NAMESPACE), expected);
        }
        // Objects that both files contain are equal in both, and are printed once.
        let both = manifests(Mode::Full, Some(Admission::Webhook), IMAGE, names::OWN_NAMESPACE);
        let both: Vec<Value> = both.split(BETWEEN).map(read).collect();
        for file in [WEBHOOK[0], LAUNCH] {
            for document in file.split(BETWEEN).map(read) {
                assert_eq!(both.iter().filter(|other| id(other) == id(&document)).count(), 1);
                assert!(both.contains(&document), "{}", id(&document));
            }
        }
    }

    /// `make manifests` copies the limits into both files.
    #[test]
    fn the_limits_are_a_part_of_every_mode() {
        const LIMITS: &str = include_str!("../../../../config/rbac/limits.yaml");
        const ABOVE: &str = "\n---\n# The rest is config/rbac/limits.yaml, copied by `make manifests`.\n";
        for (file, text) in [("rbac-lite.yaml", RBAC_LITE), ("rbac.yaml", RBAC_FULL)] {
            let copy = text.split_once(ABOVE).map(|(_, copy)| copy);
            assert!(copy == Some(LIMITS), "config/rbac/{file} is not up to date: make manifests");
        }
    }

    /// Each policy has a binding, and its condition names the service account in the requested namespace.
    #[test]
    fn the_limits_bind_the_account_that_is_installed() {
        for mode in [Mode::Lite, Mode::Full] {
            let objects = objects(mode, None, "elsewhere");
            let names = |kind: &str| -> Vec<Value> {
                let of_kind = objects.iter().filter(|object| object["kind"] == kind);
                of_kind.map(|object| object["metadata"]["name"].clone()).collect()
            };
            let policies = names("ValidatingAdmissionPolicy");
            assert_eq!(policies, names("ValidatingAdmissionPolicyBinding"));
            assert_eq!(policies.len(), 13, "{policies:?}");
            let policy = |object: &&Value| object["kind"] == "ValidatingAdmissionPolicy";
            let conditions = objects.iter().filter(policy);
            let conditions = conditions.flat_map(|object| object["spec"]["matchConditions"].as_array());
            let conditions: Vec<&Value> = conditions.flatten().collect();
            let account =
                "request.userInfo.username == 'system:serviceaccount:elsewhere:pod-sequence-controller'";
            assert!(conditions.iter().all(|condition| condition["expression"] == account), "{conditions:?}");
            // The policy about Namespaces has no such condition, because it applies to all users.
            assert_eq!(conditions.len(), policies.len() - 1);
        }
    }

    #[test]
    fn image_and_namespace_are_replaced_and_nothing_else() {
        for admission in [Admission::Policies, Admission::Webhook] {
            let print =
                |image: &str, namespace: &str| manifests(Mode::Full, Some(admission), image, namespace);
            let text = print("registry.example/rollcall:1 # \"x\"", "namespace-of-ours");
            assert!(!text.contains(names::OWN_NAMESPACE) && !text.contains(IMAGE));
            let image = r#"image: "registry.example/rollcall:1 # \"x\"""#;
            assert_eq!(text.matches(image).count(), 1);
            let back = text
                .replace(image, &format!("image: {IMAGE}"))
                .replace("namespace-of-ours", names::OWN_NAMESPACE);
            assert_eq!(back, print(IMAGE, names::OWN_NAMESPACE));
        }
    }

    #[test]
    fn only_what_was_named_is_printed() {
        let all = manifests(Mode::Full, Some(Admission::Policies), IMAGE, "elsewhere");
        let named = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
            let text = chosen(&all, &names).map_err(|error| error.to_string())?;
            Ok::<Vec<String>, String>(text.split(BETWEEN).map(|text| id(&read(text))).collect())
        };
        // The order is that of the manifests, not of the arguments, and a Role does not match a ClusterRole.
        let (role, policy) =
            ("Role/pod-sequence-controller", "MutatingAdmissionPolicy/podsequence-pod-gates");
        assert_eq!(named(&[policy, role]), Ok(vec![role.to_owned(), policy.to_owned()]));
        let bindings = ["", "-nodes", "-reservations", "-launch", "-launch-webhook"]
            .map(|which| format!("pod-sequence-controller{which}"))
            .map(|name| format!("ClusterRoleBinding/{name}"));
        assert_eq!(named(&["ClusterRoleBinding"]), Ok(bindings.to_vec()));
        let typo = named(&["Role/pod-sequence-controler"]).expect_err("a typo");
        assert!(typo.contains("--only") && typo.contains(role), "{typo}");
    }

    #[test]
    fn what_belongs_to_a_part_alone_is_known() {
        let ids = |objects: &[Value]| -> Vec<String> { objects.iter().map(id).collect() };
        let policies = ids(&objects_of(Admission::Policies, "elsewhere"));
        assert_eq!(policies.len(), 8);
        assert!(policies.iter().all(|id| id.starts_with("MutatingAdmissionPolicy")), "{policies:?}");
        // Both webhooks use the Service and the objects for the Secret.
        let webhook = ids(&objects_of(Admission::Webhook, "elsewhere"));
        assert!(webhook.contains(&"MutatingWebhookConfiguration/podsequence-mutating-webhook".to_owned()));
        let service = "Service/pod-sequence-webhook".to_owned();
        assert!(!webhook.contains(&service), "{webhook:?}");
        assert!(of_launch_alone(None).contains(&service));
        assert!(!of_launch_alone(Some(Admission::Webhook)).contains(&service));
        assert_eq!((of_launch_alone(None).len(), of_launch_alone(Some(Admission::Webhook)).len()), (8, 5));
    }

    #[test]
    fn every_object_has_a_name_of_its_own() {
        for admission in [Admission::Policies, Admission::Webhook] {
            let objects = objects(Mode::Full, Some(admission), "elsewhere");
            let ids: std::collections::BTreeSet<String> = objects.iter().map(id).collect();
            assert_eq!(ids.len(), objects.len());
            assert!(ids.iter().all(|id| !id.starts_with('/') && !id.ends_with('/')), "{ids:?}");
        }
    }
}
