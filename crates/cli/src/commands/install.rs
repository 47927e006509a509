//! The manifests of `config/`, as they were when this program was built.

use crate::outcome::Outcome;
use crate::output;
use anyhow::Result;
use clap::ValueEnum;
use rollcall_api::names;

/// A test of the api crate keeps it equal to the types.
const CRD: &str = include_str!("../../../../config/crd/podsequence-crd.yaml");
const RBAC_LITE: &str = include_str!("../../../../config/rbac/rbac-lite.yaml");
const RBAC_FULL: &str = include_str!("../../../../config/rbac/rbac.yaml");

/// The image that the manifests name; `make docker-build` makes it.
const IMAGE: &str = "pod-sequence-controller:latest";

/// The longest name of a namespace (a DNS label).
const NAMESPACE_LENGTH: usize = 63;

/// Print the manifests that install the controller
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  rollcall install --mode lite | kubectl apply -f -")]
pub struct Arguments {
    /// Which parts to install
    #[arg(long, value_enum, default_value_t)]
    mode: Mode,
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

impl Mode {
    fn rbac(self) -> &'static str {
        match self {
            Mode::Lite => RBAC_LITE,
            Mode::Full => RBAC_FULL,
        }
    }
}

pub fn run(arguments: &Arguments) -> Result<Outcome> {
    let Arguments { mode, image, namespace } = arguments;
    output::data(&manifests(*mode, image, namespace))?;
    Ok(Outcome::Done)
}

fn manifests(mode: Mode, image: &str, namespace: &str) -> String {
    // Both are names that no other text in the manifests contains; a test holds that.
    let deployment = mode
        .rbac()
        .replace(&format!("image: {IMAGE}"), &format!("image: {}", quoted(image)))
        .replace(names::OWN_NAMESPACE, namespace);
    let separator = if deployment.trim_start().starts_with("---") { "" } else { "---\n" };
    format!("{CRD}{separator}{deployment}")
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
        for (mode, file) in [(Mode::Lite, RBAC_LITE), (Mode::Full, RBAC_FULL)] {
            assert_eq!(manifests(mode, IMAGE, names::OWN_NAMESPACE), format!("{CRD}---\n{file}"));
        }
    }

    #[test]
    fn image_and_namespace_are_replaced_and_nothing_else() {
        let text = manifests(Mode::Full, "registry.example/rollcall:1 # \"x\"", "namespace-of-ours");
        assert!(!text.contains(names::OWN_NAMESPACE) && !text.contains(IMAGE));
        let image = r#"image: "registry.example/rollcall:1 # \"x\"""#;
        assert_eq!(text.matches(image).count(), 1);
        let back = text
            .replace(image, &format!("image: {IMAGE}"))
            .replace("namespace-of-ours", names::OWN_NAMESPACE);
        assert_eq!(back, manifests(Mode::Full, IMAGE, names::OWN_NAMESPACE));
    }
}
