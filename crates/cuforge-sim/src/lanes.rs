//! The 32 lanes of a warp as arrays, and the loops over them.

/// Lanes in a warp.
pub(crate) const LANES: usize = 32;

/// One bit a lane.
pub(crate) type Mask = u32;

/// All lanes.
pub(crate) const FULL: Mask = u32::MAX;

/// A 32-bit value (or a narrower one, zero-extended) for each lane.
pub(crate) type L32 = [u32; LANES];

/// A 64-bit value for each lane.
pub(crate) type L64 = [u64; LANES];

/// Applies `f` to each lane.
#[inline(always)]
pub(crate) fn map1<A: Copy, D>(a: &[A; LANES], out: &mut [D; LANES], f: impl Fn(A) -> D) {
    for lane in 0..LANES {
        out[lane] = f(a[lane]);
    }
}

/// Applies `f` to each lane of two.
#[inline(always)]
pub(crate) fn map2<A: Copy, B: Copy, D>(
    a: &[A; LANES],
    b: &[B; LANES],
    out: &mut [D; LANES],
    f: impl Fn(A, B) -> D,
) {
    for lane in 0..LANES {
        out[lane] = f(a[lane], b[lane]);
    }
}

/// Applies `f` to each lane of three.
#[inline(always)]
pub(crate) fn map3<A: Copy, B: Copy, C: Copy, D>(
    a: &[A; LANES],
    b: &[B; LANES],
    c: &[C; LANES],
    out: &mut [D; LANES],
    f: impl Fn(A, B, C) -> D,
) {
    for lane in 0..LANES {
        out[lane] = f(a[lane], b[lane], c[lane]);
    }
}

/// The lanes for which `f` holds.
#[inline(always)]
pub(crate) fn test2<A: Copy>(a: &[A; LANES], b: &[A; LANES], f: impl Fn(A, A) -> bool) -> Mask {
    let mut flags = [0u32; LANES];
    for lane in 0..LANES {
        flags[lane] = u32::from(f(a[lane], b[lane])) << lane;
    }
    flags.iter().fold(0, |mask, flag| mask | flag)
}

/// Copies the lanes of `mask` from `from` into `into`.
#[inline(always)]
pub(crate) fn merge<T: Copy>(into: &mut [T; LANES], from: &[T; LANES], mask: Mask) {
    if mask == FULL {
        *into = *from;
    } else {
        for lane in 0..LANES {
            if mask >> lane & 1 != 0 {
                into[lane] = from[lane];
            }
        }
    }
}

/// The lanes of a mask, lowest first.
#[inline(always)]
pub(crate) fn lanes_of(mask: Mask) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        if rest == 0 {
            return None;
        }
        let lane = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        Some(lane)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merge_touches_only_the_lanes_of_the_mask() {
        let mut into = [1u32; LANES];
        merge(&mut into, &[7; LANES], 0b101);
        assert_eq!(&into[..4], [7, 1, 7, 1]);
        merge(&mut into, &[9; LANES], FULL);
        assert_eq!(into, [9; LANES]);
    }

    #[test]
    fn lanes_come_lowest_first() {
        assert_eq!(lanes_of(0x8000_0005).collect::<Vec<_>>(), [0, 2, 31]);
        assert_eq!(lanes_of(0).count(), 0);
    }

    #[test]
    fn a_test_sets_one_bit_a_lane() {
        let mut a = [0u32; LANES];
        a[3] = 5;
        assert_eq!(test2(&a, &[0; LANES], |a, b| a != b), 8);
    }
}
