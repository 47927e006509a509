//! Builds the commands of fixes, ready for the caller to run: for the same cluster, namespace and image.

use super::fetched::Installed;
use crate::cli::{self, Access};
use crate::commands::install::{Admission, IMAGE, Mode};
use rollcall_api::names;
use std::borrow::Cow;

pub struct CommandLine {
    program: &'static str,
    /// ` --kubeconfig FILE --context NAME`, as far as the caller gave them.
    access: String,
    /// Namespace of the controller.
    pub namespace: String,
}

impl CommandLine {
    pub fn new(access: &Access, namespace: &str) -> CommandLine {
        let Access { kubeconfig, context } = access;
        let mut flags = String::new();
        if let Some(file) = kubeconfig {
            flags += &format!(" --kubeconfig {}", quoted(&file.to_string_lossy()));
        }
        if let Some(context) = context {
            flags += &format!(" --context {}", quoted(context));
        }
        CommandLine { program: cli::program(), access: flags, namespace: namespace.to_owned() }
    }

    pub fn kubectl(&self, rest: impl AsRef<str>) -> String {
        format!("kubectl{} {}", self.access, rest.as_ref())
    }

    pub fn rollcall(&self, rest: impl AsRef<str>) -> String {
        format!("{}{} {}", self.program, self.access, rest.as_ref())
    }

    /// A `kubectl` command in the namespace of the controller.
    pub fn kubectl_here(&self, rest: impl AsRef<str>) -> String {
        self.kubectl(format!("-n {} {}", self.namespace, rest.as_ref()))
    }

    /// Command that installs everything, like the present installation except for `mode` and `admission`.
    pub fn install(&self, installed: &Installed, mode: Mode, admission: Option<Admission>) -> String {
        self.install_piped_to_kubectl(installed, mode, admission, &[], "apply -f -")
    }

    /// Command that restores these objects and no others.
    pub fn restore(&self, installed: &Installed, only: &[&str]) -> String {
        let (mode, admission) = installed.printed_with(only);
        self.install_piped_to_kubectl(installed, mode, admission, only, "apply -f -")
    }

    /// Like [`Self::restore`], for objects whose lists `kubectl apply` would merge.
    pub fn replace(&self, installed: &Installed, only: &[&str]) -> String {
        let (mode, admission) = installed.printed_with(only);
        self.install_piped_to_kubectl(installed, mode, admission, only, "replace --save-config -f -")
    }

    fn install_piped_to_kubectl(
        &self,
        installed: &Installed,
        mode: Mode,
        admission: Option<Admission>,
        only: &[&str],
        then: &str,
    ) -> String {
        let mode = if admission.is_some() { Mode::Full } else { mode };
        let mut command = format!("{} install --mode {}", self.program, mode_name(mode));
        match admission {
            Some(Admission::Policies) => command += " --admission policies",
            Some(Admission::Webhook) => command += " --admission webhook",
            None => {}
        }
        let deploys = only.is_empty() || only.iter().any(|id| id.starts_with("Deployment/"));
        if let Some(image) = installed.image.as_deref().filter(|image| deploys && *image != IMAGE) {
            command += &format!(" --image {}", quoted(image));
        }
        if self.namespace != names::OWN_NAMESPACE {
            command += &format!(" --namespace {}", self.namespace);
        }
        for id in only {
            command += &format!(" --only {id}");
        }
        format!("{command} | {}", self.kubectl(then))
    }
}

pub fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Lite => "lite",
        Mode::Full => "full",
    }
}

/// Quotes a word for the shell if it contains special characters.
pub fn quoted(text: &str) -> Cow<'_, str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:@=,+%".contains(&byte);
    match !text.is_empty() && text.bytes().all(plain) {
        true => Cow::Borrowed(text),
        false => Cow::Owned(format!("'{}'", text.replace('\'', r"'\''"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_go_to_the_cluster_that_was_looked_at() {
        let access = Access { kubeconfig: Some("/tmp/my config".into()), context: Some("prod".into()) };
        let command_line = CommandLine::new(&access, "order");
        let flags = "--kubeconfig '/tmp/my config' --context prod";
        assert_eq!(command_line.kubectl_here("get pods"), format!("kubectl {flags} -n order get pods"));
        let installed = Installed { image: Some("registry/x:1".into()), ..Installed::default() };
        assert_eq!(
            command_line.install(&installed, Mode::Full, Some(Admission::Policies)),
            format!(
                "rollcall install --mode full --admission policies --image registry/x:1 --namespace order \
                 | kubectl {flags} apply -f -"
            )
        );
        assert_eq!(
            command_line.restore(&installed, &["Role/pod-sequence-controller"]),
            format!(
                "rollcall install --mode lite --namespace order --only Role/pod-sequence-controller \
                 | kubectl {flags} apply -f -"
            )
        );
    }

    #[test]
    fn what_a_shell_would_take_apart_is_quoted() {
        for (text, expected) in [("a-b/c:1", "a-b/c:1"), ("", "''"), ("a b", "'a b'"), ("it's", r"'it'\''s'")]
        {
            assert_eq!(quoted(text), expected);
        }
    }
}
