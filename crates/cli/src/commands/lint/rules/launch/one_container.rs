use super::rank;
use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC401",
    severity: Severity::Warning,
    title: "a launch order of one container",
    why: "The rank orders the containers of one pod. This pod has one, so there is nothing to order. For an order among pods there are \
          sequences.",
    hint: "# an order among pods:\nkind: PodSequence",
    about_absence: false,
    check,
};

fn check(all: &Scene, found: &mut Findings) {
    for template in templates(all) {
        if let [only] = template.containers().as_slice()
            && let Some(place) = rank(only)
        {
            found.at(
                &place,
                format!("{} has one container: there is nothing to order", template.object.full_name()),
            );
        }
    }
}
