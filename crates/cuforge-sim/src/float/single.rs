//! Single precision with every rounding, bit for bit.

use super::round::{F32, Rounding, add_to_odd};

/// The NaN that single precision operations give.
pub(crate) const NAN_BITS: u32 = F32.nan();

/// The value's bits, with the hardware's NaN for any NaN.
#[inline(always)]
pub(crate) fn canonical(value: f32) -> u32 {
    // Compared as an integer: as a float, the compiler may take any NaN for any other.
    let bits = value.to_bits();
    if bits & 0x7fff_ffff > 0x7f80_0000 { NAN_BITS } else { bits }
}

/// A subnormal becomes a zero of its sign.
#[inline(always)]
pub(crate) fn flush(value: f32) -> f32 {
    let bits = value.to_bits();
    if bits & 0x7f80_0000 == 0 { f32::from_bits(bits & 0x8000_0000) } else { value }
}

/// A result below the smallest normal number becomes a zero of its sign; `wide` is the result before rounding, to
/// double precision at least.
///
/// What counts is the result rounded as if exponents had no end, as on the device: just below the smallest normal
/// number it may round up to it and stay.
#[inline(always)]
pub(crate) fn flush_result(value: f32, wide: impl Fn() -> f64, rounding: Rounding) -> f32 {
    let flushed = flush(value);
    if value.to_bits() & 0x7fff_ffff == 0x0080_0000 && F32.is_tiny(wide(), rounding) {
        return f32::from_bits(value.to_bits() & 0x8000_0000);
    }
    flushed
}

/// Clamped to 0 to 1; NaN becomes +0.
#[inline(always)]
pub(crate) fn saturate(value: f32) -> f32 {
    if value > 0.0 { if value > 1.0 { 1.0 } else { value } } else { 0.0 }
}

/// `a + b`.
#[inline(always)]
pub(crate) fn add(a: f32, b: f32, rounding: Rounding) -> f32 {
    if rounding == Rounding::Nearest {
        return a + b;
    }
    let sum = add_to_odd(f64::from(a), f64::from(b));
    round_sum(sum, a.is_sign_negative() == b.is_sign_negative(), rounding)
}

/// `a * b`.
#[inline(always)]
pub(crate) fn mul(a: f32, b: f32, rounding: Rounding) -> f32 {
    if rounding == Rounding::Nearest {
        return a * b;
    }
    round(f64::from(a) * f64::from(b), rounding)
}

/// `a * b + c` with one rounding.
#[inline(always)]
pub(crate) fn fma(a: f32, b: f32, c: f32, rounding: Rounding) -> f32 {
    if rounding == Rounding::Nearest {
        return a.mul_add(b, c);
    }
    let product = f64::from(a) * f64::from(b);
    let sum = add_to_odd(product, f64::from(c));
    round_sum(sum, product.is_sign_negative() == c.is_sign_negative(), rounding)
}

/// `a / b`.
#[inline(always)]
pub(crate) fn div(a: f32, b: f32, rounding: Rounding) -> f32 {
    if rounding == Rounding::Nearest {
        return a / b;
    }
    // A quotient of singles that no single equals lies at least 2^-49 of itself away from every single, so the
    // double quotient is on the right side of it.
    round(f64::from(a) / f64::from(b), rounding)
}

/// Square root.
#[inline(always)]
pub(crate) fn sqrt(a: f32, rounding: Rounding) -> f32 {
    if rounding == Rounding::Nearest {
        return a.sqrt();
    }
    // As for the quotient: an irrational root is far enough from every single.
    round(f64::from(a).sqrt(), rounding)
}

/// The double rounded to single.
#[inline(always)]
pub(crate) fn round(value: f64, rounding: Rounding) -> f32 {
    match rounding {
        Rounding::Nearest => value as f32,
        _ => f32::from_bits(F32.encode(value, rounding)),
    }
}

#[inline(always)]
fn round_sum(sum: f64, same_sign: bool, rounding: Rounding) -> f32 {
    // An exact zero from terms of different sign is negative only when rounding down.
    if sum == 0.0 && !same_sign {
        return if rounding == Rounding::Down { -0.0 } else { 0.0 };
    }
    round(sum, rounding)
}
