//! Exact numbers of any size, slow and plain: what the tests judge roundings by.

use std::cmp::Ordering;

use super::round::Rounding;

/// `±magnitude * 2^-SCALE`, the magnitude in 32-bit limbs, lowest first.
#[derive(Clone, Debug)]
struct Exact {
    negative: bool,
    limbs: Vec<u32>,
    scale: u32,
}

impl Exact {
    /// The value of a finite double.
    fn of(value: f64) -> Self {
        let bits = value.to_bits();
        let field = (bits >> 52 & 0x7ff) as u32;
        let fraction = bits & ((1 << 52) - 1);
        let (significand, shift) = if field == 0 { (fraction, 0) } else { (fraction | 1 << 52, field - 1) };
        let limbs = vec![significand as u32, (significand >> 32) as u32];
        Self { negative: bits >> 63 != 0, limbs: shifted(&limbs, shift), scale: 1074 }
    }

    fn times(&self, other: &Self) -> Self {
        let mut limbs = vec![0u32; self.limbs.len() + other.limbs.len() + 1];
        for (i, a) in self.limbs.iter().enumerate() {
            let mut carry = 0u64;
            for (j, b) in other.limbs.iter().enumerate() {
                let sum = u64::from(limbs[i + j]) + u64::from(*a) * u64::from(*b) + carry;
                limbs[i + j] = sum as u32;
                carry = sum >> 32;
            }
            limbs[i + other.limbs.len()] = carry as u32;
        }
        Self { negative: self.negative != other.negative, limbs, scale: self.scale + other.scale }
    }

    fn plus(&self, other: &Self) -> Self {
        let scale = self.scale.max(other.scale);
        let (a, b) = (self.at(scale), other.at(scale));
        if self.negative == other.negative {
            return Self { negative: self.negative, limbs: added(&a, &b), scale };
        }
        match compared(&a, &b) {
            Ordering::Less => Self { negative: other.negative, limbs: subtracted(&b, &a), scale },
            _ => Self { negative: self.negative, limbs: subtracted(&a, &b), scale },
        }
    }

    /// By value.
    fn compare(&self, other: &Self) -> Ordering {
        let difference = self.plus(&Self { negative: !other.negative, ..other.clone() });
        match (difference.limbs.iter().all(|limb| *limb == 0), difference.negative) {
            (true, _) => Ordering::Equal,
            (false, true) => Ordering::Less,
            (false, false) => Ordering::Greater,
        }
    }

    fn at(&self, scale: u32) -> Vec<u32> {
        shifted(&self.limbs, scale - self.scale)
    }
}

fn shifted(limbs: &[u32], by: u32) -> Vec<u32> {
    let mut out = vec![0; by as usize / 32];
    let bits = by % 32;
    let mut carry = 0u64;
    for limb in limbs {
        let value = u64::from(*limb) << bits | carry;
        out.push(value as u32);
        carry = value >> 32;
    }
    out.push(carry as u32);
    out
}

fn limb(limbs: &[u32], index: usize) -> u64 {
    limbs.get(index).map_or(0, |limb| u64::from(*limb))
}

fn compared(a: &[u32], b: &[u32]) -> Ordering {
    (0..a.len().max(b.len()))
        .rev()
        .map(|i| limb(a, i).cmp(&limb(b, i)))
        .find(|o| o.is_ne())
        .unwrap_or(Ordering::Equal)
}

fn added(a: &[u32], b: &[u32]) -> Vec<u32> {
    let mut carry = 0;
    (0..=a.len().max(b.len()))
        .map(|i| {
            let sum = limb(a, i) + limb(b, i) + carry;
            carry = sum >> 32;
            sum as u32
        })
        .collect()
}

fn subtracted(a: &[u32], b: &[u32]) -> Vec<u32> {
    let mut borrow = 0;
    (0..a.len())
        .map(|i| {
            let difference = limb(a, i).wrapping_sub(limb(b, i)).wrapping_sub(borrow);
            borrow = difference >> 63;
            difference as u32
        })
        .collect()
}

/// Whether `got` is what rounding a value gives, by the definition of the mode.
///
/// `against` compares the value with any double; `below` and `above` are the neighbours of `got` in its format, `odd` tells
/// whether its last bit is set.
fn is_rounded(
    got: f64,
    [below, above]: [f64; 2],
    odd: bool,
    rounding: Rounding,
    against: impl Fn(&Exact) -> Ordering,
) -> bool {
    let place = against(&Exact::of(got));
    if place == Ordering::Equal {
        return true;
    }
    let higher = place == Ordering::Greater;
    let neighbour = Exact::of(if higher { above } else { below });
    if against(&neighbour) != if higher { Ordering::Less } else { Ordering::Greater } {
        return false;
    }
    match rounding {
        Rounding::Down => higher,
        Rounding::Up => !higher,
        Rounding::Zero => higher == got.is_sign_positive(),
        Rounding::Nearest | Rounding::Away => {
            let middle = Exact::of(got).plus(&neighbour).times(&Exact::of(0.5));
            match (against(&middle), higher) {
                (Ordering::Less, true) | (Ordering::Greater, false) => true,
                (Ordering::Equal, _) => !odd,
                _ => false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::round::{BF16, F16, F32, Format};
    use super::super::{narrow, single, wide};
    use super::*;
    use proptest::prelude::*;

    const MODES: [Rounding; 4] = [Rounding::Nearest, Rounding::Zero, Rounding::Down, Rounding::Up];

    /// Judges bits of a format; what overflows is judged by the largest number alone.
    fn judge(format: Format, bits: u32, mode: Rounding, against: impl Fn(&Exact) -> Ordering, what: &str) {
        let largest = format.infinity() - 1;
        let beyond = 2f64.powi(1 << (format.exponent_bits - 1));
        if against(&Exact::of(beyond)).is_ge() || against(&Exact::of(-beyond)).is_le() {
            assert!(bits & (format.sign() - 1) >= largest, "{what} {mode:?}: {bits:#x}");
            return;
        }
        // Infinity stands for the number that would come next.
        let value = |magnitude: u32| {
            if magnitude == format.infinity() {
                beyond
            } else if magnitude > format.infinity() {
                4.0 * beyond
            } else {
                format.decode(magnitude)
            }
        };
        let magnitude = bits & (format.sign() - 1);
        assert!(magnitude <= format.infinity(), "{what} {mode:?}: NaN");
        let (inner, outer) =
            (if magnitude == 0 { -value(1) } else { value(magnitude - 1) }, value(magnitude + 1));
        let (got, neighbours) = if bits & format.sign() != 0 {
            (-value(magnitude), [-outer, -inner])
        } else {
            (value(magnitude), [inner, outer])
        };
        let fits = is_rounded(got, neighbours, magnitude & 1 != 0, mode, against);
        assert!(fits, "{what} {mode:?}: {bits:#x}");
    }

    fn judge_double(got: f64, mode: Rounding, against: impl Fn(&Exact) -> Ordering, what: &str) {
        if got.is_infinite() || got.abs() == f64::MAX {
            return;
        }
        let fits = is_rounded(got, [got.next_down(), got.next_up()], got.to_bits() & 1 != 0, mode, against);
        assert!(fits, "{what} {mode:?}: {got:e}");
    }

    fn sum_of_product(a: f64, b: f64, c: f64) -> impl Fn(&Exact) -> Ordering {
        let value = Exact::of(a).times(&Exact::of(b)).plus(&Exact::of(c));
        move |x| value.compare(x)
    }

    fn quotient(a: f64, b: f64) -> impl Fn(&Exact) -> Ordering {
        let (a, b, negative) = (Exact::of(a), Exact::of(b), b.is_sign_negative());
        move |x| {
            let order = a.compare(&x.times(&b));
            if negative { order.reverse() } else { order }
        }
    }

    fn root(a: f64) -> impl Fn(&Exact) -> Ordering {
        let a = Exact::of(a);
        move |x| if x.negative { Ordering::Greater } else { a.compare(&x.times(x)) }
    }

    /// Finite singles, many of them with close exponents or few bits.
    fn finite() -> impl Strategy<Value = f32> {
        let near = (any::<bool>(), 100u32..156, 0u32..1 << 23, 0u32..24);
        let near = near.prop_map(|(negative, exponent, fraction, cut)| {
            f32::from_bits(u32::from(negative) << 31 | exponent << 23 | fraction & !((1 << cut) - 1))
        });
        prop_oneof![any::<u32>().prop_map(f32::from_bits), near]
            .prop_filter("finite", |value| value.is_finite())
    }

    fn finite_double() -> impl Strategy<Value = f64> {
        let near = (any::<bool>(), 990u64..1056, 0u64..1 << 52, 0u32..53);
        let near = near.prop_map(|(negative, exponent, fraction, cut)| {
            f64::from_bits(u64::from(negative) << 63 | exponent << 52 | fraction & !((1 << cut) - 1))
        });
        prop_oneof![any::<u64>().prop_map(f64::from_bits), near]
            .prop_filter("finite", |value| value.is_finite())
    }

    #[test]
    fn exact_numbers_add_multiply_and_compare() {
        let [third, five, tiny] = [1.0 / 3.0, 5.0, f64::from_bits(1)].map(Exact::of);
        assert_eq!(third.times(&five).compare(&Exact::of(5.0 / 3.0)), Ordering::Less);
        assert_eq!(five.plus(&tiny).compare(&five), Ordering::Greater);
        assert_eq!(five.plus(&Exact::of(-5.0)).compare(&Exact::of(-0.0)), Ordering::Equal);
        assert_eq!(tiny.times(&tiny).compare(&Exact::of(0.0)), Ordering::Greater);
        assert_eq!(Exact::of(f64::MAX).times(&Exact::of(-2.0)).compare(&Exact::of(f64::MIN)), Ordering::Less);
    }

    #[test]
    fn a_wrong_rounding_is_noticed() {
        let third = |x: &Exact| Exact::of(1.0).compare(&x.times(&Exact::of(3.0)));
        let got = 1.0 / 3.0f64;
        let neighbours = |got: f64| [got.next_down(), got.next_up()];
        assert!(is_rounded(got, neighbours(got), true, Rounding::Nearest, third));
        let up = got.next_up();
        assert!(!is_rounded(up, neighbours(up), false, Rounding::Nearest, third));
        assert!(is_rounded(up, neighbours(up), false, Rounding::Up, third));
        assert!(!is_rounded(up.next_up(), neighbours(up.next_up()), true, Rounding::Up, third));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]

        #[test]
        fn singles_round_as_defined(a in finite(), b in finite(), c in finite()) {
            let [x, y, z] = [a, b, c].map(f64::from);
            for mode in MODES {
                let bits = single::add(a, b, mode).to_bits();
                judge(F32, bits, mode, sum_of_product(x, 1.0, y), &format!("{a:e} + {b:e}"));
                let bits = single::mul(a, b, mode).to_bits();
                judge(F32, bits, mode, sum_of_product(x, y, 0.0), &format!("{a:e} * {b:e}"));
                let bits = single::fma(a, b, c, mode).to_bits();
                judge(F32, bits, mode, sum_of_product(x, y, z), &format!("{a:e} * {b:e} + {c:e}"));
                if b != 0.0 {
                    let bits = single::div(a, b, mode).to_bits();
                    judge(F32, bits, mode, quotient(x, y), &format!("{a:e} / {b:e}"));
                }
                let bits = single::sqrt(a.abs(), mode).to_bits();
                judge(F32, bits, mode, root(x.abs()), &format!("sqrt {a:e}"));
            }
        }

        #[test]
        fn small_formats_round_as_defined(a in any::<u16>(), b in any::<u16>(), c in any::<u16>()) {
            for format in [F16, BF16] {
                let [a, b, c] = [a, b, c].map(u32::from);
                let [x, y, z] = [a, b, c].map(|bits| format.decode(bits));
                if !(x.is_finite() && y.is_finite() && z.is_finite()) {
                    continue;
                }
                for mode in MODES {
                    let bits = format.encode(narrow::exact_fma(format, a, b, c), mode);
                    judge(format, bits, mode, sum_of_product(x, y, z), &format!("{x:e} * {y:e} + {z:e}"));
                    let bits = format.encode(narrow::exact_sum(format, a, b), mode);
                    judge(format, bits, mode, sum_of_product(x, 1.0, y), &format!("{x:e} + {y:e}"));
                }
            }
        }

        #[test]
        fn doubles_narrow_as_defined(a in finite_double()) {
            for format in [F16, BF16, F32] {
                for mode in MODES {
                    judge(format, format.encode(a, mode), mode, sum_of_product(a, 1.0, 0.0), &format!("{a:e}"));
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn doubles_round_as_defined(a in finite_double(), b in finite_double(), c in finite_double()) {
            for mode in MODES {
                judge_double(wide::add(a, b, mode), mode, sum_of_product(a, 1.0, b), &format!("{a:e} + {b:e}"));
                judge_double(wide::mul(a, b, mode), mode, sum_of_product(a, b, 0.0), &format!("{a:e} * {b:e}"));
                let fused = wide::fma(a, b, c, mode);
                judge_double(fused, mode, sum_of_product(a, b, c), &format!("{a:e} * {b:e} + {c:e}"));
                if b != 0.0 {
                    judge_double(wide::div(a, b, mode), mode, quotient(a, b), &format!("{a:e} / {b:e}"));
                }
                judge_double(wide::sqrt(a.abs(), mode), mode, root(a.abs()), &format!("sqrt {a:e}"));
            }
        }
    }
}
