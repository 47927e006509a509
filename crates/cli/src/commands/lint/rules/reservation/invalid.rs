use super::never_comes;
use crate::commands::lint::rules::prelude::*;
use rollcall_api::reservation::{parse_order, parse_ticket};

pub const RULE: Rule = Rule {
    code: "RC601",
    severity: Severity::Error,
    title: "an Order or Ticket that cannot be understood",
    why: "The API server refuses it, or, where its rules could not say so (a time zone, a schedule), the controller says `InvalidSpec` and \
          keeps no room.",
    hint: "# every field, with its meaning:\n# kubectl explain orders.spec --recursive",
    about_absence: false,
    check,
};

fn check(all: &Scene, found: &mut Findings) {
    for object in &all.objects {
        let spec = &object.value["spec"];
        let read = match object.kind {
            Some(Kind::Order) => parse_order(spec).map(drop),
            Some(Kind::Ticket) => parse_ticket(spec).map(drop),
            _ => continue,
        };
        // That has a rule of its own.
        let of_schedule = |field: &str| field == "spec.strategy.schedule";
        if let Err(invalid) = read
            && !(of_schedule(&invalid.field) && never_comes(object))
        {
            found.at(&object.root().along(&invalid.field), invalid.to_string());
        }
    }
}
