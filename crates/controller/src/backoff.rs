//! Back-off: waits that double up to a limit, with jitter from a seed, so that runs are reproducible.

use std::time::Duration;

/// A small random number generator (xorshift64*): jitter needs spread, not secrecy.
#[derive(Clone, Debug)]
pub struct Jitter(u64);

impl Jitter {
    pub fn seeded(seed: u64) -> Jitter {
        // The generator cannot leave state zero.
        Jitter(seed.max(1))
    }

    /// Returns a number in 0..1.
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns the wait before attempt `attempt` (counted from 0): between half and all of `first`, doubled for each attempt up
    /// to `most`.
    pub fn wait(&mut self, attempt: u32, first: Duration, most: Duration) -> Duration {
        let full = first.saturating_mul(1u32 << attempt.min(16)).min(most);
        full.mul_f64(0.5 + self.next() / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_within_bounds_and_repeats_with_its_seed() {
        let (first, most) = (Duration::from_millis(100), Duration::from_secs(2));
        let run = |seed| -> Vec<Duration> {
            let mut jitter = Jitter::seeded(seed);
            (0..40).map(|attempt| jitter.wait(attempt, first, most)).collect()
        };
        let waits = run(7);
        for (attempt, wait) in waits.iter().enumerate() {
            let full = first.saturating_mul(1 << attempt.min(16)).min(most);
            assert!(*wait >= full / 2 && *wait <= full, "attempt {attempt}: {wait:?}");
        }
        assert_eq!(waits, run(7));
        assert_ne!(waits, run(8));
    }
}
