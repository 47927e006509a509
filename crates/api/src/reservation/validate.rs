//! Validation of an `Order` and a `Ticket`: the checks of the API server, and those that only the controller can make. Schedules
//! and time zones need more than a pattern, and a schema cannot count bytes.

use super::limits;
use super::spec::{self, OrderSpec, TicketSpec};
use crate::definition::Custom;
use crate::validate::{self, InvalidSpec};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use rollcall_core::schedule::Schedule;
use serde::Serialize;
use serde_json::Value;

/// Parses and validates the `spec` of an `Order`. Accepts any JSON value, and returns the first error that it finds.
pub fn parse_order(spec: &Value) -> Result<OrderSpec, InvalidSpec> {
    let order: OrderSpec = validate::parse(Custom::Order, spec)?;
    check_size("spec.template", &order.template)?;
    check_schedule(&order.strategy)?;
    Ok(order)
}

/// Parses and validates the `spec` of a `Ticket`, like [`parse_order`].
pub fn parse_ticket(spec: &Value) -> Result<TicketSpec, InvalidSpec> {
    let ticket = validate::parse(Custom::Ticket, spec)?;
    check_size("spec", &ticket)?;
    Ok(ticket)
}

fn check_size(field: &str, part: &impl Serialize) -> Result<(), InvalidSpec> {
    let bytes = serde_json::to_vec(part).map_or(usize::MAX, |text| text.len());
    match bytes <= limits::TICKET_BYTES {
        true => Ok(()),
        false => Err(InvalidSpec {
            field: field.to_owned(),
            value: None,
            expected: format!("must be at most {} bytes, not {bytes}", limits::TICKET_BYTES),
        }),
    }
}

fn check_schedule(strategy: &spec::Strategy) -> Result<(), InvalidSpec> {
    let wrong = |field: &str, value: &str, expected: String| InvalidSpec {
        field: format!("spec.strategy.{field}"),
        value: Some(Value::from(value).to_string()),
        expected,
    };
    let zone = TimeZone::get(&strategy.time_zone).map_err(|_| {
        wrong("timeZone", &strategy.time_zone, "must be a time zone such as UTC or Europe/Berlin".into())
    })?;
    let Some(text) = &strategy.schedule else { return Ok(()) };
    let schedule = Schedule::parse(text).map_err(|invalid| {
        wrong("schedule", text, format!("must be a schedule such as 0 */6 * * *: {invalid}"))
    })?;
    match schedule.next(SOME_TIME, &zone) {
        Some(_) => Ok(()),
        None => {
            Err(wrong("schedule", text, "must be a schedule that occurs at least once; it never does".into()))
        }
    }
}

/// The start of the search for the next time of a schedule. The years that are searched contain every date, also 29
/// February.
const SOME_TIME: Timestamp = Timestamp::UNIX_EPOCH;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn order(strategy: Value) -> Value {
        json!({ "strategy": strategy, "template": { "spec": { "resources": { "requests": { "cpu": 1 } } } } })
    }

    #[test]
    fn what_no_pattern_can_say_is_said() {
        for (strategy, said) in [
            (
                json!({ "type": "Recurring", "schedule": "0 20-8 * * *" }),
                r#"spec.strategy.schedule: "0 20-8 * * *" must be a schedule such as 0 */6 * * *: "20-8" is not a value or ascending range from 0 to 23"#,
            ),
            (
                json!({ "type": "Scheduled", "schedule": "0 0 31 2 *" }),
                r#"spec.strategy.schedule: "0 0 31 2 *" must be a schedule that occurs at least once; it never does"#,
            ),
            (
                json!({ "timeZone": "Mars/Olympus" }),
                r#"spec.strategy.timeZone: "Mars/Olympus" must be a time zone such as UTC or Europe/Berlin"#,
            ),
        ] {
            assert_eq!(parse_order(&order(strategy)).unwrap_err().to_string(), said);
        }
        for strategy in [
            json!({}),
            json!({ "type": "Recurring", "schedule": "0 0 29 2 *" }),
            json!({ "type": "Scheduled", "schedule": "@daily", "timeZone": "America/Argentina/ComodRivadavia" }),
            json!({ "type": "Scheduled", "schedule": "30 8 * * 7", "timeZone": "Etc/GMT+12" }),
        ] {
            parse_order(&order(strategy)).unwrap();
        }
    }

    #[test]
    fn defaults_stand_in_what_is_read_and_a_duration_is_none_of_them() {
        let read = serde_json::to_value(parse_order(&order(json!({}))).unwrap()).unwrap();
        let expected = json!({
            "paused": false, "replicas": 1, "daemonSet": false, "minReadySeconds": 0,
            "strategy": { "type": "OneTime", "timeZone": "UTC", "refreshPolicy": "OnClaim" },
            "template": { "spec": {
                "lifecycle": { "ttlSecondsAfterFinished": 3600, "cleanupPolicy": "Delete" },
                "resources": { "requests": { "cpu": "1" } },
            } },
        });
        assert_eq!(read, expected);
    }

    #[test]
    fn anything_at_all_gets_an_answer() {
        for spec in [json!(null), json!([]), json!("x"), json!(1), json!({}), json!({ "template": [[]] })] {
            assert!(parse_order(&spec).unwrap_err().field.starts_with("spec"), "{spec}");
            assert!(parse_ticket(&spec).unwrap_err().field.starts_with("spec"), "{spec}");
        }
    }

    proptest! {
        #[test]
        fn no_spec_makes_it_panic(spec in arbitrary()) {
            let _ = parse_order(&spec);
            let _ = parse_ticket(&spec);
        }
    }

    fn arbitrary() -> impl proptest::strategy::Strategy<Value = Value> {
        let scalar = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[a-zA-Z0-9%./ *-]{0,9}".prop_map(Value::from),
            Just(json!("Recurring")),
            Just(json!("Exists")),
        ];
        let names = prop::sample::select(vec![
            "template",
            "spec",
            "metadata",
            "labels",
            "strategy",
            "type",
            "schedule",
            "timeZone",
            "resources",
            "requests",
            "limits",
            "cpu",
            "tolerations",
            "key",
            "operator",
            "values",
            "affinity",
            "nodeAffinity",
            "startTime",
            "requiredDuringSchedulingIgnoredDuringExecution",
            "nodeSelectorTerms",
            "matchExpressions",
            "duration",
            "topologySpreadConstraints",
            "topologyKey",
            "selector",
        ]);
        scalar.prop_recursive(8, 64, 6, move |inner| {
            let names = names.clone();
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((names, inner), 0..6).prop_map(|fields| fields
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value))
                    .collect()),
            ]
        })
    }
}
