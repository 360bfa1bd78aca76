//! `f16` and `bf16`: arithmetic through doubles that keep a sticky bit, with one rounding at the end.

use super::round::{Format, Rounding, add_to_odd};

/// `a + b` of two numbers of `format`, exact but for a sticky last bit.
#[inline(always)]
pub(crate) fn exact_sum(format: Format, a: u32, b: u32) -> f64 {
    add_to_odd(format.decode(a), format.decode(b))
}

/// `a * b`: two significands of at most 11 bits make an exact product.
#[inline(always)]
pub(crate) fn exact_product(format: Format, a: u32, b: u32) -> f64 {
    format.decode(a) * format.decode(b)
}

/// `a * b + c`, exact but for a sticky last bit.
#[inline(always)]
pub(crate) fn exact_fma(format: Format, a: u32, b: u32, c: u32) -> f64 {
    add_to_odd(exact_product(format, a, b), format.decode(c))
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
    fn fma_rounds_once() {
        // (1 + 2^-10)^2 = 1 + 2^-9 + 2^-20; minus (1 + 2^-9) leaves 2^-20, which two roundings would lose.
        let square = exact_fma(F16, 0x3c01, 0x3c01, 0xbc02);
        assert_eq!(square, 2f64.powi(-20));
        assert_eq!(exact_sum(BF16, 0x3f80, 0x3f80), 2.0);
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
