//! Uids: the identity of objects, which a name is not.

use crate::hash::fnv1a64;
use std::fmt;

/// A Kubernetes uid, stored as 16 bytes instead of 36 characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(u128);

impl Uid {
    /// Parses the canonical form (`8-4-4-4-12` hexadecimal digits, lower case), which the API server gives to every object.
    /// Other text is replaced by its digest, so that no object is rejected because of its uid.
    pub fn new(text: &str) -> Uid {
        Uid::parse(text).unwrap_or_else(|| Uid::digest(text))
    }

    fn parse(text: &str) -> Option<Uid> {
        let mut value: u128 = 0;
        if text.len() != 36 {
            return None;
        }
        for (position, byte) in text.bytes().enumerate() {
            let dash = matches!(position, 8 | 13 | 18 | 23);
            match byte {
                b'-' if dash => {}
                b'0'..=b'9' if !dash => value = value << 4 | u128::from(byte - b'0'),
                b'a'..=b'f' if !dash => value = value << 4 | u128::from(byte - b'a' + 10),
                _ => return None,
            }
        }
        Some(Uid(value))
    }

    /// Derives a uid from any text. Tests use it to name pods.
    pub fn digest(text: &str) -> Uid {
        let low = fnv1a64(text.as_bytes());
        let high = fnv1a64(format!("{text}\u{0}{low:x}").as_bytes());
        Uid(u128::from(high) << 64 | u128::from(low))
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = format!("{:032x}", self.0);
        write!(f, "{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::Uid;

    #[test]
    fn canonical_text_survives() {
        let text = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9";
        assert_eq!(Uid::new(text).to_string(), text);
    }

    #[test]
    fn other_text_is_digested_and_distinct() {
        for odd in
            ["", "pod-1", "0A1B2C3D-4E5F-6071-8293-A4B5C6D7E8F9", "0a1b2c3d+4e5f-6071-8293-a4b5c6d7e8f9"]
        {
            assert_eq!(Uid::new(odd), Uid::digest(odd));
        }
        assert_ne!(Uid::digest("a"), Uid::digest("b"));
    }
}
