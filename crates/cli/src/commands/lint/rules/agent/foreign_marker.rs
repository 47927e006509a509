use super::{markers, seen};
use crate::commands::lint::rules::prelude::*;
use crate::similar::suggestion;

pub const RULE: Rule = Rule {
    code: "RC505",
    severity: Severity::Warning,
    title: "a wait for a marker that no DaemonSet writes",
    why: "A container waits for a file on its node. DaemonSets in the files write markers, but none writes this one. Usually \
          the path differs by a directory, or the volume is mounted elsewhere.",
    hint: "metadata:\n  annotations:\n    rollcall.dev/marker: /mnt/dump/.ready  # on the DaemonSet",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    let kept: Vec<String> = templates_of(all, Kind::DaemonSet).iter().flat_map(markers).collect();
    if kept.is_empty() {
        return;
    }
    for template in templates(all) {
        for (field, container) in seen(&template) {
            let waited = container.waits_for().into_iter().filter_map(|file| file.host);
            for path in waited.filter(|path| !kept.contains(path)) {
                let alike = suggestion(&path, kept.iter().map(String::as_str));
                let (command, args) = (field.get("command"), field.get("args"));
                let place = if command.is_missing() { args } else { command };
                found.at_key(&place, format!("no DaemonSet in the files writes the marker {path}{alike}"));
            }
        }
    }
}
