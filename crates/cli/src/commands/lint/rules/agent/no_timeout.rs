use super::seen;
use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC502",
    severity: Severity::Note,
    title: "a wait without a timeout",
    why: "A pod that waits indefinitely stays `Init:0/1` and does not report why. `rollcall-node wait` gives up after \
          `--timeout` (5m by default), names what is missing, and is restarted by the kubelet. A shell loop can count its \
          attempts.",
    hint: "image: rollcall-node:latest\nargs: [wait, --marker, /mnt/dump/.ready, --timeout, 5m]",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for template in templates(all) {
        for (field, container) in seen(&template) {
            let words: Vec<&str> =
                container.command.iter().chain(&container.args).map(String::as_str).collect();
            if container.waits_for().is_empty() || !is_endless(&words) {
                continue;
            }
            let (command, args) = (field.get("command"), field.get("args"));
            let place = if command.is_missing() { args } else { command };
            found.at_key(&place, format!("container {} waits without a timeout", container.name));
        }
    }
}

/// Whether the words contain `--timeout 0`, or a shell loop without a counter or an enclosing `timeout`.
fn is_endless(words: &[&str]) -> bool {
    let zero = |text: &str| text.trim_end_matches(|char: char| char.is_ascii_alphabetic()) == "0";
    let pairs = words.windows(2).any(|pair| pair[0] == "--timeout" && zero(pair[1]));
    let joined = words.iter().filter_map(|word| word.strip_prefix("--timeout=")).any(zero);
    let limits = ["timeout ", "$((", "-gt", "-ge", "-lt", "-le", "exit 1", "SECONDS"];
    let endless = |script: &&str| {
        ["while", "until"].iter().any(|word| script.contains(word))
            && !limits.iter().any(|word| script.contains(word))
    };
    pairs || joined || words.iter().any(endless)
}
