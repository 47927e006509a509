use super::timeout_too_short::least_seconds;
use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC114",
    severity: Severity::Warning,
    title: "a Deployment that exceeds progressDeadlineSeconds while held",
    why: "A held pod counts as no progress. By their settle times and probes alone, the earlier groups take longer than the \
          Deployment's `progressDeadlineSeconds` (600 by default). The Deployment then reports `ProgressDeadlineExceeded`, \
          and `kubectl rollout status`, `helm --wait` and Argo CD treat it as failed. Its pods still start once the earlier \
          groups are complete.",
    hint: "spec:\n  progressDeadlineSeconds: 3600",
    about_absence: false,
    check,
};

/// The default of `progressDeadlineSeconds`.
const USUAL: i64 = 600;

fn check(all: &ManifestFacts, found: &mut Findings) {
    let claims = all.claims();
    for (number, position, place) in &claims.claims {
        let (sequence, template) = (&claims.sequences[*number], &claims.templates[*place]);
        let held =
            template.has_gate(&sequence.spec.gate) || gets_gate_at_admission(all, &template.object.namespace);
        if template.kind != Kind::Deployment || !held {
            continue;
        }
        let opens = opens_after(claims, *number)[*position];
        let field = template.object.field("spec.progressDeadlineSeconds");
        let deadline = field.number().unwrap_or(USUAL);
        if opens >= deadline {
            let whose = template.object.full_name();
            let words =
                format!("{whose} is held for at least {opens}s, but its progress deadline is {deadline}s");
            found
                .at(&if field.is_missing() { template.object.title() } else { field }, words)
                .hint(format!("progressDeadlineSeconds: {}", opens.saturating_mul(2)));
        }
    }
}

/// Returns the earliest start of each group, in seconds.
fn opens_after(claims: &Claims, number: usize) -> Vec<i64> {
    let sequence = &claims.sequences[number];
    let (mut opens, mut complete): (Vec<i64>, Vec<i64>) = (Vec::new(), Vec::new());
    for (position, group) in sequence.spec.groups.iter().enumerate() {
        let open = group.after.iter().map(|earlier| complete[*earlier]).max().unwrap_or_default();
        let ready = claims.members(number, position).map(least_seconds).max().unwrap_or_default();
        opens.push(open);
        let wait = i64::try_from(group.wait.as_secs()).unwrap_or(i64::MAX);
        complete.push(open.saturating_add(ready).saturating_add(wait));
    }
    opens
}
