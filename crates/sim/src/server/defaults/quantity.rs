//! Quantities in objects: strings or numbers, which the API server writes in a canonical form.

use rollcall_core::quantity::Quantity;
use serde_json::Value;

const MILLI: i128 = 1_000_000;

pub fn parse(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    }
}

/// Rewrites a quantity in canonical form. Other values stay unchanged.
pub fn canonicalize(value: &mut Value) {
    if let Some(quantity) = parse(value) {
        *value = quantity.to_string().into();
    }
}

pub fn round_up_to_milli(value: &mut Value) {
    if let Some(quantity) = parse(value)
        && quantity.nanos() % MILLI != 0
    {
        let up = quantity.nanos().div_euclid(MILLI) + 1;
        *value = Quantity::new(up * MILLI, quantity.form()).to_string().into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_numbers() {
        for (given, canonical) in [
            (Value::from("1000m"), "1"),
            (1.5.into(), "1500m"),
            (100_000.into(), "100k"),
            ("1.5Gi".into(), "1536Mi"),
        ] {
            let mut value = given.clone();
            canonicalize(&mut value);
            assert_eq!(value, canonical, "{given}");
        }
        let mut none = Value::from("much");
        canonicalize(&mut none);
        assert_eq!(none, "much");
    }

    #[test]
    fn small_parts_are_rounded_up() {
        for (given, rounded) in [("1100u", "2m"), ("-1100u", "-1m"), ("5m", "5m")] {
            let mut value = Value::from(given);
            round_up_to_milli(&mut value);
            assert_eq!(value, rounded);
        }
    }
}
