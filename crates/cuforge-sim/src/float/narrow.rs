//! `f16` and `bf16`: arithmetic through doubles that keep a sticky bit, with one rounding at the end.

use super::round::{Format, Rounding, add_to_odd};

/// `a + b` on the bits of `format`.
#[inline(always)]
pub(crate) fn add(format: Format, a: u32, b: u32, rounding: Rounding) -> u32 {
    format.encode(add_to_odd(format.decode(a), format.decode(b)), rounding)
}

/// `a * b` on the bits of `format`.
#[inline(always)]
pub(crate) fn mul(format: Format, a: u32, b: u32, rounding: Rounding) -> u32 {
    // Two significands of at most 11 bits: the product is exact.
    format.encode(format.decode(a) * format.decode(b), rounding)
}

/// `a * b + c` on the bits of `format`, rounded once.
#[inline(always)]
pub(crate) fn fma(format: Format, a: u32, b: u32, c: u32, rounding: Rounding) -> u32 {
    let product = format.decode(a) * format.decode(b);
    format.encode(add_to_odd(product, format.decode(c)), rounding)
}

/// Flushes a subnormal to a zero of its sign.
#[inline(always)]
pub(crate) fn flush(format: Format, bits: u32) -> u32 {
    if format.is_subnormal(bits) { bits & format.sign() } else { bits }
}

/// Clamps to 0 to 1; NaN becomes +0.
#[inline(always)]
pub(crate) fn saturate(format: Format, bits: u32) -> u32 {
    let value = format.decode(bits);
    if value > 0.0 { if value > 1.0 { format.encode(1.0, Rounding::Nearest) } else { bits } } else { 0 }
}

/// Whether the bits are a NaN.
#[inline(always)]
pub(crate) fn is_nan(format: Format, bits: u32) -> bool {
    bits & (format.sign() - 1) > format.infinity()
}

#[cfg(test)]
mod tests {
    use super::super::round::{BF16, F16};
    use super::*;

    #[test]
    fn sums_and_products_of_small_numbers_are_exact() {
        assert_eq!(add(F16, 0x3c00, 0x3c00, Rounding::Nearest), 0x4000);
        assert_eq!(mul(BF16, 0x4040, 0x4000, Rounding::Nearest), 0x40c0);
        assert_eq!(fma(F16, 0x4200, 0x4000, 0xbc00, Rounding::Nearest), 0x4500);
    }

    #[test]
    fn fma_rounds_once() {
        // (1 + 2^-10)^2 = 1 + 2^-9 + 2^-20; minus (1 + 2^-9) leaves 2^-20, which two roundings would lose.
        let square = fma(F16, 0x3c01, 0x3c01, 0xbc02, Rounding::Nearest);
        assert_eq!(F16.decode(square), 2f64.powi(-20));
    }

    #[test]
    fn saturation_clamps_and_clears_nan() {
        assert_eq!(saturate(F16, 0x4000), 0x3c00);
        assert_eq!(saturate(F16, 0xbc00), 0);
        assert_eq!(saturate(F16, 0x7fff), 0);
        assert_eq!(saturate(F16, 0x8000), 0);
    }

    #[test]
    fn flushing_keeps_the_sign() {
        assert_eq!(flush(F16, 0x8001), 0x8000);
        assert_eq!(flush(F16, 0x0400), 0x0400);
        assert!(is_nan(F16, 0x7c01) && !is_nan(F16, 0xfc00));
    }
}
