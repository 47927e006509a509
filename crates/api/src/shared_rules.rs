//! Rules for parts that the custom resources share: names, labels, selectors, durations. Each is in CEL, with the same
//! condition in Rust beside it.

use crate::duration::{self, GoDuration, ParseError};
use crate::forms::{self, is_qualified_name};
use crate::rule::{Rule, ensure, list};
use serde_json::Value;

const QUALIFIED_NAME_MESSAGE: &str = "must be a name such as example.com/name: letters, digits, '-', '_' and '.', at \
    most 63 characters, after an optional DNS name and a slash";

/// All of these rules.
pub fn all() -> Vec<Rule> {
    [qualified_name(), duration(), label_keys(), label_key(), selector(), requirement()]
        .into_iter()
        .flatten()
        .collect()
}

/// The CEL condition for a qualified name. The pattern does not limit the length before the slash.
pub fn qualified(name: &str) -> String {
    format!(
        "{name}.matches(r'{}') && {name}.indexOf('/') <= {}",
        forms::QUALIFIED_NAME_PATTERN,
        forms::SUBDOMAIN
    )
}

pub fn fits_qualified(text: &str) -> bool {
    is_qualified_name(text) && text.find('/').is_none_or(|at| at <= forms::SUBDOMAIN)
}

/// Rules for a qualified name, such as that of a gate.
pub fn qualified_name() -> Vec<Rule> {
    vec![Rule::new(qualified("self"), QUALIFIED_NAME_MESSAGE, |name| {
        ensure(name.as_str().is_some_and(fits_qualified), || QUALIFIED_NAME_MESSAGE.into())
    })]
}

/// Rules for a duration.
pub fn duration() -> Vec<Rule> {
    let form = format!("self.matches(r'{}')", duration::PATTERN);
    vec![
        Rule::new(form.clone(), ParseError::Syntax.to_string(), |value| match parse_duration(value) {
            Err(ParseError::Syntax) => Err(ParseError::Syntax.to_string()),
            Err(ParseError::TooLong) | Ok(_) => Ok(()),
        }),
        Rule::new(
            format!("!({form}) || duration(self) <= duration('8760h')"),
            ParseError::TooLong.to_string(),
            |value| match parse_duration(value) {
                Err(ParseError::TooLong) => Err(ParseError::TooLong.to_string()),
                Err(ParseError::Syntax) | Ok(_) => Ok(()),
            },
        ),
    ]
}

pub fn parse_duration(value: &Value) -> Result<GoDuration, ParseError> {
    value.as_str().ok_or(ParseError::Syntax)?.parse()
}

/// Rules for a map of labels.
pub fn label_keys() -> Vec<Rule> {
    let good = qualified("k");
    vec![
        Rule::new(
            format!("self.all(k, {good})"),
            format!("the key of a label {QUALIFIED_NAME_MESSAGE}"),
            |labels| {
                let mut keys = labels.as_object().into_iter().flat_map(|labels| labels.keys());
                match keys.find(|key| !fits_qualified(key)) {
                    Some(key) => Err(format!("the key \"{key}\" {QUALIFIED_NAME_MESSAGE}")),
                    None => Ok(()),
                }
            },
        )
        .expression(format!(
            "'the key \"' + self.filter(k, !({good}))[0] + '\" {}'",
            QUALIFIED_NAME_MESSAGE.replace('\'', "\\'")
        )),
    ]
}

/// Rules for the key of an expression. They check only what its pattern does not: with the pattern, the rule would
/// exceed the API server's cost limit twelve times.
pub fn label_key() -> Vec<Rule> {
    vec![Rule::new(
        format!("self.indexOf('/') <= {}", forms::SUBDOMAIN),
        format!("must have at most {} characters before the slash", forms::SUBDOMAIN),
        |key| {
            let before = key.as_str().and_then(|key| key.find('/')).unwrap_or_default();
            ensure(before <= forms::SUBDOMAIN, || {
                format!("must have at most {} characters before the slash", forms::SUBDOMAIN)
            })
        },
    )]
}

/// Rules for a selector of pods that must not select all pods.
pub fn selector() -> Vec<Rule> {
    vec![Rule::new(
        "(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && \
         size(self.matchExpressions) > 0)",
        EMPTY_SELECTOR,
        |selector| {
            let labels = selector["matchLabels"].as_object().is_some_and(|labels| !labels.is_empty());
            ensure(labels || !list(selector, "matchExpressions").is_empty(), || EMPTY_SELECTOR.into())
        },
    )]
}

const EMPTY_SELECTOR: &str = "must not be empty: it would select every pod in the namespace";

/// Rules for each of `matchExpressions`.
pub fn requirement() -> Vec<Rule> {
    vec![
        Rule::new(
            "!(self.operator in ['In', 'NotIn']) || (has(self.values) && size(self.values) > 0)",
            "In and NotIn need at least one value",
            |requirement| {
                let needs = requirement["operator"] == "In" || requirement["operator"] == "NotIn";
                ensure(!needs || !list(requirement, "values").is_empty(), || {
                    "In and NotIn need at least one value".into()
                })
            },
        )
        .at(".values")
        .reason("FieldValueRequired"),
        Rule::new(
            "!(self.operator in ['Exists', 'DoesNotExist']) || !has(self.values) || size(self.values) == 0",
            "Exists and DoesNotExist take no values",
            |requirement| {
                let bare = requirement["operator"] == "Exists" || requirement["operator"] == "DoesNotExist";
                ensure(!bare || list(requirement, "values").is_empty(), || {
                    "Exists and DoesNotExist take no values".into()
                })
            },
        )
        .at(".values")
        .reason("FieldValueForbidden"),
    ]
}
