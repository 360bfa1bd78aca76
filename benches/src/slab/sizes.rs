//! Random numbers and sizes, the same in every run.

/// A seeded generator (xorshift).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    #[inline]
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

/// The step that sizes are rounded up to, and what the peers count in.
pub(crate) const STEP: u64 = 256;

/// Log-uniform sizes from 256 B to 4 MiB in steps of 256 B.
pub(crate) fn log_uniform(count: usize, seed: u64) -> Vec<u64> {
    let mut random = Random::new(seed);
    let size = |unit: f64| (256.0 * 2f64.powf(unit * 14.0)) as u64;
    (0..count).map(|_| size(random.next() as f64 / u64::MAX as f64).next_multiple_of(STEP)).collect()
}
