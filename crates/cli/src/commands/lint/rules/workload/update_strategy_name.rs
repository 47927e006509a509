use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC208",
    severity: Severity::Error,
    title: "strategy confused with updateStrategy",
    why: "Deployments have `strategy`; StatefulSets and DaemonSets have `updateStrategy`. The other name is an unknown field: \
          kubectl rejects it. With other clients it is silently dropped, and updates use the default strategy.",
    hint: "# Deployment\nstrategy: {type: RollingUpdate}\n# StatefulSet, DaemonSet\nupdateStrategy: {type: RollingUpdate}",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for (kind, right, wrong) in [
        (Kind::Deployment, "strategy", "updateStrategy"),
        (Kind::StatefulSet, "updateStrategy", "strategy"),
        (Kind::DaemonSet, "updateStrategy", "strategy"),
    ] {
        for object in all.of_kind(kind) {
            let field = object.spec().get(wrong);
            if !field.is_missing() {
                let name = kind.info().name;
                found
                    .at_key(&field, format!("{name} has no field {wrong}; use {right}"))
                    .hint(format!("{right}:"));
            }
        }
    }
}
