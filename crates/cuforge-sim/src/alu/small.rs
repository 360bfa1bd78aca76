//! Floats of 8 bits, in pairs: `e4m3` (no infinities, NaN is all ones) and `e5m2`.

use super::{lanes, u16};
use crate::float::round::{F16, Format, Rounding, power_of_two};
use crate::form::{Bin32, Un32};

/// `e5m2`
const E5M2: Format = Format { exponent_bits: 5, fraction_bits: 2 };

/// `e4m3` with an exponent of one more bit: its numbers times 2^-8 have the same bits here.
const E4M3_WIDE: Format = Format { exponent_bits: 5, fraction_bits: 3 };

/// Largest magnitude of `e4m3`, 448.
const E4M3_MAX: u32 = 0x7e;

/// Largest finite magnitude of `e5m2`, 57344.
const E5M2_MAX: u32 = 0x7b;

/// NaN of both formats.
const NAN: u32 = 0x7f;

/// Two singles to a pair, the first to the upper half, overflow to the largest number.
pub(crate) fn from_singles(e5m2: bool, relu: bool) -> Bin32 {
    match (e5m2, relu) {
        (false, false) => lanes!(|a, b| pair::<false, false>(single(a), single(b))),
        (false, true) => lanes!(|a, b| pair::<false, true>(single(a), single(b))),
        (true, false) => lanes!(|a, b| pair::<true, false>(single(a), single(b))),
        (true, true) => lanes!(|a, b| pair::<true, true>(single(a), single(b))),
    }
}

/// Two halves to a pair.
pub(crate) fn from_halves(e5m2: bool, relu: bool) -> Un32 {
    match (e5m2, relu) {
        (false, false) => lanes!(|a| pair::<false, false>(half(a >> 16), half(a))),
        (false, true) => lanes!(|a| pair::<false, true>(half(a >> 16), half(a))),
        (true, false) => lanes!(|a| pair::<true, false>(half(a >> 16), half(a))),
        (true, true) => lanes!(|a| pair::<true, true>(half(a >> 16), half(a))),
    }
}

/// A pair to two halves.
pub(crate) fn to_halves(e5m2: bool, relu: bool) -> Un32 {
    match (e5m2, relu) {
        (false, false) => lanes!(|a| halves::<false, false>(a)),
        (false, true) => lanes!(|a| halves::<false, true>(a)),
        (true, false) => lanes!(|a| halves::<true, false>(a)),
        (true, true) => lanes!(|a| halves::<true, true>(a)),
    }
}

fn single(bits: u32) -> f64 {
    f64::from(f32::from_bits(bits))
}

fn half(bits: u32) -> f64 {
    F16.decode(u16(bits))
}

#[inline(always)]
fn pair<const E5M2: bool, const RELU: bool>(high: f64, low: f64) -> u32 {
    encode::<E5M2, RELU>(high) << 8 | encode::<E5M2, RELU>(low)
}

fn encode<const TO_E5M2: bool, const RELU: bool>(value: f64) -> u32 {
    if value.is_nan() {
        return NAN;
    }
    if RELU && value.is_sign_negative() {
        return 0;
    }
    let sign = if value.is_sign_negative() { 0x80 } else { 0 };
    let magnitude = value.abs();
    if TO_E5M2 {
        sign | E5M2.encode(magnitude, Rounding::Nearest).min(E5M2_MAX)
    } else {
        sign | E4M3_WIDE.encode(magnitude * power_of_two(-8), Rounding::Nearest).min(E4M3_MAX)
    }
}

fn halves<const E5M2: bool, const RELU: bool>(pair: u32) -> u32 {
    widened::<E5M2, RELU>(pair >> 8) << 16 | widened::<E5M2, RELU>(pair)
}

fn widened<const FROM_E5M2: bool, const RELU: bool>(bits: u32) -> u32 {
    let (magnitude, negative) = (bits & 0x7f, bits & 0x80 != 0);
    let value = match (FROM_E5M2, magnitude) {
        (true, _) => E5M2.decode(magnitude),
        (false, NAN) => f64::NAN,
        (false, _) => E4M3_WIDE.decode(magnitude) * power_of_two(8),
    };
    if value.is_nan() {
        return F16.nan();
    }
    if RELU && negative {
        return 0;
    }
    F16.encode(if negative { -value } else { value }, Rounding::Nearest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_the_way_to_halves_and_back() {
        for bits in 0..=0xffu32 {
            let four = widened::<false, false>(bits);
            let back = encode::<false, false>(F16.decode(four));
            assert_eq!(back, if bits & 0x7f == 0x7f { NAN } else { bits }, "e4m3 {bits:#x}");
            let five = widened::<true, false>(bits);
            let expected = match bits & 0x7f {
                0x7c => bits - 1,
                0x7d.. => NAN,
                _ => bits,
            };
            assert_eq!(encode::<true, false>(F16.decode(five)), expected, "e5m2 {bits:#x}");
        }
    }

    #[test]
    fn too_large_numbers_become_the_largest() {
        assert_eq!(encode::<false, false>(1e9), 0x7e);
        assert_eq!(encode::<false, false>(f64::NEG_INFINITY), 0xfe);
        assert_eq!(encode::<true, false>(-1e9), 0xfb);
        assert_eq!(encode::<false, true>(-3.0), 0);
        assert_eq!(encode::<false, false>(464.0), 0x7e);
        assert_eq!(encode::<false, false>(2f64.powi(-9)), 1);
    }
}
