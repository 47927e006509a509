use crate::commands::lint::rules::prelude::*;
use rollcall_core::quantity::Quantity;

pub const RULE: Rule = Rule {
    code: "RC115",
    severity: Severity::Warning,
    title: "a quota that is too small for all groups together",
    why: "A pod counts against a ResourceQuota from its creation, even while it is gated. If all pods of the namespace \
          together exceed the quota, held pods of later groups can use it up. Pods of earlier groups are then not created, \
          and all groups wait indefinitely.",
    hint: "spec:\n  hard:\n    pods: \"20\"  # enough for all groups at once",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    let claims = all.claims();
    for quota in all.of_kind(Kind::ResourceQuota) {
        let held = claims.each().any(|(sequence, position, template)| {
            template.object.namespace == quota.namespace && !sequence.spec.groups[position].after.is_empty()
        });
        let narrowed = ["scopes", "scopeSelector"].iter().any(|field| !quota.spec().get(field).is_missing());
        if !held || narrowed {
            continue;
        }
        for (resource, hard) in quota.field("spec.hard").entries() {
            let limit = amount(&hard);
            let used = claims
                .templates
                .iter()
                .filter(|template| template.object.namespace == quota.namespace)
                .map(|template| used(template, resource))
                .fold(0i128, i128::saturating_add);
            if limit.is_some_and(|limit| used > limit) {
                let (used, limit) = (shown(used), hard.value.to_string().replace('"', ""));
                found.at(
                    &hard,
                    format!("all pods of the namespace together exceed the quota for {resource}: used {used}, limited to {limit}"),
                );
            }
        }
    }
}

/// Parses a quantity, in billionths: a common unit for all resources.
fn amount(value: &Field) -> Option<i128> {
    let text = value.value.as_str().map_or_else(|| value.value.to_string(), str::to_owned);
    text.parse::<Quantity>().ok().map(Quantity::nanos)
}

fn shown(nanos: i128) -> String {
    const BILLION: i128 = 1_000_000_000;
    if nanos % BILLION == 0 { (nanos / BILLION).to_string() } else { format!("{}m", nanos / 1_000_000) }
}

/// Returns the usage of all pods of a template, in billionths; 0 for a DaemonSet, whose pod count is unknown.
fn used(template: &PodTemplate, resource: &str) -> i128 {
    let size = i128::from(template.size().unwrap_or_default().max(0));
    if ["pods", "count/pods"].contains(&resource) {
        return size * 1_000_000_000;
    }
    let (part, name) = match resource.split_once('.') {
        Some((part @ ("requests" | "limits"), name)) => (part, name),
        _ if ["cpu", "memory"].contains(&resource) => ("requests", resource),
        _ => return 0,
    };
    let of = |container: &Field| {
        let resources = container.get("resources");
        let stated = amount(&resources.get(part).get(name));
        // A missing request defaults to the limit.
        stated.or_else(|| amount(&resources.get("limits").get(name))).unwrap_or_default()
    };
    let one = template.containers().iter().map(of).fold(0i128, i128::saturating_add);
    size.saturating_mul(one)
}
