//! Rounding modes, and rounding of exact-enough doubles to any narrower format.

/// How an inexact result is rounded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Rounding {
    /// To nearest, ties to even (`.rn`, `.rni`).
    Nearest,
    /// Towards zero (`.rz`, `.rzi`).
    Zero,
    /// Towards minus infinity (`.rm`, `.rmi`).
    Down,
    /// Towards plus infinity (`.rp`, `.rpi`).
    Up,
    /// To nearest, ties away from zero (`.rna`).
    Away,
}

impl Rounding {
    /// Whether a magnitude grows, given the sign, the kept part's lowest bit, and what is dropped against its half.
    #[inline(always)]
    pub(crate) fn rounds_up(
        self,
        negative: bool,
        odd: bool,
        half: std::cmp::Ordering,
        inexact: bool,
    ) -> bool {
        use std::cmp::Ordering::{Equal, Greater};
        match self {
            Self::Nearest => half == Greater || (half == Equal && odd),
            Self::Away => half != std::cmp::Ordering::Less,
            Self::Zero => false,
            Self::Down => negative && inexact,
            Self::Up => !negative && inexact,
        }
    }
}

/// A binary interchange format of at most 32 bits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Format {
    /// Bits of the exponent field.
    pub(crate) exponent_bits: u32,
    /// Bits of the fraction field.
    pub(crate) fraction_bits: u32,
}

/// `.f16`
pub(crate) const F16: Format = Format { exponent_bits: 5, fraction_bits: 10 };
/// `.bf16`
pub(crate) const BF16: Format = Format { exponent_bits: 8, fraction_bits: 7 };
/// `.tf32`, without the low bits of its register.
pub(crate) const TF32: Format = Format { exponent_bits: 8, fraction_bits: 10 };
/// `.f32`
pub(crate) const F32: Format = Format { exponent_bits: 8, fraction_bits: 23 };

impl Format {
    /// The canonical NaN: positive, all fraction bits set, as the hardware gives it.
    pub(crate) const fn nan(self) -> u32 {
        (1 << (self.exponent_bits + self.fraction_bits)) - 1
    }

    /// The bit that holds the sign.
    pub(crate) const fn sign(self) -> u32 {
        1 << (self.exponent_bits + self.fraction_bits)
    }

    /// Plus infinity.
    pub(crate) const fn infinity(self) -> u32 {
        ((1 << self.exponent_bits) - 1) << self.fraction_bits
    }

    const fn bias(self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    /// Whether the bits are a non-zero number below the smallest normal one.
    pub(crate) const fn is_subnormal(self, bits: u32) -> bool {
        let magnitude = bits & (self.sign() - 1);
        magnitude != 0 && magnitude < 1 << self.fraction_bits
    }

    /// Whether the value, rounded as if exponents had no end, lies below the smallest normal number.
    pub(crate) fn is_tiny(self, value: f64, rounding: Rounding) -> bool {
        let rounded = self.decode(self.encode(value * power_of_two(16), rounding));
        value != 0.0 && rounded.abs() < power_of_two(1 - self.bias() + 16)
    }

    /// The double rounded to this format, and flushed to a zero of its sign if that leaves no normal number.
    pub(crate) fn encode_flushed(self, value: f64, rounding: Rounding) -> u32 {
        let bits = self.encode(value, rounding);
        if self.is_tiny(value, rounding) { bits & self.sign() } else { bits }
    }

    /// The value of the bits, exactly.
    pub(crate) fn decode(self, bits: u32) -> f64 {
        let negative = bits & self.sign() != 0;
        let fraction = u64::from(bits & ((1 << self.fraction_bits) - 1));
        let field = (bits >> self.fraction_bits) & ((1 << self.exponent_bits) - 1);
        let magnitude = if field == (1 << self.exponent_bits) - 1 {
            if fraction == 0 { f64::INFINITY } else { f64::NAN }
        } else if field == 0 {
            fraction as f64 * power_of_two(1 - self.bias() - self.fraction_bits.cast_signed())
        } else {
            let exponent = (field.cast_signed() - self.bias() + 1023) as u64;
            f64::from_bits(exponent << 52 | fraction << (52 - self.fraction_bits))
        };
        if negative { -magnitude } else { magnitude }
    }

    /// The double rounded to this format: NaN becomes the canonical one, overflow infinity or the largest number.
    pub(crate) fn encode(self, value: f64, rounding: Rounding) -> u32 {
        let bits = value.to_bits();
        let negative = bits >> 63 != 0;
        let sign = if negative { self.sign() } else { 0 };
        if value.is_nan() {
            return self.nan();
        }
        if value.is_infinite() {
            return sign | self.infinity();
        }
        let magnitude = bits & (u64::MAX >> 1);
        if magnitude == 0 {
            return sign;
        }
        if magnitude >> 52 == 0 {
            // A subnormal double is below half of the smallest number of every format here.
            let up = rounding.rounds_up(negative, false, std::cmp::Ordering::Less, true);
            return sign | u32::from(up);
        }
        let exponent = (magnitude >> 52) as i32 - 1023;
        let significand = magnitude & ((1 << 52) - 1) | 1 << 52;
        let lowest = 1 - self.bias();
        let below = (lowest - exponent).max(0).cast_unsigned();
        let drop = (52 - self.fraction_bits + below).min(63);
        let kept = significand >> drop;
        let rest = significand & ((1 << drop) - 1);
        let half = rest.cmp(&(1 << (drop - 1)));
        let up = rounding.rounds_up(negative, kept & 1 != 0, half, rest != 0);
        // Without the leading one for normal numbers: adding a carry then moves into the exponent by itself.
        let field = (exponent.max(lowest) - lowest).cast_unsigned();
        let mut result = u64::from(field) * (1 << self.fraction_bits) + kept + u64::from(up);
        if result >= u64::from(self.infinity()) {
            let to_infinity = match rounding {
                Rounding::Nearest | Rounding::Away => true,
                Rounding::Zero => false,
                Rounding::Down => negative,
                Rounding::Up => !negative,
            };
            result = u64::from(self.infinity()) - u64::from(!to_infinity);
        }
        sign | result as u32
    }
}

/// 2 to a power in the range of normal doubles.
pub(crate) fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// `a + b` rounded to odd: exact if it fits, else the neighbour whose last bit is set.
///
/// A later rounding to a format of at most 51 bits, in any mode, then gives what rounding the exact sum would.
/// Both must be finite and far enough from overflow (products and sums of narrower formats are).
#[inline(always)]
pub(crate) fn add_to_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let virtual_b = sum - a;
    let error = (a - (sum - virtual_b)) + (b - virtual_b);
    let bits = sum.to_bits();
    // NaN and infinite sums give a NaN error, which must not be nudged.
    let nudge = (error != 0.0) & !error.is_nan() & (bits & 1 == 0);
    let outwards = (error > 0.0) == (sum > 0.0);
    let step = if outwards { 1u64 } else { u64::MAX };
    f64::from_bits(if nudge { bits.wrapping_add(step) } else { bits })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoding_undoes_decoding_for_every_half_and_bfloat() {
        for format in [F16, BF16] {
            for bits in 0..=0xffffu32 {
                let value = format.decode(bits);
                let expected = if value.is_nan() { format.nan() } else { bits };
                for mode in [Rounding::Nearest, Rounding::Zero, Rounding::Down, Rounding::Up, Rounding::Away]
                {
                    assert_eq!(format.encode(value, mode), expected, "{format:?} {bits:#x} {mode:?}");
                }
            }
        }
    }

    #[test]
    fn single_encoding_agrees_with_the_host_to_nearest() {
        for bits in (0..u64::MAX - (1 << 45)).step_by(0x0000_7f3d_9b17_55a1) {
            let value = f64::from_bits(bits);
            if !value.is_nan() {
                assert_eq!(F32.encode(value, Rounding::Nearest), (value as f32).to_bits(), "{value:e}");
            }
        }
    }

    #[test]
    fn directed_encodings_bracket_the_value() {
        for value in [1.0 + 1e-12, -1.0 - 1e-12, 1e-320, -1e-300, 3.4e38, -1e300, 1.17549435e-38] {
            let down = f64::from(f32::from_bits(F32.encode(value, Rounding::Down)));
            let up = f64::from(f32::from_bits(F32.encode(value, Rounding::Up)));
            let zero = f64::from(f32::from_bits(F32.encode(value, Rounding::Zero)));
            assert!(down <= value && value <= up, "{value:e}");
            assert!(down == value || down < up);
            assert_eq!(zero, if value < 0.0 { up } else { down }, "{value:e}");
        }
    }

    #[test]
    fn ties_go_to_even_or_away() {
        let tie = 1.0 + power_of_two(-11);
        assert_eq!(F16.encode(tie, Rounding::Nearest), 0x3c00);
        assert_eq!(F16.encode(tie, Rounding::Away), 0x3c01);
        assert_eq!(F16.encode(65520.0, Rounding::Nearest), 0x7c00);
        assert_eq!(F16.encode(65520.0, Rounding::Zero), 0x7bff);
    }

    #[test]
    fn a_sum_to_odd_keeps_a_sticky_bit() {
        let sum = add_to_odd(1.0, power_of_two(-80));
        assert_eq!(sum.to_bits(), 1.0f64.to_bits() + 1);
        let sum = add_to_odd(1.0, -power_of_two(-80));
        assert_eq!(sum.to_bits(), 1.0f64.to_bits() - 1);
        assert_eq!(add_to_odd(1.5, 2.25), 3.75);
        assert_eq!(add_to_odd(f64::INFINITY, 1.0), f64::INFINITY);
    }
}
