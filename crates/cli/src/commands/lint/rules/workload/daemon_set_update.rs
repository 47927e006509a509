use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC221",
    severity: Severity::Note,
    title: "a DaemonSet that does not say how fast it is updated",
    why: "By default one pod at a time is replaced (`maxUnavailable: 1`): safe, and slow in a large cluster. A percentage is faster, and \
          still no outage everywhere at once. `OnDelete` replaces nothing by itself.",
    hint: "spec:\n  updateStrategy:\n    type: RollingUpdate\n    rollingUpdate: {maxUnavailable: 10%}",
    about_absence: true,
    check,
};

fn check(all: &Scene, found: &mut Findings) {
    for set in all.of(Kind::DaemonSet) {
        let strategy = set.field("spec.updateStrategy");
        let rolling = strategy.get("rollingUpdate");
        let said = ["maxUnavailable", "maxSurge"].iter().any(|field| !rolling.get(field).is_missing());
        if strategy.get("type").text() != "OnDelete" && !said {
            found.about(
                set,
                format!("DaemonSet {} is updated one node at a time: it does not say otherwise", set.name),
            );
        }
    }
}
