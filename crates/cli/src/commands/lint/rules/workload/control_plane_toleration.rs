use super::master_role::{NEW, affinity_keys};
use crate::commands::lint::rules::prelude::*;
use rollcall_sim::actors::common::placement::tolerates;
use serde_json::json;

pub const RULE: Rule = Rule {
    code: "RC222",
    severity: Severity::Warning,
    title: "a control-plane node selector without a toleration",
    why: "The template requires control-plane nodes, which have the taint `node-role.kubernetes.io/control-plane:NoSchedule`. \
          Without a toleration no pod is scheduled there: affinity selects nodes, but only a toleration permits nodes with a \
          taint.",
    hint: "tolerations:\n- key: node-role.kubernetes.io/control-plane\n  operator: Exists\n  effect: NoSchedule",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    let taint = json!({ "key": NEW, "value": "", "effect": "NoSchedule" });
    for template in templates(all) {
        let selected = template.spec.get("nodeSelector").get(NEW);
        let keys = affinity_keys(&template);
        let place = Some(selected).filter(|field| !field.is_missing());
        let place = place.or_else(|| keys.into_iter().find(|key| key.text() == NEW));
        if let Some(place) = place.filter(|_| !tolerates(template.spec.get("tolerations").value, &taint)) {
            let whose = template.object.full_name();
            found.at_key(
                &place,
                format!("{whose} requires control-plane nodes but does not tolerate their taint"),
            );
        }
    }
}
