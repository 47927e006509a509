//! Durations as Go and Kubernetes write them: `90s`, `5m`, `1h30m`, `1.5h`, `100ms`.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The syntax of a Go duration without a sign. A test compares it with the parser of `GoDuration`.
pub const PATTERN: &str = r"^(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$";

/// Maximum length of a duration. `8760h59m59.999999999s` has 21 characters; CEL estimates the cost of a rule from this
/// bound.
pub const MAX_LENGTH: usize = 32;

/// A year. A longer duration is most likely a mistyped unit; the bound also keeps sums far below the 292 years that Go
/// supports.
pub const MAX: Duration = Duration::from_secs(8760 * 3600);

/// A duration of zero or more, in the syntax of Go's `time.ParseDuration`, without a sign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(pub Duration);

/// Why a text is not a valid duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    #[error("must be a duration such as 90s, 5m or 1h30m, not negative")]
    Syntax,
    #[error("must be at most 8760h (a year)")]
    TooLong,
}

impl GoDuration {
    pub const ZERO: GoDuration = GoDuration(Duration::ZERO);

    pub fn get(self) -> Duration {
        self.0
    }
}

impl From<GoDuration> for Duration {
    fn from(duration: GoDuration) -> Duration {
        duration.0
    }
}

impl FromStr for GoDuration {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        if text == "0" {
            return Ok(Self::ZERO);
        }
        if text.is_empty() {
            return Err(ParseError::Syntax);
        }
        let (mut rest, mut nanos, mut too_long) = (text, 0u128, false);
        while !rest.is_empty() {
            let (whole, after_whole) = split_digits(rest);
            let (fraction, after_number) = match after_whole.strip_prefix('.') {
                Some(after_point) => split_digits(after_point),
                None => ("", after_whole),
            };
            if whole.is_empty() && fraction.is_empty() {
                return Err(ParseError::Syntax);
            }
            let (unit, after_unit) = split_unit(after_number).ok_or(ParseError::Syntax)?;
            rest = after_unit;
            match term(whole, fraction, unit) {
                Some(term) => nanos = nanos.saturating_add(term),
                None => too_long = true,
            }
        }
        if too_long || nanos > MAX.as_nanos() {
            return Err(ParseError::TooLong);
        }
        // A year in nanoseconds fits 55 bits.
        Ok(Self(Duration::from_nanos(nanos as u64)))
    }
}

/// `whole.fraction` units in nanoseconds, rounded down; `None` on overflow.
fn term(whole: &str, fraction: &str, unit: u64) -> Option<u128> {
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut nanos = whole.checked_mul(u128::from(unit))?;
    let mut place = u128::from(unit);
    // The sum is scaled by 10^18 to stay exact (an hour has 3.6 × 10^12 nanoseconds). A digit's share is cut off only
    // where its place is no longer a whole number of nanoseconds.
    let mut scaled = 0u128;
    const SCALE: u128 = 1_000_000_000_000_000_000;
    place = place.checked_mul(SCALE)?;
    for digit in fraction.bytes() {
        place /= 10;
        scaled += place * u128::from(digit - b'0');
    }
    nanos = nanos.checked_add(scaled / SCALE)?;
    Some(nanos)
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// Splits off the unit at the start of `text`, and returns it in nanoseconds.
fn split_unit(text: &str) -> Option<(u64, &str)> {
    // `ms` comes before `m`: the longer name is tried first.
    const UNITS: [(&str, u64); 8] = [
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("μs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ];
    UNITS.iter().find_map(|(name, nanos)| Some((*nanos, text.strip_prefix(name)?)))
}

/// Prints the shortest form: `1h30m` instead of `1h30m0s`, `1m30s`, `1.5s`, `100ms`, `0s`.
impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanos) = (self.0.as_secs(), self.0.subsec_nanos());
        if seconds == 0 {
            return match nanos {
                0 => f.write_str("0s"),
                1..1_000 => write!(f, "{nanos}ns"),
                1_000..1_000_000 => decimal(f, nanos / 1_000, nanos % 1_000, 3, "µs"),
                _ => decimal(f, nanos / 1_000_000, nanos % 1_000_000, 6, "ms"),
            };
        }
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, (seconds % 60) as u32);
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if minutes > 0 {
            write!(f, "{minutes}m")?;
        }
        if seconds > 0 || nanos > 0 {
            decimal(f, seconds, nanos, 9, "s")?;
        }
        Ok(())
    }
}

/// Prints `whole.fraction` without trailing zeros in the fraction.
fn decimal(f: &mut fmt::Formatter<'_>, whole: u32, fraction: u32, places: usize, unit: &str) -> fmt::Result {
    if fraction == 0 {
        return write!(f, "{whole}{unit}");
    }
    let digits = format!("{fraction:0places$}");
    write!(f, "{whole}.{}{unit}", digits.trim_end_matches('0'))
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(|error| de::Error::custom(format!("{text:?} {error}")))
    }
}

impl JsonSchema for GoDuration {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "GoDuration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "maxLength": MAX_LENGTH })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_go_reads_is_read_alike() {
        // The values are the results of Go's `time.ParseDuration`.
        for (text, nanos) in [
            ("0", 0),
            ("0s", 0),
            ("90s", 90_000_000_000),
            ("5m", 300_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("1.5h", 5_400_000_000_000),
            ("100ms", 100_000_000),
            ("1.s", 1_000_000_000),
            (".5s", 500_000_000),
            ("0.3s", 300_000_000),
            ("10us", 10_000),
            ("10µs", 10_000),
            ("10μs", 10_000),
            ("11ns", 11),
            ("0.1ns", 0),
            ("1.000000001s", 1_000_000_001),
            ("3m4.35s", 184_350_000_000),
            ("1m1h", 3_660_000_000_000),
            ("0.3333333333333333333h", 1_200_000_000_000 - 1),
            ("8760h", 31_536_000_000_000_000),
        ] {
            let duration: GoDuration = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(duration.0.as_nanos(), nanos, "{text}");
        }
    }

    #[test]
    fn what_go_refuses_or_we_do_is_refused() {
        for text in
            ["", "5", "s", ".s", "5 m", "-5s", "+5s", "1d", "1h 30m", "5m3", "1..5s", "1e3s", "5M", "∞"]
        {
            assert_eq!(text.parse::<GoDuration>(), Err(ParseError::Syntax), "{text}");
        }
        for text in ["8760h0.000000001s", "8761h", "99999999999999999999999999999999999999999999h"] {
            assert_eq!(text.parse::<GoDuration>(), Err(ParseError::TooLong), "{text}");
        }
    }

    #[test]
    fn the_shortest_form_is_printed() {
        for (text, printed) in [
            ("0", "0s"),
            ("90s", "1m30s"),
            ("60m", "1h"),
            ("1h30m0s", "1h30m"),
            ("1h0m5s", "1h5s"),
            ("1500ms", "1.5s"),
            ("0.1s", "100ms"),
            ("1500us", "1.5ms"),
            ("1500ns", "1.5µs"),
            ("7ns", "7ns"),
        ] {
            assert_eq!(text.parse::<GoDuration>().unwrap().to_string(), printed);
        }
    }

    proptest! {
        #[test]
        fn printed_and_read_back_is_the_same(nanos in 0..=MAX.as_nanos() as u64) {
            let duration = GoDuration(Duration::from_nanos(nanos));
            let text = duration.to_string();
            prop_assert!(text.chars().count() <= MAX_LENGTH);
            prop_assert_eq!(text.parse(), Ok(duration));
        }

        #[test]
        fn the_pattern_and_the_parser_agree(text in "[0-9.hmsunµ]{0,8}") {
            let pattern = regex::Regex::new(PATTERN).unwrap();
            prop_assert_eq!(pattern.is_match(&text), text.parse::<GoDuration>() != Err(ParseError::Syntax));
        }
    }
}
