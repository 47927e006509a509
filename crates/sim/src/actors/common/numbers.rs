//! Numbers that may be percentages, and counts that are omitted when zero.

use serde_json::{Map, Value};

/// The rounding of a percentage.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Round {
    Up,
    Down,
}

/// A number, or a percentage of `total`; `None` if missing or invalid.
pub fn int_or_percent(value: &Value, total: i64, round: Round) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => {
            let percent: i64 = text.strip_suffix('%')?.parse().ok()?;
            let hundredfold = percent.checked_mul(total)?;
            Some(match round {
                Round::Up => (hundredfold + 99).div_euclid(100),
                Round::Down => hundredfold.div_euclid(100),
            })
        }
        _ => None,
    }
}

/// Adds counts to a status. Zero counts are omitted, as the API does in most cases.
pub fn put_counts(status: &mut Map<String, Value>, counts: &[(&str, i64)]) {
    for (name, count) in counts.iter().filter(|(_, count)| *count != 0) {
        status.insert((*name).to_owned(), (*count).into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn percentages_are_rounded_as_asked() {
        for (value, total, up, down) in [
            (json!("25%"), 10, Some(3), Some(2)),
            (json!("25%"), 4, Some(1), Some(1)),
            (json!("0%"), 4, Some(0), Some(0)),
            (json!("100%"), 3, Some(3), Some(3)),
            (json!(2), 3, Some(2), Some(2)),
            (json!(null), 3, None, None),
            (json!("two"), 3, None, None),
        ] {
            assert_eq!(int_or_percent(&value, total, Round::Up), up, "{value} of {total}");
            assert_eq!(int_or_percent(&value, total, Round::Down), down, "{value} of {total}");
        }
    }
}
