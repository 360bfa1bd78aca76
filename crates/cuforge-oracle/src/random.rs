//! A small deterministic generator of pseudo-random numbers: the same seed gives the same bytes everywhere.

/// xoshiro256++ seeded through splitmix64. Deterministic on every platform; not for secrets.
///
/// Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2021.
///
/// ```
/// use cuforge_oracle::Random;
/// let (mut a, mut b) = (Random::new(7), Random::new(7));
/// assert_eq!(a.next_u64(), b.next_u64());
/// assert_ne!(Random::stream(7, "x").next_u64(), Random::stream(7, "y").next_u64());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// A generator whose whole sequence follows from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut mixer = seed;
        Self { state: std::array::from_fn(|_| split_mix(&mut mixer)) }
    }

    /// A generator for one named purpose under `seed`, independent of those of other names.
    #[must_use]
    pub fn stream(seed: u64, name: &str) -> Self {
        // FNV-1a: all that is asked of it is that different names start elsewhere.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let mut mixer = seed;
        Self::new(split_mix(&mut mixer) ^ hash)
    }

    /// The next 64 uniformly distributed bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A uniform value in `0 <= x < 1`, a multiple of `2^-53`.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A uniform integer in `0 <= x < bound`; zero for a bound of zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        // Lemire's multiplication without the rejection step: the bias is below bound / 2^64.
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A value of mean 0 and deviation 1, bell-shaped, within -6 to 6: the centred sum of twelve uniform values.
    ///
    /// It needs only additions, so its bits are the same everywhere, which logarithms and cosines do not promise.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }

    /// Puts `items` into a uniformly random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            let other = self.below(end as u64 + 1) as usize;
            items.swap(end, other);
        }
    }
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_of_a_seed_never_changes() {
        // splitmix64 of seed 0, from its authors' reference output.
        let mut state = 0;
        assert_eq!(split_mix(&mut state), 0xe220_a839_7b1d_cdaf);
        let mut random = Random { state: [1, 2, 3, 4] };
        // xoshiro256++ of state 1, 2, 3, 4, from the authors' reference output.
        assert_eq!((random.next_u64(), random.next_u64()), (41_943_041, 58_720_359));
    }

    #[test]
    fn normal_values_have_mean_zero_and_deviation_one() {
        let mut random = Random::new(1);
        let values: Vec<f64> = (0..20_000).map(|_| random.normal()).collect();
        let mean = values.iter().sum::<f64>() / 20_000.0;
        let variance = values.iter().map(|v| v * v).sum::<f64>() / 20_000.0 - mean * mean;
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
    }

    #[test]
    fn integers_stay_below_their_bound_and_reach_all_of_it() {
        let mut random = Random::new(3);
        let mut seen = [0u32; 5];
        (0..1000).for_each(|_| seen[random.below(5) as usize] += 1);
        assert!(seen.iter().all(|&count| count > 100), "{seen:?}");
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn a_shuffle_keeps_all_items() {
        let mut items: Vec<u32> = (0..100).collect();
        Random::new(9).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
