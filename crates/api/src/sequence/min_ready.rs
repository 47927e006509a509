//! `minReady`: a number of pods or a percentage.

use super::limits;
use super::rules;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// How many of the expected members must have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MinReady {
    Count(u32),
    /// 0 to 100.
    Percent(u8),
}

impl Default for MinReady {
    fn default() -> Self {
        MinReady::Percent(100)
    }
}

impl fmt::Display for MinReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MinReady::Count(count) => write!(f, "{count}"),
            MinReady::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// A text must be a percentage. A number in quotes is rejected, as Kubernetes does for `maxUnavailable`.
impl FromStr for MinReady {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.strip_suffix('%').ok_or(rules::MIN_READY_MESSAGE)?;
        let canonical = digits == "0" || (digits.starts_with(|c: char| c.is_ascii_digit() && c != '0'));
        match digits.parse::<u8>() {
            Ok(percent @ 0..=100) if canonical => Ok(MinReady::Percent(percent)),
            _ => Err(rules::MIN_READY_MESSAGE),
        }
    }
}

impl Serialize for MinReady {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            MinReady::Count(count) => serializer.serialize_u32(*count),
            MinReady::Percent(_) => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for MinReady {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = MinReady;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of pods or a percentage")
            }

            fn visit_u64<E: de::Error>(self, count: u64) -> Result<MinReady, E> {
                let count = u32::try_from(count).ok().filter(|count| *count <= limits::COUNT);
                count.map(MinReady::Count).ok_or_else(|| E::custom(rules::MIN_READY_MESSAGE))
            }

            fn visit_i64<E: de::Error>(self, count: i64) -> Result<MinReady, E> {
                u64::try_from(count)
                    .map_err(|_| E::custom(rules::MIN_READY_MESSAGE))
                    .and_then(|count| self.visit_u64(count))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<MinReady, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for MinReady {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "MinReady".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "x-kubernetes-int-or-string": true, "maxLength": limits::MIN_READY })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_and_percentages_are_read_and_written_back() {
        for (value, expected) in [
            (json!(0), MinReady::Count(0)),
            (json!(3), MinReady::Count(3)),
            (json!(1_000_000), MinReady::Count(1_000_000)),
            (json!("0%"), MinReady::Percent(0)),
            (json!("5%"), MinReady::Percent(5)),
            (json!("100%"), MinReady::Percent(100)),
        ] {
            assert_eq!(serde_json::from_value::<MinReady>(value.clone()).unwrap(), expected);
            assert_eq!(serde_json::to_value(expected).unwrap(), value);
        }
    }

    #[test]
    fn everything_else_is_refused() {
        for value in [
            json!(-1),
            json!(1_000_001),
            json!(1.5),
            json!("3"),
            json!("101%"),
            json!("05%"),
            json!("+5%"),
            json!("%"),
            json!("-5%"),
            json!("5 %"),
            json!(true),
        ] {
            assert!(serde_json::from_value::<MinReady>(value.clone()).is_err(), "{value}");
        }
    }
}
