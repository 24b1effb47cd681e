//! Random numbers as a parameter: policies are handed a [`Random`] and never make their own.

/// A source of random numbers.
pub trait Random {
    /// The next 64 random bits.
    fn next_u64(&mut self) -> u64;

    /// A number in `[0, 1)` with 53 random bits.
    fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number in `0..bound`; 0 where `bound` is 0.
    fn below(&mut self, bound: u64) -> u64 {
        // Lemire's multiply-shift; the bias is below 2^-64 × bound.
        ((self.next_u64() as u128 * bound as u128) >> 64) as u64
    }
}

/// SplitMix64 \[Steele14\]: small, fast, and the same on every machine for the same seed.
#[derive(Clone, Debug)]
pub struct Seeded(u64);

impl Seeded {
    /// A source that gives the same numbers for the same seed.
    pub fn new(seed: u64) -> Seeded {
        Seeded(seed)
    }
}

impl Random for Seeded {
    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }
}

/// SplitMix64's finaliser: turns a counter or an id into 64 well-spread bits.
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix_gives_the_published_sequence() {
        // From the reference implementation, seed 1234567.
        let mut random = Seeded::new(1234567);
        assert_eq!(random.next_u64(), 6457827717110365317);
        assert_eq!(random.next_u64(), 3203168211198807973);
        assert_eq!(random.next_u64(), 9817491932198370423);
    }

    #[test]
    fn draws_stay_in_their_range() {
        let mut random = Seeded::new(1);
        for _ in 0..10_000 {
            assert!((0.0..1.0).contains(&random.unit()));
            assert!(random.below(7) < 7);
        }
        assert_eq!(random.below(0), 0);
    }
}
