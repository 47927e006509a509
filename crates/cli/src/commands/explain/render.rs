//! The answer as a tree, the hints below it.

use super::node::Node;
use crate::output::{FAINT, STRONG, styled};

/// Hints shown at most: the first ones concern what has to happen first.
const HINTS: usize = 4;
/// Hints stand beside each other as long as the line stays readable.
const WIDTH: usize = 110;
const BETWEEN: &str = "   ·   ";

pub fn text(node: &Node) -> String {
    let mut text = styled(STRONG, &node.text) + "\n";
    branches(node, "", &mut text);
    for line in hints(node) {
        text += &format!("{} {line}\n", styled(FAINT, "hint:"));
    }
    text
}

fn branches(node: &Node, indent: &str, text: &mut String) {
    for (position, child) in node.below.iter().enumerate() {
        let last = position + 1 == node.below.len();
        let (branch, further) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        *text += &format!("{indent}{branch}{}\n", child.text);
        branches(child, &format!("{indent}{further}"), text);
    }
}

/// The hints of the causes before those of what they cause, each once.
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
    // The core joins commands by a dot of its own.
    let single = node.hint.iter().flat_map(|hint| hint.split("  ·  ")).map(str::trim);
    for hint in single {
        if !found.iter().any(|known| known == hint) {
            found.push(hint.to_owned());
        }
    }
}
