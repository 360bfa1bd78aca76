//! Single precision over lanes.

use super::lanes;
use crate::float::approx;
use crate::float::round::Rounding;
use crate::float::single::{NAN_BITS, add, canonical, div, flush, fma, mul, saturate, sqrt};
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
        ("neg", false) => lanes!(|a| a ^ 1 << 31),
        ("neg", true) => lanes!(|a| flush(f32::from_bits(a)).to_bits() ^ 1 << 31),
        ("abs", false) => lanes!(|a| a & !(1 << 31)),
        ("abs", true) => lanes!(|a| flush(f32::from_bits(a)).to_bits() & !(1 << 31)),
        _ => return None,
    })
}

/// The approximate functions of one operand.
pub(crate) fn approximate(name: &str, flushes: bool) -> Option<Un32> {
    Some(match (name, flushes) {
        ("ex2", false) => lanes!(|a| approx::ex2(f32::from_bits(a), false).to_bits()),
        ("ex2", true) => lanes!(|a| approx::ex2(f32::from_bits(a), true).to_bits()),
        ("lg2", false) => lanes!(|a| approx::lg2(f32::from_bits(a), false).to_bits()),
        ("lg2", true) => lanes!(|a| approx::lg2(f32::from_bits(a), true).to_bits()),
        ("rcp", false) => lanes!(|a| approx::rcp(f32::from_bits(a), false).to_bits()),
        ("rcp", true) => lanes!(|a| approx::rcp(f32::from_bits(a), true).to_bits()),
        ("rsqrt", false) => lanes!(|a| approx::rsqrt(f32::from_bits(a), false).to_bits()),
        ("rsqrt", true) => lanes!(|a| approx::rsqrt(f32::from_bits(a), true).to_bits()),
        ("sqrt", false) => lanes!(|a| approx::sqrt(f32::from_bits(a), false).to_bits()),
        ("sqrt", true) => lanes!(|a| approx::sqrt(f32::from_bits(a), true).to_bits()),
        ("sin", false) => lanes!(|a| approx::sin(f32::from_bits(a), false).to_bits()),
        ("sin", true) => lanes!(|a| approx::sin(f32::from_bits(a), true).to_bits()),
        ("cos", false) => lanes!(|a| approx::cos(f32::from_bits(a), false).to_bits()),
        ("cos", true) => lanes!(|a| approx::cos(f32::from_bits(a), true).to_bits()),
        ("tanh", false) => lanes!(|a| approx::tanh(f32::from_bits(a)).to_bits()),
        _ => return None,
    })
}

/// `div.approx` and `div.full`.
pub(crate) fn approximate_div(full: bool, flushes: bool) -> Bin32 {
    match (full, flushes) {
        (false, false) => lanes!(|a, b| approx::div(f32::from_bits(a), f32::from_bits(b), false).to_bits()),
        (false, true) => lanes!(|a, b| approx::div(f32::from_bits(a), f32::from_bits(b), true).to_bits()),
        (true, false) => {
            lanes!(|a, b| approx::div_full(f32::from_bits(a), f32::from_bits(b), false).to_bits())
        }
        (true, true) => {
            lanes!(|a, b| approx::div_full(f32::from_bits(a), f32::from_bits(b), true).to_bits())
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
        finish::<FLUSH, SATURATE>(value)
    });
}

fn fused_lanes<const MODE: u8, const FLUSH: bool, const SATURATE: bool>(
    a: &crate::lanes::L32,
    b: &crate::lanes::L32,
    c: &crate::lanes::L32,
    out: &mut crate::lanes::L32,
) {
    crate::lanes::map3(a, b, c, out, |a, b, c| {
        let value = fma(operand::<FLUSH>(a), operand::<FLUSH>(b), operand::<FLUSH>(c), rounding(MODE));
        finish::<FLUSH, SATURATE>(value)
    });
}

fn unary_lanes<const OP: u8, const MODE: u8, const FLUSH: bool, const SATURATE: bool>(
    a: &crate::lanes::L32,
    out: &mut crate::lanes::L32,
) {
    crate::lanes::map1(a, out, |a| {
        let a = operand::<FLUSH>(a);
        let value = if OP == RCP { div(1.0, a, rounding(MODE)) } else { sqrt(a, rounding(MODE)) };
        finish::<FLUSH, SATURATE>(value)
    });
}

#[inline(always)]
fn operand<const FLUSH: bool>(bits: u32) -> f32 {
    let value = f32::from_bits(bits);
    if FLUSH { flush(value) } else { value }
}

#[inline(always)]
fn finish<const FLUSH: bool, const SATURATE: bool>(value: f32) -> u32 {
    let value = if FLUSH { flush(value) } else { value };
    let value = if SATURATE { saturate(value) } else { value };
    canonical(value).to_bits()
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
