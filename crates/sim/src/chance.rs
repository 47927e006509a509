//! Chance from a seed: the same seed, the same run.

/// xorshift64*: small, quick, and the same everywhere.
#[derive(Clone, Debug)]
pub struct Chance(u64);

/// The letters and digits of which the API server makes the ends of generated names.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

impl Chance {
    pub fn seeded(seed: u64) -> Chance {
        // Spread, so that neighbouring seeds do not begin alike; zero is the one state it cannot leave.
        let spread = seed.wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        Chance((spread ^ (spread >> 31)).max(1))
    }

    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `bound`; 0 for a bound of 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { (self.number() >> 11) % bound }
    }

    /// True in `part` of `whole` cases.
    pub fn one_in(&mut self, whole: u64) -> bool {
        self.below(whole) == 0
    }

    /// A uid in the form of a random UUID.
    pub fn uid(&mut self) -> String {
        let (high, low) = (self.number(), self.number());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            0x8000 | (low >> 48) & 0x3fff,
            low & 0xffff_ffff_ffff
        )
    }

    /// The end of a generated name.
    pub fn suffix(&mut self) -> String {
        (0..5).map(|_| LETTERS[self.below(LETTERS.len() as u64) as usize] as char).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_names() {
        let names = |seed| {
            let mut chance = Chance::seeded(seed);
            (chance.uid(), chance.suffix())
        };
        assert_eq!(names(3), names(3));
        assert_ne!(names(3), names(4));
        let (uid, _) = names(3);
        assert_eq!((uid.len(), &uid[14..15]), (36, "4"));
    }
}
