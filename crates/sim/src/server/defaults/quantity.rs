//! Quantities such as `100m` and `1Gi`, and the one way in which the API server writes each of them.

use serde_json::Value;

/// Nothing is kept below this: 10^-9.
const NANO: i128 = 1_000_000_000;
const MILLI: i128 = 1_000_000;

const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Decimal,
    Exponent,
    Binary,
}

/// An amount in billionths.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

impl Quantity {
    pub fn of(value: &Value) -> Option<Quantity> {
        match value {
            Value::String(text) => Quantity::parse(text),
            Value::Number(number) => Quantity::parse(&number.to_string()),
            _ => None,
        }
    }

    pub fn parse(text: &str) -> Option<Quantity> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = format!("{whole}{fraction}");
        if digits.is_empty() || fraction.contains('.') {
            return None;
        }
        let mantissa: i128 = digits.parse().ok()?;
        let places = i32::try_from(fraction.len()).ok()?;
        let (nanos, format) = scaled(mantissa, places, suffix)?;
        Some(Quantity { nanos: if negative { -nanos } else { nanos }, format })
    }

    /// The sum, in the format of the first.
    pub fn plus(self, other: Quantity) -> Quantity {
        Quantity { nanos: self.nanos + other.nanos, ..self }
    }

    pub fn nanos(self) -> i128 {
        self.nanos
    }

    pub fn is_whole(self) -> bool {
        self.nanos % NANO == 0
    }

    /// As the API server writes it: the largest suffix with which no digits follow a point.
    pub fn canonical(self) -> String {
        let Quantity { nanos, format } = self;
        if nanos == 0 {
            return "0".into();
        }
        if format == Format::Binary && nanos % NANO == 0 && (nanos / NANO).abs() >= 1024 {
            let mut number = nanos / NANO;
            let mut power = 0;
            while number % 1024 == 0 && power < BINARY.len() {
                number /= 1024;
                power += 1;
            }
            return format!("{number}{}", if power == 0 { "" } else { BINARY[power - 1] });
        }
        let (mut number, mut exponent) = (nanos, -9);
        while number % 10 == 0 {
            number /= 10;
            exponent += 1;
        }
        while exponent % 3 != 0 || exponent > 18 {
            number *= 10;
            exponent -= 1;
        }
        match format {
            Format::Exponent if exponent != 0 => format!("{number}e{exponent}"),
            Format::Exponent | Format::Decimal | Format::Binary => {
                let suffix = DECIMAL.iter().find(|(_, power)| *power == exponent);
                format!("{number}{}", suffix.map_or("", |(suffix, _)| suffix))
            }
        }
    }
}

/// `mantissa` with `places` digits behind the point and a suffix, in billionths; what is smaller is rounded up.
fn scaled(mantissa: i128, places: i32, suffix: &str) -> Option<(i128, Format)> {
    if let Some(power) = BINARY.iter().position(|binary| *binary == suffix) {
        let factor = 1024_i128.checked_pow(u32::try_from(power).ok()? + 1)?;
        let nanos = mantissa.checked_mul(factor)?.checked_mul(NANO)?;
        return Some((divide_up(nanos, 10_i128.checked_pow(u32::try_from(places).ok()?)?), Format::Binary));
    }
    let decimal = DECIMAL.iter().find(|(decimal, _)| *decimal == suffix);
    let (exponent, format) = match decimal {
        Some((_, exponent)) => (*exponent, Format::Decimal),
        None => (suffix.strip_prefix(['e', 'E'])?.parse().ok()?, Format::Exponent),
    };
    let shift = exponent - places + 9;
    let power = 10_i128.checked_pow(shift.unsigned_abs())?;
    let nanos = if shift >= 0 { mantissa.checked_mul(power)? } else { divide_up(mantissa, power) };
    Some((nanos, format))
}

fn divide_up(number: i128, by: i128) -> i128 {
    number / by + i128::from(number % by > 0)
}

/// Rewrites a quantity in its canonical form; what is none stays.
pub fn canonicalize(value: &mut Value) {
    if let Some(quantity) = Quantity::of(value) {
        *value = quantity.canonical().into();
    }
}

pub fn round_up_to_milli(value: &mut Value) {
    if let Some(quantity) = Quantity::of(value)
        && quantity.nanos % MILLI != 0
    {
        let nanos = divide_up(quantity.nanos, MILLI) * MILLI;
        *value = Quantity { nanos, ..quantity }.canonical().into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_forms() {
        let forms = [
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1.5Gi", "1536Mi"),
            ("1024Mi", "1Gi"),
            ("1000Ki", "1000Ki"),
            ("0.5Ki", "512"),
            ("100000", "100k"),
            ("1e3", "1e3"),
            ("1500e0", "1500"),
            ("0", "0"),
            ("-1500m", "-1500m"),
            ("+2", "2"),
            ("1.1Ki", "1126400m"),
            ("12345678901", "12345678901"),
        ];
        for (given, canonical) in forms {
            let found = Quantity::parse(given).map(Quantity::canonical);
            assert_eq!(found.as_deref(), Some(canonical), "{given}");
        }
        for bad in ["", "x", "1.2.3", "1Q", ".", "--1"] {
            assert!(Quantity::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn small_parts_are_rounded_up() {
        let mut value = Value::from("1100u");
        round_up_to_milli(&mut value);
        assert_eq!(value, "2m");
    }
}
