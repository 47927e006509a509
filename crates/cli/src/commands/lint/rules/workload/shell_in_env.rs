use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC214",
    severity: Severity::Warning,
    title: "a shell command in an environment variable",
    why: "Kubernetes expands only `$(NAME)`, a reference to another variable of the container. No shell runs, so `$(hostname \
          | awk …)` is passed on literally. For the ordinal of a pod, use the label `apps.kubernetes.io/pod-index`; for \
          anything else, run a shell in `command`.",
    hint: "env:\n- name: BROKER_ID\n  valueFrom:\n    fieldRef:\n      fieldPath: metadata.labels['apps.kubernetes.io/pod-index']",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for template in templates(all) {
        for container in template.all_containers() {
            for variable in container.get("env").items() {
                let value = variable.get("value");
                if let Some(command) = command(value.text()) {
                    let name = variable.get("name");
                    found.at(
                        &value,
                        format!(
                            "{} is set to the literal text \"$({command})\": no shell evaluates it",
                            name.text()
                        ),
                    );
                }
            }
        }
    }
}

/// Returns the text between `$(` and `)` if it cannot be the name of a variable. `$$(` is an escape.
fn command(value: &str) -> Option<&str> {
    let mut rest = value;
    while let Some(at) = rest.find("$(") {
        let escaped = rest[..at].ends_with('$');
        let inner = &rest[at + 2..];
        let end = inner.find(')')?;
        let name = |char: char| char.is_ascii_alphanumeric() || "_-.".contains(char);
        if !escaped && !inner[..end].chars().all(name) {
            return Some(&inner[..end]);
        }
        rest = &inner[end..];
    }
    None
}

#[cfg(test)]
mod tests {
    use super::command;

    #[test]
    fn only_what_needs_a_shell() {
        assert_eq!(
            command("$(hostname | awk -F'-' '{print $NF}')"),
            Some("hostname | awk -F'-' '{print $NF}'")
        );
        for fine in ["$(POD_NAME).db", "$$(hostname -f)", "5 $ (a b)", "$(unfinished", "a.$(A).$(B-c)"] {
            assert_eq!(command(fine), None, "{fine}");
        }
    }
}
