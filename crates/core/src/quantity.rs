//! Kubernetes quantities: `100m`, `1.5Gi`, `12E`, `1e3`.
//!
//! Stored as whole billionths, the smallest unit in Kubernetes; smaller fractions are rounded away from zero. A quantity is
//! printed in canonical form, like the API server does: without a fraction, with the largest suffix that allows it.

use std::fmt;
use std::str::FromStr;

/// Billionths per unit.
const NANO: i128 = 1_000_000_000;
/// The greatest number of digits that fit into an `i128` of billionths.
const MOST_DIGITS: usize = 28;
/// Suffixes of powers of 1000, starting with 10^-9.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// Suffixes of powers of 1024, starting with 1024.
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// An amount, with the notation that it was written in.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nanos: i128,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `k`, `M`, `m`
    Decimal,
    /// `Ki`, `Mi`
    Binary,
    /// `1e3`
    Exponent,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("quantity {value:?}: {what}")]
pub struct Unreadable {
    pub value: String,
    pub what: &'static str,
}

const NO_NUMBER: &str = "unable to parse numeric part of quantity";
const NO_SUFFIX: &str = "unable to parse quantity's suffix";
const TOO_LONG: &str = "more than 28 digits";

impl Quantity {
    pub const fn new(nanos: i128, form: Form) -> Quantity {
        Quantity { nanos, form }
    }

    pub fn nanos(self) -> i128 {
        self.nanos
    }

    pub fn form(self) -> Form {
        self.form
    }

    pub fn is_whole(self) -> bool {
        self.nanos % NANO == 0
    }

    /// The amount in whole units, rounded up.
    pub fn value(self) -> i64 {
        self.per(NANO)
    }

    /// The amount in thousandths, rounded up: the unit of CPU.
    pub fn millis(self) -> i64 {
        self.per(NANO / 1000)
    }

    fn per(self, unit: i128) -> i64 {
        let up = self.nanos.div_euclid(unit) + i128::from(self.nanos.rem_euclid(unit) != 0);
        i64::try_from(up).unwrap_or(if up > 0 { i64::MAX } else { i64::MIN })
    }
}

/// Adds the amounts. The sum has the notation of the first.
impl std::ops::Add for Quantity {
    type Output = Quantity;

    fn add(self, other: Quantity) -> Quantity {
        Quantity { nanos: self.nanos + other.nanos, ..self }
    }
}

/// Compares amounts, independently of notation.
impl PartialEq for Quantity {
    fn eq(&self, other: &Quantity) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Quantity) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Quantity) -> std::cmp::Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl FromStr for Quantity {
    type Err = Unreadable;

    fn from_str(text: &str) -> Result<Quantity, Unreadable> {
        let wrong = |what| Unreadable { value: text.to_owned(), what };
        let (negative, rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let number_ends = rest.find(|is: char| !is.is_ascii_digit() && is != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(number_ends);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(wrong(NO_NUMBER));
        }
        let fraction = fraction.trim_end_matches('0');
        let digits = format!("{}{fraction}", whole.trim_start_matches('0'));
        if digits.len() > MOST_DIGITS {
            return Err(wrong(TOO_LONG));
        }
        let scale = read_suffix(suffix).ok_or_else(|| wrong(NO_SUFFIX))?;
        let mantissa: i128 =
            if digits.is_empty() { 0 } else { digits.parse().map_err(|_| wrong(NO_NUMBER))? };
        let places = i32::try_from(fraction.len()).map_err(|_| wrong(TOO_LONG))?;
        let nanos = scale.apply(mantissa, places).ok_or_else(|| wrong(TOO_LONG))?;
        Ok(Quantity { nanos: if negative { -nanos } else { nanos }, form: scale.form })
    }
}

/// The value of a suffix: `factor` times ten to the power of `ten`.
struct Scale {
    form: Form,
    factor: i128,
    ten: i32,
}

impl Scale {
    /// Returns the number of billionths, rounded up.
    fn apply(&self, mantissa: i128, places: i32) -> Option<i128> {
        let value = mantissa.checked_mul(self.factor)?;
        let ten = self.ten - places + 9;
        if ten >= 0 || value == 0 {
            return if value == 0 {
                Some(0)
            } else {
                value.checked_mul(10_i128.checked_pow(ten.unsigned_abs())?)
            };
        }
        match 10_i128.checked_pow(ten.unsigned_abs()) {
            Some(divisor) => Some(value / divisor + i128::from(value % divisor != 0)),
            None => Some(1),
        }
    }
}

fn read_suffix(suffix: &str) -> Option<Scale> {
    if let Some(at) = DECIMAL.iter().position(|is| *is == suffix) {
        return Some(Scale { form: Form::Decimal, factor: 1, ten: 3 * at as i32 - 9 });
    }
    if let Some(at) = BINARY.iter().position(|is| *is == suffix) {
        return Some(Scale { form: Form::Binary, factor: 1 << (10 * (at + 1)), ten: 0 });
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    // Larger exponents cannot occur in a number that fits.
    let ten = exponent.parse::<i32>().ok().filter(|ten| ten.abs() < 1000)?;
    Some(Scale { form: Form::Exponent, factor: 1, ten })
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let whole = self.nanos / NANO;
        if self.form == Form::Binary && self.nanos % NANO == 0 && whole.abs() >= 1024 {
            let (mut value, mut power) = (whole, 0);
            while value % 1024 == 0 && power < BINARY.len() {
                (value, power) = (value / 1024, power + 1);
            }
            let suffix = if power == 0 { "" } else { BINARY[power - 1] };
            return write!(f, "{value}{suffix}");
        }
        let (mut value, mut power) = (self.nanos, 0);
        while value % 1000 == 0 && power < DECIMAL.len() - 1 {
            (value, power) = (value / 1000, power + 1);
        }
        match self.form {
            Form::Exponent if power != 3 => write!(f, "{value}e{}", 3 * power as i32 - 9),
            _ => write!(f, "{value}{}", if self.form == Form::Exponent { "" } else { DECIMAL[power] }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Quantity {
        text.parse().unwrap_or_else(|wrong| panic!("{wrong}"))
    }

    #[test]
    fn amounts() {
        let values = [
            ("1.5Gi", 1_610_612_736),
            ("12E", i64::MAX),
            ("1e3", 1000),
            ("1E3", 1000),
            ("0.5", 1),
            ("100m", 1),
            ("-1500m", -1),
            ("-2Ki", -2048),
            (".5Ki", 512),
            ("5.", 5),
            ("+7", 7),
            ("0", 0),
            ("1e-3", 1),
        ];
        for (text, value) in values {
            assert_eq!(read(text).value(), value, "{text}");
        }
        assert_eq!(read("12E").nanos(), 12 * 10_i128.pow(27));
        assert_eq!((read("100m").millis(), read("0.1").millis(), read("1500u").millis()), (100, 100, 2));
        assert_eq!(read("0.1n").nanos(), 1);
        assert_eq!(read("1Gi"), read("1073741824"));
        assert!(read("1G") < read("1Gi"));
    }

    #[test]
    fn canonical_as_the_api_server_prints() {
        let forms = [
            ("1.5Gi", "1536Mi"),
            ("1024Ki", "1Mi"),
            ("512Ki", "512Ki"),
            ("1023", "1023"),
            ("0.5Ki", "512"),
            ("0.5Gi", "512Mi"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("0.1", "100m"),
            ("1000", "1k"),
            ("1234567", "1234567"),
            ("12000000", "12M"),
            ("1e3", "1e3"),
            ("1000e0", "1e3"),
            ("15e2", "1500"),
            ("12E", "12E"),
            ("0.0001", "100u"),
            ("-1500m", "-1500m"),
            ("-1Mi", "-1Mi"),
            ("00", "0"),
            ("1.5", "1500m"),
            ("1.25Ki", "1280"),
            ("0.3Ki", "307200m"),
            ("10000E", "10000E"),
        ];
        for (text, canonical) in forms {
            assert_eq!(read(text).to_string(), canonical, "{text}");
        }
    }

    #[test]
    fn refused() {
        let cases = [
            ("", NO_NUMBER),
            ("-", NO_NUMBER),
            ("Gi", NO_NUMBER),
            ("1.2.3", NO_NUMBER),
            ("1Qi", NO_SUFFIX),
            ("1 Gi", NO_SUFFIX),
            ("1K", NO_SUFFIX),
            ("1e", NO_SUFFIX),
            ("1e3.5", NO_SUFFIX),
            ("12345678901234567890123456789", TOO_LONG),
            ("1e30", TOO_LONG),
        ];
        for (text, what) in cases {
            let wrong = text.parse::<Quantity>().expect_err(text);
            assert_eq!((wrong.value.as_str(), wrong.what), (text, what));
        }
        let wrong = "1Qi".parse::<Quantity>().expect_err("no such suffix");
        assert_eq!(wrong.to_string(), "quantity \"1Qi\": unable to parse quantity's suffix");
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(
            nanos in -10_i128.pow(36)..10_i128.pow(36),
            form in prop_oneof![Just(Form::Decimal), Just(Form::Binary), Just(Form::Exponent)],
        ) {
            let quantity = Quantity::new(nanos, form);
            // Numbers that need more digits than allowed are rejected by the parser.
            if let Ok(again) = quantity.to_string().parse::<Quantity>() {
                prop_assert_eq!(again, quantity);
                prop_assert_eq!(again.to_string(), quantity.to_string());
            } else {
                prop_assert!(quantity.to_string().trim_start_matches('-').len() > MOST_DIGITS);
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[-+]?[0-9.]{0,32}[a-zA-Z0-9+-]{0,4}") {
            if let Ok(quantity) = text.parse::<Quantity>() {
                match quantity.to_string().parse::<Quantity>() {
                    Ok(again) => prop_assert_eq!(again, quantity),
                    Err(wrong) => prop_assert_eq!(wrong.what, TOO_LONG),
                }
            }
        }
    }
}
