use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC221",
    severity: Severity::Note,
    title: "a DaemonSet without an explicit update rate",
    why: "By default one pod at a time is replaced (`maxUnavailable: 1`): safe, but slow in a large cluster. A percentage is \
          faster and still avoids an outage on all nodes at once. `OnDelete` replaces no pods automatically.",
    hint: "spec:\n  updateStrategy:\n    type: RollingUpdate\n    rollingUpdate: {maxUnavailable: 10%}",
    about_absence: true,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for set in all.of_kind(Kind::DaemonSet) {
        let strategy = set.field("spec.updateStrategy");
        let rolling = strategy.get("rollingUpdate");
        let said = ["maxUnavailable", "maxSurge"].iter().any(|field| !rolling.get(field).is_missing());
        if strategy.get("type").text() != "OnDelete" && !said {
            found.about(
                set,
                format!(
                    "DaemonSet {} is updated one node at a time, the default: maxUnavailable is not set",
                    set.name
                ),
            );
        }
    }
}
