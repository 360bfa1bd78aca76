//! What picks the order of warps and blocks.

/// A small generator (`SplitMix64`) for the order of warps and blocks.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The generator of one block of a launch.
    pub(crate) fn new(seed: u64, block: u64) -> Self {
        let mut random = Self(seed);
        let first = random.next();
        Self(first ^ block.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below another, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// Puts a list into another order.
    pub(crate) fn shuffle(&mut self, order: &mut [usize]) {
        for last in (1..order.len()).rev() {
            let other = self.below(last + 1);
            order.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_fixed_by_seed_and_block() {
        let order = |seed, block| {
            let mut order: Vec<usize> = (0..8).collect();
            Random::new(seed, block).shuffle(&mut order);
            order
        };
        assert_eq!(order(1, 2), order(1, 2));
        assert_ne!(order(1, 2), order(2, 2));
        assert_ne!(order(1, 2), order(1, 3));
        let mut sorted = order(5, 5);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..8).collect::<Vec<_>>());
    }
}
