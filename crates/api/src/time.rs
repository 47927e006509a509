//! Times that are recorded in a status: RFC 3339 in UTC, always with milliseconds.

use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// A point in time, written as `2026-11-15T23:00:00.123Z`.
///
/// Kubernetes' own `Time` has whole seconds. A settle time of 500 ms that must survive a restart needs milliseconds.
/// With a finer resolution, two writers would differ without a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MilliTime(Timestamp);

impl MilliTime {
    /// Cuts `at` to whole milliseconds, so that a value that is written and read back compares equal.
    pub fn new(at: Timestamp) -> Self {
        Self(Timestamp::from_millisecond(at.as_millisecond()).unwrap_or(at))
    }

    pub fn get(self) -> Timestamp {
        self.0
    }
}

impl From<Timestamp> for MilliTime {
    fn from(at: Timestamp) -> Self {
        Self::new(at)
    }
}

impl fmt::Display for MilliTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.0)
    }
}

impl Serialize for MilliTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MilliTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Timestamp::deserialize(deserializer).map(Self::new)
    }
}

impl JsonSchema for MilliTime {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "MilliTime".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_are_always_written_and_nothing_finer() {
        for (at, text) in [
            ("2026-11-15T23:00:00Z", "2026-11-15T23:00:00.000Z"),
            ("2026-11-15T23:00:00.5Z", "2026-11-15T23:00:00.500Z"),
            ("2026-11-15T23:00:00.123999Z", "2026-11-15T23:00:00.123Z"),
        ] {
            let time = MilliTime::new(at.parse().unwrap());
            let json = serde_json::to_value(time).unwrap();
            assert_eq!(json, text);
            assert_eq!(serde_json::from_value::<MilliTime>(json).unwrap(), time);
        }
    }

    #[test]
    fn a_time_with_an_offset_is_read_as_the_same_moment() {
        let time: MilliTime = serde_json::from_value("2026-11-16T00:00:00+01:00".into()).unwrap();
        assert_eq!(time.to_string(), "2026-11-15T23:00:00.000Z");
    }
}
