//! The manifests of `config/`, as they were when this program was built.

use crate::outcome::Outcome;
use crate::output;
use anyhow::{Result, bail};
use clap::ValueEnum;
use rollcall_api::names;

/// A test of the api crate keeps it equal to the types.
const CRD: &str = include_str!("../../../../config/crd/podsequence-crd.yaml");
const RBAC_LITE: &str = include_str!("../../../../config/rbac/rbac-lite.yaml");
const RBAC_FULL: &str = include_str!("../../../../config/rbac/rbac.yaml");
const POLICIES: [&str; 3] = [
    include_str!("../../../../config/admission/pod-gates.yaml"),
    include_str!("../../../../config/admission/node-unseen.yaml"),
    include_str!("../../../../config/admission/controller-limits.yaml"),
];
const WEBHOOK: [&str; 1] = [include_str!("../../../../config/webhook/webhook.yaml")];

/// The image that the manifests name; `make docker-build` makes it.
const IMAGE: &str = "pod-sequence-controller:latest";

/// The longest name of a namespace (a DNS label).
const NAMESPACE_LENGTH: usize = 63;

/// Print the manifests that install the controller
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  rollcall install | kubectl apply -f -
  rollcall install --mode full --admission policies | kubectl apply -f -")]
pub struct Arguments {
    /// Which parts to install
    #[arg(long, value_enum, default_value_t)]
    mode: Mode,
    /// In Full mode: who gives pods their gates when they are created, if their templates have none
    #[arg(long, value_enum)]
    admission: Option<Admission>,
    /// The controller's image
    #[arg(long, value_name = "IMAGE", default_value = IMAGE)]
    image: String,
    /// The controller's own namespace
    #[arg(long, value_name = "NAME", default_value = names::OWN_NAMESPACE, value_parser = namespace)]
    namespace: String,
}

/// How much the controller does, and so how much it must be allowed to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Cluster scope only: no admission, no certificates, no permission on nodes
    #[default]
    Lite,
    /// Both scopes: nodes are watched and marked
    Full,
}

/// Who acts when pods and nodes are created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Admission {
    /// The API server itself: Kubernetes 1.36 and later
    Policies,
    /// The controller, called by the API server: any version
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
    fn rbac(self) -> &'static str {
        match self {
            Mode::Lite => RBAC_LITE,
            Mode::Full => RBAC_FULL,
        }
    }
}

pub fn run(arguments: &Arguments) -> Result<Outcome> {
    let Arguments { mode, admission, image, namespace } = arguments;
    if let (Mode::Lite, Some(_)) = (mode, admission) {
        bail!("--admission: Lite mode has none; add --mode full");
    }
    output::data(&manifests(*mode, *admission, image, namespace))?;
    Ok(Outcome::Done)
}

fn manifests(mode: Mode, admission: Option<Admission>, image: &str, namespace: &str) -> String {
    let files =
        [CRD, mode.rbac()].into_iter().chain(admission.iter().flat_map(|chosen| chosen.files()).copied());
    // Both are names that no other text in the manifests contains; a test holds that.
    let files = files.map(|file| {
        file.replace(&format!("image: {IMAGE}"), &format!("image: {}", quoted(image)))
            .replace(names::OWN_NAMESPACE, namespace)
    });
    files.collect::<Vec<String>>().join("---\n")
}

/// An image as YAML text: what is between the quotes cannot end them.
fn quoted(image: &str) -> String {
    if image == IMAGE { image.to_owned() } else { serde_json::Value::from(image).to_string() }
}

fn namespace(text: &str) -> Result<String, String> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let edges = !text.starts_with('-') && !text.ends_with('-');
    if text.is_empty() || text.len() > NAMESPACE_LENGTH || !edges || !text.bytes().all(allowed) {
        return Err(format!("a namespace has 1 to {NAMESPACE_LENGTH} of a-z, 0-9 and - (not at its ends)"));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_the_files() {
        for (mode, admission, files) in [
            (Mode::Lite, None, vec![RBAC_LITE]),
            (Mode::Full, None, vec![RBAC_FULL]),
            (Mode::Full, Some(Admission::Webhook), vec![RBAC_FULL, WEBHOOK[0]]),
            (Mode::Full, Some(Admission::Policies), [&[RBAC_FULL], &POLICIES[..]].concat()),
        ] {
            let expected = [&[CRD], &files[..]].concat().join("---\n");
            assert_eq!(manifests(mode, admission, IMAGE, names::OWN_NAMESPACE), expected);
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
}
