//! Random numbers from a seed. The same seed gives the same run.

/// A xorshift64* generator: small, fast and identical on all platforms.
#[derive(Clone, Debug)]
pub struct Chance(u64);

/// The characters that the API server uses for the suffixes of generated names.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

impl Chance {
    pub fn seeded(seed: u64) -> Chance {
        // The seed is mixed so that neighbouring seeds give different sequences. Zero is excluded because the generator
        // cannot leave it.
        let spread = seed.wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        Chance((spread ^ (spread >> 31)).max(1))
    }

    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `bound`, or 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { (self.number() >> 11) % bound }
    }

    /// Returns true in one of `whole` cases on average.
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

    /// The suffix of a generated name.
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
