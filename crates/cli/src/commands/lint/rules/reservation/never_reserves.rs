use super::never_comes;
use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC602",
    severity: Severity::Error,
    title: "an Order whose schedule never fires",
    why: "The API server accepts a date that does not exist, such as the 30th of February. The controller reports \
          `InvalidSpec`, and no capacity is ever reserved.",
    hint: "strategy:\n  type: Recurring\n  schedule: \"0 0 28 2 *\"",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for order in all.of_kind(Kind::Order).filter(|order| never_comes(order)) {
        let schedule = order.field("spec.strategy.schedule");
        found.at(
            &schedule,
            format!(
                "Order {} never reserves capacity: schedule \"{}\" matches no date",
                order.name,
                schedule.text()
            ),
        );
    }
}
