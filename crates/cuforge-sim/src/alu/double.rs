//! Double precision over lanes.

use super::lanes;
use crate::float::round::Rounding;
use crate::float::wide::{add, div, fma, mul, settle, sqrt};
use crate::form::{Bin64, Tern64, Un64};

/// The functions of a rounding mode.
macro_rules! by_rounding {
    ($rounding:expr, |$($a:ident),*| $f:ident ( $($arg:expr),* )) => {
        match $rounding {
            Rounding::Nearest => lanes!(|$($a),*| $f($($arg),*, Rounding::Nearest).to_bits()),
            Rounding::Zero => lanes!(|$($a),*| $f($($arg),*, Rounding::Zero).to_bits()),
            Rounding::Down => lanes!(|$($a),*| $f($($arg),*, Rounding::Down).to_bits()),
            Rounding::Up => lanes!(|$($a),*| $f($($arg),*, Rounding::Up).to_bits()),
            Rounding::Away => return None,
        }
    };
}

/// `add`, `sub`, `mul`, `div`.
pub(crate) fn binary(name: &str, rounding: Rounding) -> Option<Bin64> {
    Some(match name {
        "add" => by_rounding!(rounding, |a, b| add(f64::from_bits(a), f64::from_bits(b))),
        "sub" => by_rounding!(rounding, |a, b| add(f64::from_bits(a), negated(b))),
        "mul" => by_rounding!(rounding, |a, b| mul(f64::from_bits(a), f64::from_bits(b))),
        "div" => by_rounding!(rounding, |a, b| div(f64::from_bits(a), f64::from_bits(b))),
        _ => return None,
    })
}

/// `fma` and `mad`.
pub(crate) fn fused(rounding: Rounding) -> Option<Tern64> {
    Some(by_rounding!(rounding, |a, b, c| fma(f64::from_bits(a), f64::from_bits(b), f64::from_bits(c))))
}

/// `sqrt` and `rcp`.
pub(crate) fn unary(name: &str, rounding: Rounding) -> Option<Un64> {
    Some(match name {
        "sqrt" => by_rounding!(rounding, |a| sqrt(f64::from_bits(a))),
        "rcp" => by_rounding!(rounding, |a| div(1.0, f64::from_bits(a))),
        _ => return None,
    })
}

/// `neg` and `abs`.
pub(crate) fn sign(name: &str) -> Option<Un64> {
    Some(match name {
        // A NaN keeps its sign.
        "neg" => lanes!(|a| quiet_or(a, a ^ 1 << 63)),
        "abs" => lanes!(|a| quiet_or(a, a & !(1 << 63))),
        _ => return None,
    })
}

/// `rcp.approx.ftz.f64` and `rsqrt.approx.ftz.f64`: as on the device, they see and give only the upper 32 bits; the
/// error stays below 2^-20 relative. `rsqrt.approx.f64` is rounded once from a root and a quotient.
pub(crate) fn approximate(name: &str, flushes: bool) -> Option<Un64> {
    Some(match (name, flushes) {
        ("rcp", true) => lanes!(|a| upper(1.0 / flushed(a))),
        ("rsqrt", true) => lanes!(|a| upper(1.0 / flushed(a).sqrt())),
        ("rsqrt", false) => lanes!(|a| {
            let a = f64::from_bits(a);
            settle(1.0 / a.sqrt(), [a, a, a]).to_bits()
        }),
        _ => return None,
    })
}

/// `min` and `max`.
pub(crate) fn extreme(name: &str) -> Option<Bin64> {
    Some(match name {
        "min" => lanes!(|a, b| extreme_of::<false>(a, b)),
        "max" => lanes!(|a, b| extreme_of::<true>(a, b)),
        _ => return None,
    })
}

/// `copysign.f64`
pub(crate) fn copysign() -> Bin64 {
    lanes!(|a, b| b & !(1 << 63) | a & 1 << 63)
}

/// The operand of a subtraction with its sign changed, unless it is a NaN, whose payload stays.
#[inline(always)]
fn negated(bits: u64) -> f64 {
    let value = f64::from_bits(bits);
    if value.is_nan() { value } else { -value }
}

#[inline(always)]
fn quiet_or(bits: u64, other: u64) -> u64 {
    if bits & !(1 << 63) > 0x7ff0_0000_0000_0000 { bits | 1 << 51 } else { other }
}

#[inline(always)]
fn flushed(bits: u64) -> f64 {
    let upper = bits & 0xffff_ffff_0000_0000;
    f64::from_bits(if upper & 0x7ff0_0000_0000_0000 == 0 { upper & 1 << 63 } else { upper })
}

#[inline(always)]
fn upper(value: f64) -> u64 {
    if value.is_nan() {
        return 0x7fff_ffff_0000_0000;
    }
    let upper = value.to_bits() & 0xffff_ffff_0000_0000;
    if upper & 0x7ff0_0000_0000_0000 == 0 { upper & 1 << 63 } else { upper }
}

#[inline(always)]
fn extreme_of<const MAX: bool>(a: u64, b: u64) -> u64 {
    let (x, y) = (f64::from_bits(a), f64::from_bits(b));
    match (x.is_nan(), y.is_nan()) {
        (true, true) => settle(f64::NAN, [y, x, x]).to_bits(),
        (true, false) => b,
        (false, true) => a,
        (false, false) => {
            let key = |bits: u64| {
                let bits = bits.cast_signed();
                bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()
            };
            if (key(a) < key(b)) == MAX { b } else { a }
        }
    }
}
