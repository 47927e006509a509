use crate::commands::lint::rules::prelude::*;
use rollcall_core::sequence::keys;
use rollcall_core::sequence::spec::{NodeGuard, Scope};
use rollcall_sim::actors::common::placement::tolerates;
use serde_json::json;

pub const RULE: Rule = Rule {
    code: "RC117",
    severity: Severity::Error,
    title: "a DaemonSet that does not tolerate its sequence's taints",
    why: "With `nodeGuard: Taints` the controller taints every node for each group that is still blocked there. The DaemonSet \
          controller checks the tolerations of the pod template. A DaemonSet of an earlier group whose template lacks the \
          toleration therefore never gets a pod. In that case the controller adds no taints and reports `Stalled`, reason \
          `TemplateLacksToleration`.",
    hint: "tolerations:\n- key: podsequence.example.com/NAMESPACE.SEQUENCE.GROUP-blocked  # rollcall keys SEQUENCE prints it\n  \
           operator: Exists\n  effect: NoSchedule",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    let claims = all.claims();
    for (number, sequence) in claims.sequences.iter().enumerate() {
        if (sequence.spec.scope, sequence.spec.guard) != (Scope::Node, NodeGuard::Taints) {
            continue;
        }
        let object = sequence.object;
        let keys = keys::keys(keys::PREFIX, &object.namespace, &object.name, &sequence.spec.groups);
        // A group whose pods all belong to DaemonSets needs no taint.
        let tainted = |position: usize| {
            let mut members = claims.members(number, position).peekable();
            let daemons =
                members.peek().is_some() && members.all(|template| template.kind == Kind::DaemonSet);
            !sequence.spec.groups[position].after.is_empty() && !daemons
        };
        for position in 0..keys.len() {
            for template in claims.members(number, position).filter(|one| one.kind == Kind::DaemonSet) {
                let tolerations = template.spec.get("tolerations");
                let lacking = (position + 1..keys.len()).filter(|later| tainted(*later)).find(|later| {
                    let taint = json!({ "key": &*keys[*later], "value": "any", "effect": "NoSchedule" });
                    !tolerates(tolerations.value, &taint)
                });
                if let Some(later) = lacking {
                    let (whose, key) = (template.object.full_name(), &keys[later]);
                    let place = if tolerations.is_missing() { &template.spec } else { &tolerations };
                    found
                        .at_key(
                            place,
                            format!(
                                "{whose} does not tolerate the taint {key}, so it gets no pods on new nodes"
                            ),
                        )
                        .hint(format!(
                            "tolerations:\n- key: {key}\n  operator: Exists\n  effect: NoSchedule"
                        ));
                }
            }
        }
    }
}
