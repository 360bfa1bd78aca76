//! One element of a product: a row of A times a column of B, added to an element of C.
//!
//! Hopper's arithmetic on floats is not in the PTX manual. What is here was compared bit for bit with an H200
//! (`tests/vectors/`): all products of an instruction and the accumulator are lined up at the largest exponent among
//! them, cut off (towards zero) 25 bits behind the leading place, added without loss, and the sum is rounded once, to
//! single precision towards zero, to half precision to nearest. The exponent of a product is the sum of the exponents
//! of its factors, whatever its leading digit; a zero has none. Subnormals count in full.

use super::element::Element;
use crate::float::round::{BF16, F16, F32, Format, Rounding, TF32, power_of_two};

/// Bits that are kept behind the leading place.
const KEPT_BITS: i32 = 25;

/// Exponent of what is zero.
const LOWEST: i32 = -126;

/// A float of at most 24 significant bits: `significand * 2^(exponent - fraction bits of its format)`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Parts {
    significand: i32,
    exponent: i32,
    special: Special,
}

/// What is no number.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Special {
    #[default]
    None,
    Infinity,
    NotANumber,
}

/// The format of small floats; fraction bits tell where the point of a significand is.
fn format(element: Element) -> Format {
    match element {
        Element::F16 => F16,
        Element::Bf16 => BF16,
        Element::Tf32 => TF32,
        Element::E4m3 => Format { exponent_bits: 4, fraction_bits: 3 },
        Element::E5m2 => Format { exponent_bits: 5, fraction_bits: 2 },
        _ => F32,
    }
}

impl Parts {
    /// The parts of an element's bits.
    pub(crate) fn of(element: Element, bits: u64) -> Self {
        let format = format(element);
        // Of a `tf32` in 32 bits the low ones are not looked at.
        let bits = if element == Element::Tf32 { (bits >> 13) as u32 } else { bits as u32 };
        let fraction = (bits & ((1 << format.fraction_bits) - 1)).cast_signed();
        let field = (bits >> format.fraction_bits & ((1 << format.exponent_bits) - 1)).cast_signed();
        let largest = (1 << format.exponent_bits) - 1;
        let bias = (1 << (format.exponent_bits - 1)) - 1;
        let special = match (element, field == largest, fraction) {
            (Element::E4m3, true, 7) => Special::NotANumber,
            (Element::E4m3, ..) | (_, false, _) => Special::None,
            (_, true, 0) => Special::Infinity,
            _ => Special::NotANumber,
        };
        let magnitude = if field == 0 { fraction } else { fraction | 1 << format.fraction_bits };
        let negative = bits >> (format.exponent_bits + format.fraction_bits) & 1 != 0;
        Self {
            significand: if negative { -magnitude } else { magnitude },
            exponent: field.max(1) - bias,
            special,
        }
    }
}

/// `a . b + c` on floats, as bits of the accumulator's type, which is `F32` or `F16`.
pub(crate) fn floats(element: [Element; 2], a: &[Parts], b: &[Parts], accumulator: Element, c: u64) -> u64 {
    let c = Parts::of(accumulator, c);
    let special = special_sum(a, b, c);
    let to = format(accumulator);
    if let Some(special) = special {
        return u64::from(match special {
            f64::INFINITY => to.infinity(),
            f64::NEG_INFINITY => to.sign() | to.infinity(),
            _ => to.nan(),
        });
    }
    let mut largest = if c.significand == 0 { LOWEST } else { c.exponent };
    for (a, b) in a.iter().zip(b) {
        if a.significand != 0 && b.significand != 0 {
            largest = largest.max(a.exponent + b.exponent);
        }
    }
    let point = (format(element[0]).fraction_bits + format(element[1]).fraction_bits).cast_signed();
    let mut sum = lined_up(i64::from(c.significand), to.fraction_bits.cast_signed(), largest - c.exponent);
    for (a, b) in a.iter().zip(b) {
        let product = i64::from(a.significand) * i64::from(b.significand);
        sum += lined_up(product, point, largest - (a.exponent + b.exponent));
    }
    // The sum has far fewer than 53 bits; the scaling is exact but for results that are zero anyway.
    let value = scaled(sum as f64, largest - KEPT_BITS);
    let rounding = if accumulator == Element::F16 { Rounding::Nearest } else { Rounding::Zero };
    let bits = to.encode(value, rounding);
    // What is too large becomes infinite even towards zero.
    let beyond = value.abs() >= power_of_two(1 << (to.exponent_bits - 1));
    u64::from(match bits & !to.sign() {
        // A zero has no sign.
        0 => 0,
        _ if beyond => bits & to.sign() | to.infinity(),
        _ => bits,
    })
}

/// A significand with its point lined up, `below` places under the largest exponent, cut towards zero.
#[inline(always)]
fn lined_up(significand: i64, point: i32, below: i32) -> i64 {
    let shift = KEPT_BITS - point - below;
    if shift >= 0 {
        // Only for what is not zero `below` is bounded.
        if significand == 0 { 0 } else { significand << shift.min(40) }
    } else if shift <= -63 {
        0
    } else {
        let magnitude = significand.unsigned_abs() >> -shift;
        if significand < 0 { -magnitude.cast_signed() } else { magnitude.cast_signed() }
    }
}

fn scaled(value: f64, exponent: i32) -> f64 {
    let half = exponent / 2;
    value * power_of_two(half) * power_of_two(exponent - half)
}

/// The sum if an infinity or NaN takes part.
fn special_sum(a: &[Parts], b: &[Parts], c: Parts) -> Option<f64> {
    let strange = |parts: &Parts| parts.special != Special::None;
    if !a.iter().any(strange) && !b.iter().any(strange) && !strange(&c) {
        return None;
    }
    let value = |parts: &Parts| match parts.special {
        Special::NotANumber => f64::NAN,
        Special::Infinity if parts.significand < 0 => f64::NEG_INFINITY,
        Special::Infinity => f64::INFINITY,
        Special::None => f64::from(parts.significand.signum()),
    };
    let sum = a.iter().zip(b).fold(value(&c), |sum, (a, b)| {
        let product = value(a) * value(b);
        if product.is_finite() { sum } else { sum + product }
    });
    Some(sum)
}

/// `a . b + c` on doubles: fused step by step, as an H200 does it.
pub(crate) fn doubles(a: impl Iterator<Item = (u64, u64)>, c: u64) -> u64 {
    let step =
        |sum, (a, b)| crate::float::wide::fma(f64::from_bits(a), f64::from_bits(b), sum, Rounding::Nearest);
    a.fold(f64::from_bits(c), step).to_bits()
}

/// `a . b + c` on integers; wraps, or stops at the ends with `.satfinite`.
pub(crate) fn integers(products: impl Iterator<Item = i32>, c: u64, saturate: bool) -> u64 {
    let sum = products.fold(i64::from(c as u32 as i32), |sum, product| sum + i64::from(product));
    let sum = if saturate { sum.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) } else { sum };
    u64::from(sum as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dot(a: &[f32], b: &[f32], c: f32) -> f32 {
        let parts = |values: &[f32]| -> Vec<Parts> {
            let bits = |value: &f32| u64::from(half::f16::from_f32(*value).to_bits());
            values.iter().map(|value| Parts::of(Element::F16, bits(value))).collect()
        };
        let c = u64::from(c.to_bits());
        f32::from_bits(floats([Element::F16; 2], &parts(a), &parts(b), Element::F32, c) as u32)
    }

    #[test]
    fn small_sums_are_exact() {
        assert_eq!(dot(&[1.0, 2.0, -3.0], &[4.0, 0.5, 0.25], 10.0), 14.25);
        assert_eq!(dot(&[6.1035156e-5], &[5.9604645e-8], 0.0), 6.1035156e-5 * 5.9604645e-8);
        assert_eq!(dot(&[0.0; 4], &[0.0; 4], -0.0), 0.0);
    }

    #[test]
    fn what_lies_25_places_below_the_largest_is_cut_off() {
        let tiny = 2f32.powi(-14);
        // 2^-28 under 4: two places are lost.
        assert_eq!(dot(&[2.0, tiny], &[2.0, tiny], 0.0), 4.0);
        // Cancellation shows what was kept: 2^-24 under 1 stays.
        assert_eq!(dot(&[1.0, 1.0, 2f32.powi(-12)], &[1.0, -1.0, 2f32.powi(-12)], 0.0), 2f32.powi(-24));
        assert_eq!(dot(&[1.0, 1.0, 2f32.powi(-13)], &[1.0, -1.0, 2f32.powi(-13)], 0.0), 0.0);
    }

    #[test]
    fn results_are_cut_towards_zero_and_overflow_is_infinite() {
        assert_eq!(dot(&[1.0], &[2f32.powi(-14)], 16_777_215.0), 16_777_215.0);
        let large = [Parts::of(Element::Bf16, 0x7f00)];
        let two = [Parts::of(Element::Bf16, 0x4000)];
        let top = u64::from(f32::MAX.to_bits());
        let sum = floats([Element::Bf16; 2], &large, &two, Element::F32, top);
        assert_eq!(f32::from_bits(sum as u32), f32::INFINITY);
        assert!(dot(&[f32::INFINITY], &[0.0], 1.0).is_nan());
        assert!(dot(&[f32::INFINITY, 1.0], &[1.0, 1.0], f32::NEG_INFINITY).is_nan());
        assert_eq!(dot(&[f32::INFINITY], &[-2.0], 1.0), f32::NEG_INFINITY);
    }

    #[test]
    fn integers_wrap_or_saturate() {
        let top = u64::from(i32::MAX as u32);
        assert_eq!(integers([5].into_iter(), top, false), 0x8000_0004);
        assert_eq!(integers([5].into_iter(), top, true), top);
    }
}
