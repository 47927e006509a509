//! CEL rules of an `Order` and a `Ticket`, for constraints that the schema cannot express. Each rule has the same check in Rust.

use super::cron;
use crate::duration;
use crate::rule::{Rule, ensure, has, list};
use crate::shared_rules::{self, parse_duration};
use rollcall_core::quantity::Quantity;
use serde_json::Value;
use std::time::Duration;

/// Returns all rules that are specific to `Order` and `Ticket`.
pub fn all() -> Vec<Rule> {
    let rules = [
        order(),
        strategy(),
        strategy_type(),
        schedule(),
        duration(),
        resources(),
        resource_names(),
        amount(),
        node_requirement(),
        toleration(),
        spread(),
    ];
    rules.into_iter().flatten().collect()
}

/// Rules on the `spec` of an Order.
pub fn order() -> Vec<Rule> {
    vec![
        Rule::new("!self.daemonSet || !has(self.template.spec.nodeName)", NAME_IN_DAEMON_SET_MODE, |order| {
            let named = has(&order["template"]["spec"], "nodeName");
            ensure(order["daemonSet"] != true || !named, || NAME_IN_DAEMON_SET_MODE.into())
        })
        .at(".template.spec.nodeName")
        .reason("FieldValueForbidden"),
    ]
}

const NAME_IN_DAEMON_SET_MODE: &str = "an Order with daemonSet: true selects its nodes by nodeSelector, affinity and tolerations; remove nodeName";

/// Rules on `spec.strategy`.
pub fn strategy() -> Vec<Rule> {
    vec![
        Rule::new("self.type == 'OneTime' || has(self.schedule)", "must be set for this type", |strategy| {
            ensure(strategy["type"] == "OneTime" || has(strategy, "schedule"), || {
                format!("must be set for type {}", word(strategy, "type"))
            })
        })
        .expression("'must be set for type ' + self.type")
        .at(".schedule")
        .reason("FieldValueRequired"),
        Rule::new("self.type != 'OneTime' || !has(self.schedule)", SCHEDULE_OF_ONE_TIME, |strategy| {
            ensure(strategy["type"] != "OneTime" || !has(strategy, "schedule"), || {
                SCHEDULE_OF_ONE_TIME.into()
            })
        })
        .at(".schedule")
        .reason("FieldValueForbidden"),
    ]
}

const SCHEDULE_OF_ONE_TIME: &str =
    "must not be set for type OneTime; remove schedule, or set type to Scheduled or Recurring";

/// Rules on `spec.strategy.type`.
pub fn strategy_type() -> Vec<Rule> {
    vec![
        Rule::on_change("self == oldSelf", "cannot be changed; create another Order", |old, new| {
            ensure(old == new, || {
                let (old, new) = (old.as_str().unwrap_or_default(), new.as_str().unwrap_or_default());
                format!("cannot be changed from {old} to {new}; create another Order")
            })
        })
        .expression("'cannot be changed from %s to %s; create another Order'.format([oldSelf, self])"),
    ]
}

/// Rules on `spec.strategy.schedule`.
pub fn schedule() -> Vec<Rule> {
    vec![Rule::new(format!("self.matches(r'{}')", cron::pattern()), cron::MESSAGE, |schedule| {
        ensure(schedule.as_str().is_some_and(cron::fits), || cron::MESSAGE.into())
    })]
}

/// Rules on `duration`.
pub fn duration() -> Vec<Rule> {
    let mut rules = shared_rules::duration();
    rules.push(Rule::new(
        format!("!self.matches(r'{}') || duration(self) > duration('0s')", duration::PATTERN),
        NO_TIME,
        |value| {
            let none = parse_duration(value).is_ok_and(|duration| duration.get() == Duration::ZERO);
            ensure(!none, || NO_TIME.into())
        },
    ));
    rules
}

const NO_TIME: &str = "must be longer than 0s; omit duration for 24h";

/// Rules on `resources`.
pub fn resources() -> Vec<Rule> {
    // The rule on amounts rejects invalid quantities. `isQuantity` prevents an evaluation error of this rule in that case.
    let amount = |of: &str| format!("string(self.{of}[k])");
    let (requested, limit) = (amount("requests"), amount("limits"));
    let more = format!(
        "k in self.limits && isQuantity({requested}) && isQuantity({limit}) && \
         quantity({requested}).isGreaterThan(quantity({limit}))"
    );
    vec![
        Rule::new(
            format!("!has(self.limits) || !self.requests.exists(k, {more})"),
            "a request must not exceed its limit",
            requests_are_within_limits,
        )
        .expression(format!(
            "[self.requests.filter(k, {more})[0]].map(k, 'the request of %s, %s, must not exceed its limit, \
             %s'.format([k, {requested}, {limit}]))[0]"
        ))
        .at(".requests"),
    ]
}

fn requests_are_within_limits(resources: &Value) -> Result<(), String> {
    for (name, requested) in resources["requests"].as_object().into_iter().flatten() {
        let limit = &resources["limits"][name];
        let more = matches!((quantity(requested), quantity(limit)), (Some(requested), Some(limit)) if requested > limit);
        ensure(!more, || {
            let (requested, limit) = (plain(requested), plain(limit));
            format!("the request of {name}, {requested}, must not exceed its limit, {limit}")
        })?;
    }
    Ok(())
}

/// Rules on `requests` and `limits`.
pub fn resource_names() -> Vec<Rule> {
    let standard = STANDARD.map(|name| format!("'{name}'")).join(", ");
    let good = format!(
        "(k in [{standard}] || k.startsWith('{HUGE_PAGES}') || k.contains('/')) && {}",
        shared_rules::qualified("k")
    );
    vec![
        Rule::new(
            format!("self.all(k, {good})"),
            format!("the name of a resource {RESOURCE_NAME}"),
            |resources| {
                let mut names = resources.as_object().into_iter().flat_map(|resources| resources.keys());
                match names.find(|name| !is_resource(name)) {
                    Some(name) => Err(format!("the resource \"{name}\" {RESOURCE_NAME}")),
                    None => Ok(()),
                }
            },
        )
        .expression(format!("'the resource \"' + self.filter(k, !({good}))[0] + '\" {RESOURCE_NAME}'")),
    ]
}

const STANDARD: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
const HUGE_PAGES: &str = "hugepages-";
const RESOURCE_NAME: &str =
    "must be cpu, memory, ephemeral-storage, hugepages-SIZE or an extended resource such as nvidia.com/gpu";

fn is_resource(name: &str) -> bool {
    let known = STANDARD.contains(&name) || name.starts_with(HUGE_PAGES) || name.contains('/');
    known && shared_rules::fits_qualified(name)
}

/// Rules on each amount of a resource.
pub fn amount() -> Vec<Rule> {
    vec![Rule::new(
        format!(
            "isQuantity(string(self)) && !quantity(string(self)).isLessThan(quantity('0')) && \
             !quantity(string(self)).isGreaterThan(quantity('{LARGEST_AMOUNT}'))"
        ),
        AMOUNT,
        |value| {
            let most: Option<Quantity> = LARGEST_AMOUNT.parse().ok();
            let good = quantity(value).is_some_and(|amount| amount.nanos() >= 0 && Some(amount) <= most);
            ensure(good, || AMOUNT.into())
        },
    )]
}

/// The largest permitted amount: a billion gigabytes. A larger amount is most likely a mistyped unit. The bound also keeps the
/// sum over all tickets exact.
const LARGEST_AMOUNT: &str = "1E";
const AMOUNT: &str = "must be a quantity from 0 to 1E, such as 500m, 2 or 1.5Gi";

fn quantity(value: &Value) -> Option<Quantity> {
    plain(value).parse().ok()
}

/// Formats a value like `string(…)` in CEL.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Rules on each requirement on the labels of nodes.
pub fn node_requirement() -> Vec<Rule> {
    let mut rules = shared_rules::requirement();
    rules.push(
        Rule::new(
            "!(self.operator in ['Gt', 'Lt']) || (has(self.values) && size(self.values) == 1 && \
             self.values[0].matches('^[0-9]{1,18}$'))",
            ONE_NUMBER,
            |requirement| {
                let values = list(requirement, "values");
                let compares = requirement["operator"] == "Gt" || requirement["operator"] == "Lt";
                ensure(!compares || matches!(values, [value] if is_number(value)), || ONE_NUMBER.into())
            },
        )
        .at(".values"),
    );
    rules
}

const ONE_NUMBER: &str = "must be exactly one non-negative integer for Gt and Lt";

fn is_number(value: &Value) -> bool {
    let digits =
        |text: &str| (1..=18).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    value.as_str().is_some_and(digits)
}

/// Rules on each toleration.
pub fn toleration() -> Vec<Rule> {
    let exists = "has(self.operator) && self.operator == 'Exists'";
    vec![
        Rule::new(format!("has(self.key) || ({exists})"), NO_KEY, |toleration| {
            ensure(has(toleration, "key") || toleration["operator"] == "Exists", || NO_KEY.into())
        })
        .at(".operator"),
        Rule::new(
            format!("!({exists}) || !has(self.value) || self.value == ''"),
            "must be empty when operator is Exists",
            |toleration| {
                let value = toleration["value"].as_str().unwrap_or_default();
                ensure(toleration["operator"] != "Exists" || value.is_empty(), || {
                    "must be empty when operator is Exists".into()
                })
            },
        )
        .at(".value")
        .reason("FieldValueForbidden"),
        Rule::new(
            "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            "must be NoExecute when tolerationSeconds is set",
            |toleration| {
                let seconds = has(toleration, "tolerationSeconds");
                ensure(!seconds || toleration["effect"] == "NoExecute", || {
                    "must be NoExecute when tolerationSeconds is set".into()
                })
            },
        )
        .at(".effect"),
    ]
}

const NO_KEY: &str = "must be Exists when key is missing";

/// Rules on each topology spread constraint.
pub fn spread() -> Vec<Rule> {
    vec![
        Rule::new(
            "!has(self.minDomains) || self.whenUnsatisfiable == 'DoNotSchedule'",
            "must not be set unless whenUnsatisfiable is DoNotSchedule",
            |spread| {
                ensure(!has(spread, "minDomains") || spread["whenUnsatisfiable"] == "DoNotSchedule", || {
                    "must not be set unless whenUnsatisfiable is DoNotSchedule".into()
                })
            },
        )
        .at(".minDomains")
        .reason("FieldValueForbidden"),
    ]
}

fn word<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}
