//! Double precision with every rounding, bit for bit: the host's own to nearest, integer arithmetic for the rest.

use super::round::Rounding;
use std::cmp::Ordering;

/// The NaN that double precision operations give when no operand is one.
pub(crate) const NAN_BITS: u64 = 0xfff8_0000_0000_0000;

const QUIET: u64 = 1 << 51;
const INFINITY_BITS: u64 = 0x7ff0_0000_0000_0000;

/// `a + b`.
pub(crate) fn add(a: f64, b: f64, rounding: Rounding) -> f64 {
    if rounding == Rounding::Nearest || !a.is_finite() || !b.is_finite() {
        return settle(a + b, [b, a, a]);
    }
    sum(Term::of(a), Term::of(b), rounding)
}

/// `a * b`.
pub(crate) fn mul(a: f64, b: f64, rounding: Rounding) -> f64 {
    if rounding == Rounding::Nearest || !a.is_finite() || !b.is_finite() {
        return settle(a * b, [b, a, a]);
    }
    Term::product(a, b).round(rounding)
}

/// `a * b + c` with one rounding.
pub(crate) fn fma(a: f64, b: f64, c: f64, rounding: Rounding) -> f64 {
    if rounding == Rounding::Nearest || !a.is_finite() || !b.is_finite() || !c.is_finite() {
        return settle(a.mul_add(b, c), [b, c, a]);
    }
    sum(Term::product(a, b), Term::of(c), rounding)
}

/// `a / b`.
pub(crate) fn div(a: f64, b: f64, rounding: Rounding) -> f64 {
    if rounding == Rounding::Nearest || !a.is_finite() || !b.is_finite() || b == 0.0 {
        return settle(a / b, [a, b, b]);
    }
    let (n, d) = (Term::of(a), Term::of(b));
    let negative = n.negative != d.negative;
    if n.magnitude == 0 {
        return signed_zero(negative);
    }
    // Both have their top bit at TOP; the quotient of the top 64 bits below keeps 63 or 64 bits and the rest sticks.
    let (numerator, denominator) = (n.magnitude, d.magnitude >> (TOP - 60));
    let quotient = numerator / denominator;
    let sticky = u128::from(!numerator.is_multiple_of(denominator));
    Term {
        negative,
        exponent: n.exponent - d.exponent - (TOP - 60).cast_signed(),
        magnitude: quotient | sticky,
    }
    .round(rounding)
}

/// Square root.
pub(crate) fn sqrt(a: f64, rounding: Rounding) -> f64 {
    if rounding == Rounding::Nearest || !a.is_finite() || a <= 0.0 {
        return settle(a.sqrt(), [a, a, a]);
    }
    let term = Term::of(a);
    let (magnitude, exponent) = if term.exponent & 1 == 0 {
        (term.magnitude, term.exponent)
    } else {
        (term.magnitude << 1, term.exponent - 1)
    };
    let root = magnitude.isqrt();
    // The last bit may stand for all that is dropped: a root keeps at least 62 bits.
    let sticky = u128::from(root * root != magnitude);
    Term { negative: false, exponent: exponent / 2, magnitude: root << 1 | sticky }
        .shifted(-1)
        .round(rounding)
}

/// The NaN an operation gives: the first NaN of the operands made quiet, or the default one. The callers list them
/// in the order in which an H200 prefers them.
#[inline(always)]
pub(crate) fn settle(value: f64, operands: [f64; 3]) -> f64 {
    // As integers: as floats, the compiler may take any NaN for any other.
    let is_nan = |value: f64| value.to_bits() & !(1 << 63) > INFINITY_BITS;
    if !is_nan(value) {
        return value;
    }
    let found = operands.into_iter().find(|operand| is_nan(*operand));
    f64::from_bits(found.map_or(NAN_BITS, |operand| operand.to_bits() | QUIET))
}

/// Position of the top bit of a normalised magnitude.
const TOP: u32 = 124;

/// `±magnitude * 2^exponent`.
#[derive(Clone, Copy)]
struct Term {
    negative: bool,
    exponent: i32,
    magnitude: u128,
}

impl Term {
    fn of(value: f64) -> Self {
        let bits = value.to_bits();
        let field = ((bits >> 52) & 0x7ff) as i32;
        let fraction = bits & ((1 << 52) - 1);
        let (significand, exponent) =
            if field == 0 { (fraction, -1074) } else { (fraction | 1 << 52, field - 1075) };
        Self { negative: bits >> 63 != 0, exponent, magnitude: u128::from(significand) }.normalised()
    }

    fn product(a: f64, b: f64) -> Self {
        let (a, b) = (Self::of(a), Self::of(b));
        // Each significand has 53 bits, so shifting both down by 64 loses nothing.
        Self {
            negative: a.negative != b.negative,
            exponent: a.exponent + b.exponent + 128,
            magnitude: (a.magnitude >> 64) * (b.magnitude >> 64),
        }
        .normalised()
    }

    fn normalised(self) -> Self {
        if self.magnitude == 0 {
            return self;
        }
        let top = 127 - self.magnitude.leading_zeros();
        if top > TOP {
            let shift = top - TOP;
            let lost = self.magnitude & ((1 << shift) - 1) != 0;
            return Self {
                exponent: self.exponent + shift.cast_signed(),
                magnitude: self.magnitude >> shift | u128::from(lost),
                ..self
            };
        }
        let shift = TOP - top;
        Self { exponent: self.exponent - shift.cast_signed(), magnitude: self.magnitude << shift, ..self }
    }

    fn shifted(self, by: i32) -> Self {
        Self { exponent: self.exponent + by, ..self }
    }

    /// The magnitude at a larger exponent; what falls off leaves the last bit set.
    fn aligned_to(self, exponent: i32) -> u128 {
        let shift = exponent.saturating_sub(self.exponent).clamp(0, 127).cast_unsigned();
        let lost = self.magnitude & ((1u128 << shift) - 1) != 0;
        self.magnitude >> shift | u128::from(lost)
    }

    fn round(self, rounding: Rounding) -> f64 {
        if self.magnitude == 0 {
            return signed_zero(self.negative);
        }
        let term = self.normalised();
        // A normal number keeps 53 bits; below the normal range the unit stays 2^-1074.
        let unit = (term.exponent + (TOP - 52).cast_signed()).max(-1074);
        let drop = (unit - term.exponent).min(127).cast_unsigned();
        let kept = term.magnitude >> drop;
        let rest = term.magnitude & ((1 << drop) - 1);
        let half = if drop > TOP + 1 { Ordering::Less } else { rest.cmp(&(1 << (drop - 1))) };
        let up = rounding.rounds_up(term.negative, kept & 1 != 0, half, rest != 0);
        let field = (unit + 1074).cast_unsigned();
        // Adding lets a carry run into the exponent field.
        let bits = (u64::from(field) << 52).saturating_add(kept as u64).saturating_add(u64::from(up));
        let sign = u64::from(term.negative) << 63;
        if bits < INFINITY_BITS && field < 0x7ff {
            return f64::from_bits(sign | bits);
        }
        let to_infinity = match rounding {
            Rounding::Nearest | Rounding::Away => true,
            Rounding::Zero => false,
            Rounding::Down => term.negative,
            Rounding::Up => !term.negative,
        };
        f64::from_bits(sign | (INFINITY_BITS - u64::from(!to_infinity)))
    }
}

fn sum(a: Term, b: Term, rounding: Rounding) -> f64 {
    if a.magnitude == 0 && b.magnitude == 0 {
        let negative = if a.negative == b.negative { a.negative } else { rounding == Rounding::Down };
        return signed_zero(negative);
    }
    let (large, small) =
        if b.magnitude == 0 || (a.magnitude != 0 && (a.exponent, a.magnitude) >= (b.exponent, b.magnitude)) {
            (a, b)
        } else {
            (b, a)
        };
    let aligned = if small.magnitude == 0 { 0 } else { small.aligned_to(large.exponent) };
    let magnitude =
        if large.negative == small.negative { large.magnitude + aligned } else { large.magnitude - aligned };
    if magnitude == 0 {
        return signed_zero(rounding == Rounding::Down);
    }
    Term { negative: large.negative, exponent: large.exponent, magnitude }.round(rounding)
}

fn signed_zero(negative: bool) -> f64 {
    if negative { -0.0 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: [u64; 18] = [
        0,
        1 << 63,
        1,
        0x8000_0000_0000_0001,
        0x000f_ffff_ffff_ffff,
        0x0010_0000_0000_0000,
        0x3ff0_0000_0000_0000,
        0xbff0_0000_0000_0001,
        0x3fef_ffff_ffff_ffff,
        0x4008_0000_0000_0000,
        0x3fd5_5555_5555_5555,
        0x7fef_ffff_ffff_ffff,
        0xffef_ffff_ffff_ffff,
        0x1ff0_0000_dead_beef,
        0x6010_1234_5678_9abc,
        0x3c90_0000_0000_0000,
        0xbca0_0000_0000_0001,
        0x0340_0000_0000_0007,
    ];

    fn values() -> impl Iterator<Item = f64> {
        VALUES.into_iter().map(f64::from_bits)
    }

    /// Runs the integer path with round to nearest, which the host gives too.
    #[test]
    fn integer_arithmetic_agrees_with_the_host_to_nearest() {
        let same = |got: f64, host: f64, what: &str| {
            assert_eq!(got.to_bits(), host.to_bits(), "{what}: got {got:e}, host {host:e}");
        };
        for a in values() {
            for b in values() {
                same(sum(Term::of(a), Term::of(b), Rounding::Nearest), a + b, &format!("{a:e} + {b:e}"));
                same(Term::product(a, b).round(Rounding::Nearest), a * b, &format!("{a:e} * {b:e}"));
                for c in values() {
                    let got = sum(Term::product(a, b), Term::of(c), Rounding::Nearest);
                    same(got, a.mul_add(b, c), &format!("{a:e} * {b:e} + {c:e}"));
                }
            }
        }
    }

    #[test]
    fn directed_results_enclose_the_nearest_and_differ_only_if_inexact() {
        for a in values() {
            for b in values() {
                type Op = fn(f64, f64, Rounding) -> f64;
                let ops: [Op; 4] = [add, mul, div, |a, b, mode| fma(a, b, 1.0, mode)];
                for op in ops {
                    let near = op(a, b, Rounding::Nearest);
                    if !near.is_finite() {
                        continue;
                    }
                    let (down, up) = (op(a, b, Rounding::Down), op(a, b, Rounding::Up));
                    let zero = op(a, b, Rounding::Zero);
                    assert!(down <= near && near <= up, "{a:e} {b:e}: {down:e} {near:e} {up:e}");
                    assert!(down == up || down.next_up() == up, "{a:e} {b:e}: {down:e} {up:e}");
                    assert!(zero == down || zero == up);
                    assert!(zero.abs() <= near.abs());
                }
            }
            if a > 0.0 {
                let (down, up) = (sqrt(a, Rounding::Down), sqrt(a, Rounding::Up));
                assert!(
                    down <= a.sqrt() && a.sqrt() <= up && (down == up || down.next_up() == up),
                    "sqrt {a:e}"
                );
            }
        }
    }

    #[test]
    fn exact_results_are_the_same_in_every_mode() {
        for mode in [Rounding::Nearest, Rounding::Zero, Rounding::Down, Rounding::Up] {
            assert_eq!(div(6.0, 3.0, mode), 2.0);
            assert_eq!(sqrt(2.25, mode), 1.5);
            assert_eq!(sqrt(f64::from_bits(4), mode).to_bits(), (2.0 * f64::from_bits(1).sqrt()).to_bits());
            assert_eq!(fma(3.0, 4.0, -12.5, mode), -0.5);
        }
        assert_eq!(add(1.0, -1.0, Rounding::Down).to_bits(), (-0.0f64).to_bits());
        assert_eq!(add(1.0, -1.0, Rounding::Up).to_bits(), 0);
    }

    #[test]
    fn overflow_stops_at_the_largest_number_when_directed_inwards() {
        assert_eq!(mul(1e300, 1e300, Rounding::Zero), f64::MAX);
        assert_eq!(mul(1e300, -1e300, Rounding::Up), f64::MIN);
        assert_eq!(mul(1e300, 1e300, Rounding::Up), f64::INFINITY);
        assert_eq!(mul(1e-300, 1e-300, Rounding::Up), f64::from_bits(1));
    }
}
