//! Prints the explanation as a tree, followed by hints.

use super::node::Node;
use crate::output::{FAINT, STRONG, styled};
use crate::shown;
use crate::shown::Shown;

/// Maximum number of hints. The first ones concern the causes that must be resolved first.
const HINTS: usize = 4;
/// Maximum length of a line onto which several hints are joined.
const WIDTH: usize = 110;
const BETWEEN: &str = "   ·   ";

pub fn text(node: &Node) -> Shown {
    let mut text = shown!("{}\n", styled(STRONG, &node.text));
    branches(node, "", &mut text);
    for line in hints(node) {
        text += shown!("{} {}\n", styled(FAINT, "hint:"), line);
    }
    text
}

fn branches(node: &Node, indent: &str, text: &mut Shown) {
    for (position, child) in node.below.iter().enumerate() {
        let last = position + 1 == node.below.len();
        let (branch, further) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        *text += shown!("{}{}{}\n", indent, branch, child.text);
        branches(child, &format!("{indent}{further}"), text);
    }
}

/// Collects each hint once; the hints of causes come before those of their effects.
fn hints(node: &Node) -> Vec<String> {
    let mut found = Vec::new();
    collect(node, &mut found);
    let mut lines: Vec<String> = Vec::new();
    for hint in found.into_iter().take(HINTS) {
        match lines.last_mut() {
            Some(line) if line.chars().count() + BETWEEN.chars().count() + hint.chars().count() <= WIDTH => {
                *line += &format!("{BETWEEN}{hint}");
            }
            Some(_) | None => lines.push(hint),
        }
    }
    lines
}

fn collect(node: &Node, found: &mut Vec<String>) {
    node.below.iter().for_each(|child| collect(child, found));
    for hint in &node.hints {
        if !found.contains(hint) {
            found.push(hint.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::node::CommandStyle;
    use super::*;
    use crate::load::Loaded;
    use crate::testing;
    use rollcall_core::dispatch::explain_pod;
    use rollcall_core::index::{Index, Object};
    use rollcall_core::sequence::explain::explain_sequence;
    use serde_json::{Value, json};

    fn loaded(pods: &[Value]) -> Loaded {
        let mut index = Index::default();
        for pod in pods {
            index.apply(Object::Pod(testing::pod(pod.clone()).facts()));
        }
        index.apply(Object::Sequence(testing::sequence(testing::shop_in_progress()).facts()));
        Loaded { index, namespace: "default".into(), pod_names: Vec::new(), gaps: Vec::new() }
    }

    fn shop() -> Loaded {
        loaded(&[
            testing::ready("postgres-0"),
            testing::ready("postgres-1"),
            testing::ready("app-1"),
            testing::unready("app-2"),
            testing::held("web"),
        ])
    }

    fn of_pod(loaded: &Loaded, name: &str, style: &CommandStyle) -> String {
        let pod = loaded.index.cluster.pod_named("default", name).expect(name);
        let node = Node::new(explain_pod(&loaded.index, pod, testing::now()), style);
        text(&node).without_colours()
    }

    #[test]
    fn a_held_pod() {
        insta::assert_snapshot!(of_pod(&shop(), "web", &CommandStyle::of_namespace("default")));
    }

    #[test]
    fn commands_fit_the_caller() {
        insta::assert_snapshot!(of_pod(&shop(), "web", &CommandStyle::plugin_elsewhere()));
    }

    #[test]
    fn a_pod_that_is_out() {
        insta::assert_snapshot!(of_pod(&shop(), "app-2", &CommandStyle::of_namespace("default")));
    }

    #[test]
    fn a_pod_of_an_open_group() {
        let pods = [testing::ready("postgres-0"), testing::held("postgres-1")];
        insta::assert_snapshot!(of_pod(&loaded(&pods), "postgres-1", &CommandStyle::plugin_elsewhere()));
    }

    #[test]
    fn a_pod_that_nobody_claims() {
        let loaded = loaded(&[testing::held("stray")]);
        insta::assert_snapshot!(of_pod(&loaded, "stray", &CommandStyle::of_namespace("default")));
    }

    #[test]
    fn a_sequence() {
        let loaded = shop();
        let uid = testing::sequence(testing::shop()).facts().uid;
        let entry = loaded.index.sequences.get(uid).expect("the shop");
        let line = explain_sequence(loaded.index.facts(), entry, testing::now());
        let node = Node::new(line, &CommandStyle::of_namespace("default"));
        insta::assert_snapshot!(text(&node).without_colours());
        insta::assert_snapshot!(json!(node)["below"][1].to_string());
    }
}
