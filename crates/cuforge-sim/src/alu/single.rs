//! Single precision over lanes.

use super::lanes;
use crate::float::approx;
use crate::float::round::{Rounding, add_to_odd};
use crate::float::single::{NAN_BITS, add, canonical, div, flush, flush_result, fma, mul, saturate, sqrt};
use crate::form::{Bin32, Tern32, Un32};

const ADD: u8 = 0;
const SUB: u8 = 1;
const MUL: u8 = 2;
const DIV: u8 = 3;
const RCP: u8 = 4;
const SQRT: u8 = 5;

/// How an instruction treats its operands and its result.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Manner {
    pub(crate) rounding: Rounding,
    /// `.ftz`
    pub(crate) flush: bool,
    /// `.sat`
    pub(crate) saturate: bool,
}

/// The instance of a function that is generic over rounding, flushing and saturation.
macro_rules! instance {
    ($manner:expr, $f:ident $(, $extra:expr)*) => {
        match ($manner.rounding, $manner.flush, $manner.saturate) {
            (Rounding::Nearest, false, false) => $f::<$($extra,)* 0, false, false>,
            (Rounding::Nearest, false, true) => $f::<$($extra,)* 0, false, true>,
            (Rounding::Nearest, true, false) => $f::<$($extra,)* 0, true, false>,
            (Rounding::Nearest, true, true) => $f::<$($extra,)* 0, true, true>,
            (Rounding::Zero, false, false) => $f::<$($extra,)* 1, false, false>,
            (Rounding::Zero, false, true) => $f::<$($extra,)* 1, false, true>,
            (Rounding::Zero, true, false) => $f::<$($extra,)* 1, true, false>,
            (Rounding::Zero, true, true) => $f::<$($extra,)* 1, true, true>,
            (Rounding::Down, false, false) => $f::<$($extra,)* 2, false, false>,
            (Rounding::Down, false, true) => $f::<$($extra,)* 2, false, true>,
            (Rounding::Down, true, false) => $f::<$($extra,)* 2, true, false>,
            (Rounding::Down, true, true) => $f::<$($extra,)* 2, true, true>,
            (Rounding::Up, false, false) => $f::<$($extra,)* 3, false, false>,
            (Rounding::Up, false, true) => $f::<$($extra,)* 3, false, true>,
            (Rounding::Up, true, false) => $f::<$($extra,)* 3, true, false>,
            (Rounding::Up, true, true) => $f::<$($extra,)* 3, true, true>,
            (Rounding::Away, ..) => return None,
        }
    };
}

/// The rounding that a generic argument stands for.
#[inline(always)]
pub(crate) const fn rounding(mode: u8) -> Rounding {
    match mode {
        0 => Rounding::Nearest,
        1 => Rounding::Zero,
        2 => Rounding::Down,
        _ => Rounding::Up,
    }
}

/// `add`, `sub`, `mul`, `div`.
pub(crate) fn binary(name: &str, manner: Manner) -> Option<Bin32> {
    Some(match name {
        "add" => instance!(manner, arithmetic, ADD),
        "sub" => instance!(manner, arithmetic, SUB),
        "mul" => instance!(manner, arithmetic, MUL),
        "div" => instance!(manner, arithmetic, DIV),
        _ => return None,
    })
}

/// `fma` and `mad`.
pub(crate) fn fused(manner: Manner) -> Option<Tern32> {
    Some(instance!(manner, fused_lanes))
}

/// `sqrt` and `rcp` with exact rounding.
pub(crate) fn unary(name: &str, manner: Manner) -> Option<Un32> {
    Some(match name {
        "rcp" => instance!(manner, unary_lanes, RCP),
        "sqrt" => instance!(manner, unary_lanes, SQRT),
        _ => return None,
    })
}

/// `neg` and `abs`.
pub(crate) fn sign(name: &str, flushes: bool) -> Option<Un32> {
    Some(match (name, flushes) {
        ("neg", false) => lanes!(|a| canonical(-f32::from_bits(a))),
        ("neg", true) => lanes!(|a| canonical(-flush(f32::from_bits(a)))),
        ("abs", false) => lanes!(|a| canonical(f32::from_bits(a).abs())),
        ("abs", true) => lanes!(|a| canonical(flush(f32::from_bits(a)).abs())),
        _ => return None,
    })
}

/// The approximate functions of one operand.
pub(crate) fn approximate(name: &str, flushes: bool) -> Option<Un32> {
    Some(match (name, flushes) {
        ("ex2", false) => lanes!(|a| canonical(approx::ex2(f32::from_bits(a), false))),
        ("ex2", true) => lanes!(|a| canonical(approx::ex2(f32::from_bits(a), true))),
        ("lg2", false) => lanes!(|a| canonical(approx::lg2(f32::from_bits(a), false))),
        ("lg2", true) => lanes!(|a| canonical(approx::lg2(f32::from_bits(a), true))),
        ("rcp", false) => lanes!(|a| canonical(approx::rcp(f32::from_bits(a), false))),
        ("rcp", true) => lanes!(|a| canonical(approx::rcp(f32::from_bits(a), true))),
        ("rsqrt", false) => lanes!(|a| canonical(approx::rsqrt(f32::from_bits(a), false))),
        ("rsqrt", true) => lanes!(|a| canonical(approx::rsqrt(f32::from_bits(a), true))),
        ("sqrt", false) => lanes!(|a| canonical(approx::sqrt(f32::from_bits(a), false))),
        ("sqrt", true) => lanes!(|a| canonical(approx::sqrt(f32::from_bits(a), true))),
        ("sin", false) => lanes!(|a| canonical(approx::sin(f32::from_bits(a), false))),
        ("sin", true) => lanes!(|a| canonical(approx::sin(f32::from_bits(a), true))),
        ("cos", false) => lanes!(|a| canonical(approx::cos(f32::from_bits(a), false))),
        ("cos", true) => lanes!(|a| canonical(approx::cos(f32::from_bits(a), true))),
        ("tanh", false) => lanes!(|a| canonical(approx::tanh(f32::from_bits(a)))),
        _ => return None,
    })
}

/// `div.approx` and `div.full`.
pub(crate) fn approximate_div(full: bool, flushes: bool) -> Bin32 {
    match (full, flushes) {
        (false, false) => lanes!(|a, b| canonical(approx::div(f32::from_bits(a), f32::from_bits(b), false))),
        (false, true) => lanes!(|a, b| canonical(approx::div(f32::from_bits(a), f32::from_bits(b), true))),
        (true, false) => {
            lanes!(|a, b| canonical(approx::div_full(f32::from_bits(a), f32::from_bits(b), false)))
        }
        (true, true) => {
            lanes!(|a, b| canonical(approx::div_full(f32::from_bits(a), f32::from_bits(b), true)))
        }
    }
}

/// `min` and `max`: `ftz`, `.NaN`, `.xorsign.abs`.
pub(crate) fn extreme(max: bool, flushes: bool, nan: bool, xorsign: bool) -> Bin32 {
    macro_rules! pick {
        ($($max:literal $flush:literal $nan:literal $xor:literal;)*) => {
            match (max, flushes, nan, xorsign) {
                $(($max, $flush, $nan, $xor) => lanes!(|a, b| extreme_of::<$max, $flush, $nan, $xor>(a, b)),)*
            }
        };
    }
    pick! {
        false false false false; false false false true; false false true false; false false true true;
        false true false false; false true false true; false true true false; false true true true;
        true false false false; true false false true; true false true false; true false true true;
        true true false false; true true false true; true true true false; true true true true;
    }
}

/// `min` and `max` of three operands.
pub(crate) fn extreme3(max: bool, flushes: bool, nan: bool) -> Tern32 {
    macro_rules! pick {
        ($($max:literal $flush:literal $nan:literal;)*) => {
            match (max, flushes, nan) {
                $(($max, $flush, $nan) => lanes!(|a, b, c| {
                    let first = extreme_of::<$max, $flush, $nan, false>(a, b);
                    extreme_of::<$max, $flush, $nan, false>(first, c)
                }),)*
            }
        };
    }
    pick! {
        false false false; false false true; false true false; false true true;
        true false false; true false true; true true false; true true true;
    }
}

/// `copysign.f32 d, a, b`: the magnitude of `b` with the sign of `a`.
pub(crate) fn copysign() -> Bin32 {
    lanes!(|a, b| b & !(1 << 31) | a & 1 << 31)
}

fn arithmetic<const OP: u8, const MODE: u8, const FLUSH: bool, const SATURATE: bool>(
    a: &crate::lanes::L32,
    b: &crate::lanes::L32,
    out: &mut crate::lanes::L32,
) {
    crate::lanes::map2(a, b, out, |a, b| {
        let (a, b) = (operand::<FLUSH>(a), operand::<FLUSH>(b));
        let mode = rounding(MODE);
        let value = match OP {
            ADD => add(a, b, mode),
            SUB => add(a, -b, mode),
            MUL => mul(a, b, mode),
            _ => div(a, b, mode),
        };
        // A sum below the normal range is exact.
        let wide = || match OP {
            ADD | SUB => f64::from(value),
            MUL => f64::from(a) * f64::from(b),
            _ => f64::from(a) / f64::from(b),
        };
        finish::<FLUSH, SATURATE>(value, wide, mode)
    });
}

fn fused_lanes<const MODE: u8, const FLUSH: bool, const SATURATE: bool>(
    a: &crate::lanes::L32,
    b: &crate::lanes::L32,
    c: &crate::lanes::L32,
    out: &mut crate::lanes::L32,
) {
    crate::lanes::map3(a, b, c, out, |a, b, c| {
        let (a, b, c) = (operand::<FLUSH>(a), operand::<FLUSH>(b), operand::<FLUSH>(c));
        let wide = || add_to_odd(f64::from(a) * f64::from(b), f64::from(c));
        finish::<FLUSH, SATURATE>(fma(a, b, c, rounding(MODE)), wide, rounding(MODE))
    });
}

fn unary_lanes<const OP: u8, const MODE: u8, const FLUSH: bool, const SATURATE: bool>(
    a: &crate::lanes::L32,
    out: &mut crate::lanes::L32,
) {
    crate::lanes::map1(a, out, |a| {
        let a = operand::<FLUSH>(a);
        let value = if OP == RCP { div(1.0, a, rounding(MODE)) } else { sqrt(a, rounding(MODE)) };
        // A root is never below the normal range.
        let wide = || if OP == RCP { 1.0 / f64::from(a) } else { f64::from(value) };
        finish::<FLUSH, SATURATE>(value, wide, rounding(MODE))
    });
}

#[inline(always)]
fn operand<const FLUSH: bool>(bits: u32) -> f32 {
    let value = f32::from_bits(bits);
    if FLUSH { flush(value) } else { value }
}

#[inline(always)]
fn finish<const FLUSH: bool, const SATURATE: bool>(
    value: f32,
    wide: impl Fn() -> f64,
    mode: Rounding,
) -> u32 {
    let value = if FLUSH { flush_result(value, wide, mode) } else { value };
    canonical(if SATURATE { saturate(value) } else { value })
}

#[inline(always)]
fn extreme_of<const MAX: bool, const FLUSH: bool, const NAN: bool, const XORSIGN: bool>(
    a: u32,
    b: u32,
) -> u32 {
    let (a, b) = (operand::<FLUSH>(a), operand::<FLUSH>(b));
    let sign = (a.to_bits() ^ b.to_bits()) & 1 << 31;
    let (a, b) = if XORSIGN { (a.abs(), b.abs()) } else { (a, b) };
    let result = if a.is_nan() || b.is_nan() {
        match (NAN, a.is_nan(), b.is_nan()) {
            (true, ..) | (_, true, true) => return NAN_BITS,
            (_, true, _) => b,
            _ => a,
        }
    } else {
        // As integers so ordered, -0 comes below +0.
        let key = |value: f32| {
            let bits = value.to_bits().cast_signed();
            bits ^ ((bits >> 31).cast_unsigned() >> 1).cast_signed()
        };
        if (key(a) < key(b)) == MAX { b } else { a }
    };
    if XORSIGN { result.to_bits() & !(1 << 31) | sign } else { result.to_bits() }
}
