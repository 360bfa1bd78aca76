//! The approximate instructions.
//!
//! Each is computed in double precision and rounded once, so its error stays below 0.5001 units in the last place
//! of the single result. That is inside the bounds the PTX manual grants the hardware: `ex2` 2 units, `lg2`
//! 2^-22 absolute near 1 and 2^-22.6 elsewhere, `rcp` 1 unit, `rsqrt` 2^-22.9 relative, `sqrt` 2^-23 relative, `sin` and
//! `cos` 2^-20.5 absolute over [-π, π], `tanh` 2^-11 relative, `div` 2 units. Results equal those of a GPU only
//! up to both errors.

use super::single::flush;

/// `ex2.approx{.ftz}.f32`
pub(crate) fn ex2(x: f32, ftz: bool) -> f32 {
    through(x, ftz, f64::exp2)
}

/// `lg2.approx{.ftz}.f32`
pub(crate) fn lg2(x: f32, ftz: bool) -> f32 {
    through(x, ftz, f64::log2)
}

/// `rcp.approx{.ftz}.f32`
pub(crate) fn rcp(x: f32, ftz: bool) -> f32 {
    through(x, ftz, |x| 1.0 / x)
}

/// `rsqrt.approx{.ftz}.f32`
pub(crate) fn rsqrt(x: f32, ftz: bool) -> f32 {
    through(x, ftz, |x| 1.0 / x.sqrt())
}

/// `sqrt.approx{.ftz}.f32`
pub(crate) fn sqrt(x: f32, ftz: bool) -> f32 {
    through(x, ftz, f64::sqrt)
}

/// `sin.approx{.ftz}.f32`
pub(crate) fn sin(x: f32, ftz: bool) -> f32 {
    through(x, ftz, f64::sin)
}

/// `cos.approx{.ftz}.f32`
pub(crate) fn cos(x: f32, ftz: bool) -> f32 {
    through(x, ftz, f64::cos)
}

/// `tanh.approx.f32`
pub(crate) fn tanh(x: f32) -> f32 {
    through(x, false, f64::tanh)
}

/// `div.approx{.ftz}.f32`: divisors of magnitude 2^126 to 2^128 give 0, or NaN for an infinite dividend.
pub(crate) fn div(a: f32, b: f32, ftz: bool) -> f32 {
    if b.is_finite() && b.abs() > f32::from_bits(0x7e80_0000) {
        if a.is_nan() || a.is_infinite() {
            return f32::NAN;
        }
        let negative = a.is_sign_negative() != b.is_sign_negative();
        return if negative { -0.0 } else { 0.0 };
    }
    div_full(a, b, ftz)
}

/// `div.full{.ftz}.f32`: the whole range of divisors.
pub(crate) fn div_full(a: f32, b: f32, ftz: bool) -> f32 {
    let (a, b) = if ftz { (flush(a), flush(b)) } else { (a, b) };
    let quotient = a / b;
    if ftz { flush(quotient) } else { quotient }
}

#[inline(always)]
fn through(x: f32, ftz: bool, f: impl Fn(f64) -> f64) -> f32 {
    let x = if ftz { flush(x) } else { x };
    let result = f(f64::from(x)) as f32;
    if ftz { flush(result) } else { result }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corner_cases_follow_the_manual() {
        assert_eq!(ex2(f32::NEG_INFINITY, false).to_bits(), 0);
        assert_eq!(ex2(-0.0, true), 1.0);
        assert_eq!(lg2(0.0, false), f32::NEG_INFINITY);
        assert!(lg2(-1.0, false).is_nan());
        assert_eq!(rcp(-0.0, false), f32::NEG_INFINITY);
        assert_eq!(rsqrt(-0.0, false), f32::NEG_INFINITY);
        assert_eq!(rsqrt(f32::INFINITY, false).to_bits(), 0);
        assert_eq!(sin(-0.0, false).to_bits(), 0x8000_0000);
        assert!(sin(f32::INFINITY, false).is_nan());
        assert_eq!(tanh(f32::INFINITY), 1.0);
    }

    #[test]
    fn flushing_turns_small_arguments_and_results_to_zero() {
        assert_eq!(ex2(-130.0, true), 0.0);
        assert!(ex2(-130.0, false) > 0.0);
        assert_eq!(lg2(1e-40, true), f32::NEG_INFINITY);
        assert_eq!(rcp(1e-40, true), f32::INFINITY);
    }

    #[test]
    fn a_huge_divisor_gives_zero_only_in_the_approximate_form() {
        assert_eq!(div(1e38, 2e38, false), 0.0);
        assert!(div(f32::INFINITY, 2e38, false).is_nan());
        assert_eq!(div_full(1e38, 2e38, false), 0.5);
    }
}
