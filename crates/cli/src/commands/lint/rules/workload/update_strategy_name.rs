use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC208",
    severity: Severity::Error,
    title: "strategy and updateStrategy mixed up",
    why: "Deployments have `strategy`, StatefulSets and DaemonSets have `updateStrategy`. The other word is an unknown field: kubectl \
          refuses it, other clients lose it without a word, and the update goes on as by default.",
    hint: "# Deployment\nstrategy: {type: RollingUpdate}\n# StatefulSet, DaemonSet\nupdateStrategy: {type: RollingUpdate}",
    about_absence: false,
    check,
};

fn check(all: &Scene, found: &mut Findings) {
    for (kind, right, wrong) in [
        (Kind::Deployment, "strategy", "updateStrategy"),
        (Kind::StatefulSet, "updateStrategy", "strategy"),
        (Kind::DaemonSet, "updateStrategy", "strategy"),
    ] {
        for object in all.of(kind) {
            let field = object.spec().get(wrong);
            if !field.is_missing() {
                let name = kind.info().name;
                found
                    .at_key(&field, format!("a {name} has no {wrong}; it is called {right}"))
                    .hint(format!("{right}:"));
            }
        }
    }
}
