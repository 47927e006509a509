use super::never_comes;
use crate::commands::lint::rules::prelude::*;
use rollcall_api::reservation::{parse_order, parse_ticket};

pub const RULE: Rule = Rule {
    code: "RC601",
    severity: Severity::Error,
    title: "an invalid Order or Ticket",
    why: "The API server rejects it. If its validation rules cannot detect the problem (a time zone, a schedule), the \
          controller reports `InvalidSpec` and reserves no capacity.",
    hint: "# to list all fields with their descriptions:\n# kubectl explain orders.spec --recursive",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for object in &all.objects {
        let spec = &object.value["spec"];
        let read = match object.kind {
            Some(Kind::Order) => parse_order(spec).map(drop),
            Some(Kind::Ticket) => parse_ticket(spec).map(drop),
            _ => continue,
        };
        // A schedule that never fires is reported by RC602.
        let of_schedule = |field: &str| field == "spec.strategy.schedule";
        if let Err(invalid) = read
            && !(of_schedule(&invalid.field) && never_comes(object))
        {
            found.at(&object.root().along(&invalid.field), invalid.to_string());
        }
    }
}
