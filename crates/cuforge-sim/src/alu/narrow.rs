//! `f16` and `bf16`, single and packed, over lanes.

use super::{lanes, u16};
use crate::float::narrow::{exact_fma, exact_product, exact_sum, flush, is_nan, saturate};
use crate::float::round::{BF16, F16, Format, Rounding};
use crate::form::{Bin32, Tern32, Un32};

/// How an instruction treats operands and result.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Manner {
    /// `bf16` instead of `f16`.
    pub(crate) brain: bool,
    /// Two values in 32 bits.
    pub(crate) packed: bool,
    /// `.ftz`
    pub(crate) flush: bool,
    /// `.sat`
    pub(crate) saturate: bool,
    /// `.relu`
    pub(crate) relu: bool,
}

const fn format(brain: bool) -> Format {
    if brain { BF16 } else { F16 }
}

/// What a generic function is made for: format and after-treatment in the bits of a number.
const BRAIN: u8 = 1;
const PACKED: u8 = 2;
const FLUSH: u8 = 4;
const SATURATE: u8 = 8;
const RELU: u8 = 16;

impl Manner {
    fn code(self) -> u8 {
        let bit = |set: bool, bit: u8| if set { bit } else { 0 };
        bit(self.brain, BRAIN)
            | bit(self.packed, PACKED)
            | bit(self.flush, FLUSH)
            | bit(self.saturate, SATURATE)
            | bit(self.relu, RELU)
    }
}

macro_rules! by_code {
    ($code:expr, $f:ident $(, $extra:expr)*) => {
        by_code!(@ $code, $f, [$($extra),*];
            0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31)
    };
    (@ $code:expr, $f:ident, $extra:tt; $($number:literal)*) => {
        match $code { $($number => by_code!(? $f, $extra, $number),)* _ => return None }
    };
    (? $f:ident, [$($extra:expr),*], $number:literal) => { $f::<$($extra,)* $number> };
}

/// `add`, `sub`, `mul`.
pub(crate) fn binary(name: &str, manner: Manner) -> Option<Bin32> {
    let code = manner.code();
    Some(match name {
        "add" => by_code!(code, arithmetic, 0),
        "sub" => by_code!(code, arithmetic, 1),
        "mul" => by_code!(code, arithmetic, 2),
        _ => return None,
    })
}

/// `fma`
pub(crate) fn fused(manner: Manner) -> Option<Tern32> {
    Some(by_code!(manner.code(), fused_lanes))
}

/// `neg` and `abs`; `ftz` is for `f16` only.
pub(crate) fn sign(name: &str, manner: Manner) -> Option<Un32> {
    let negate = match name {
        "neg" => true,
        "abs" => false,
        _ => return None,
    };
    Some(match (negate, manner.brain, manner.flush) {
        (true, false, false) => lanes!(|a| halves(a, |a| settled(F16, a, a ^ 0x8000))),
        (false, false, false) => lanes!(|a| halves(a, |a| settled(F16, a, a & 0x7fff))),
        (true, true, _) => lanes!(|a| halves(a, |a| settled(BF16, a, a ^ 0x8000))),
        (false, true, _) => lanes!(|a| halves(a, |a| settled(BF16, a, a & 0x7fff))),
        (true, false, true) => lanes!(|a| halves(a, |a| settled(F16, a, flush(F16, a) ^ 0x8000))),
        (false, false, true) => lanes!(|a| halves(a, |a| settled(F16, a, flush(F16, a) & 0x7fff))),
    })
}

/// `min` and `max` with `.NaN` and `.xorsign.abs`.
pub(crate) fn extreme(max: bool, nan: bool, xorsign: bool, manner: Manner) -> Option<Bin32> {
    if manner.saturate {
        return None;
    }
    macro_rules! pick {
        ($($max:literal $nan:literal $xor:literal;)*) => {
            match (max, nan, xorsign) {
                $(($max, $nan, $xor) => by_code!(manner.code(), extreme_lanes, $max, $nan, $xor),)*
            }
        };
    }
    Some(pick! {
        false false false; false false true; false true false; false true true;
        true false false; true false true; true true false; true true true;
    })
}

/// `ex2.approx` and `tanh.approx` of `f16` and `bf16`: computed in double precision, rounded once.
pub(crate) fn approximate(name: &str, manner: Manner) -> Option<Un32> {
    let (brain, flushes) = (manner.brain, manner.flush);
    Some(match (name, brain, flushes) {
        ("ex2", false, false) => lanes!(|a| halves(a, |a| through(F16, a, f64::exp2))),
        ("ex2", true, true) => {
            lanes!(|a| halves(a, |a| flush(BF16, through(BF16, flush(BF16, a), f64::exp2))))
        }
        ("tanh", false, false) => lanes!(|a| halves(a, |a| through(F16, a, f64::tanh))),
        ("tanh", true, false) => lanes!(|a| halves(a, |a| through(BF16, a, f64::tanh))),
        _ => return None,
    })
}

/// One atomic addition on a 16-bit value or a pair.
pub(crate) fn atomic_add(brain: bool, packed: bool) -> fn(u32, u32) -> u32 {
    match (brain, packed) {
        (false, false) => |a, b| F16.encode(exact_sum(F16, u16(a), u16(b)), Rounding::Nearest),
        (true, false) => |a, b| BF16.encode(exact_sum(BF16, u16(a), u16(b)), Rounding::Nearest),
        (false, true) => |a, b| pairs(a, b, |a, b| F16.encode(exact_sum(F16, a, b), Rounding::Nearest)),
        (true, true) => |a, b| pairs(a, b, |a, b| BF16.encode(exact_sum(BF16, a, b), Rounding::Nearest)),
    }
}

/// The canonical NaN if the operand is a NaN.
#[inline(always)]
fn settled(format: Format, operand: u32, result: u32) -> u32 {
    if is_nan(format, operand) { format.nan() } else { result }
}

fn through(format: Format, bits: u32, f: impl Fn(f64) -> f64) -> u32 {
    format.encode(f(format.decode(bits)), Rounding::Nearest)
}

#[inline(always)]
fn halves(a: u32, f: impl Fn(u32) -> u32) -> u32 {
    f(a & 0xffff) | f(a >> 16) << 16
}

#[inline(always)]
fn pairs(a: u32, b: u32, f: impl Fn(u32, u32) -> u32) -> u32 {
    f(a & 0xffff, b & 0xffff) | f(a >> 16, b >> 16) << 16
}

#[inline(always)]
fn input<const CODE: u8>(bits: u32) -> u32 {
    let format = format(CODE & BRAIN != 0);
    if CODE & FLUSH != 0 { flush(format, bits) } else { bits }
}

/// Rounds what an operation gives before rounding, and treats it as asked.
#[inline(always)]
fn finish<const CODE: u8>(exact: f64) -> u32 {
    let format = format(CODE & BRAIN != 0);
    let mut bits = if CODE & FLUSH != 0 {
        format.encode_flushed(exact, Rounding::Nearest)
    } else {
        format.encode(exact, Rounding::Nearest)
    };
    if CODE & SATURATE != 0 {
        bits = saturate(format, bits);
    }
    // `.relu` clears negative results; a NaN stays one.
    if CODE & RELU != 0 && bits & format.sign() != 0 && !is_nan(format, bits) { 0 } else { bits }
}

fn arithmetic<const OP: u8, const CODE: u8>(
    a: &crate::lanes::L32,
    b: &crate::lanes::L32,
    out: &mut crate::lanes::L32,
) {
    let one = |a: u32, b: u32| {
        let format = format(CODE & BRAIN != 0);
        let (a, b) = (input::<CODE>(a), input::<CODE>(b));
        finish::<CODE>(match OP {
            0 => exact_sum(format, a, b),
            1 => exact_sum(format, a, b ^ format.sign()),
            _ => exact_product(format, a, b),
        })
    };
    crate::lanes::map2(
        a,
        b,
        out,
        |a, b| if CODE & PACKED != 0 { pairs(a, b, one) } else { one(u16(a), u16(b)) },
    );
}

fn fused_lanes<const CODE: u8>(
    a: &crate::lanes::L32,
    b: &crate::lanes::L32,
    c: &crate::lanes::L32,
    out: &mut crate::lanes::L32,
) {
    let one = |a: u32, b: u32, c: u32| {
        let format = format(CODE & BRAIN != 0);
        finish::<CODE>(exact_fma(format, input::<CODE>(a), input::<CODE>(b), input::<CODE>(c)))
    };
    crate::lanes::map3(a, b, c, out, |a, b, c| {
        if CODE & PACKED != 0 {
            one(u16(a), u16(b), u16(c)) | one(a >> 16, b >> 16, c >> 16) << 16
        } else {
            one(u16(a), u16(b), u16(c))
        }
    });
}

fn extreme_lanes<const MAX: bool, const NAN: bool, const XORSIGN: bool, const CODE: u8>(
    a: &crate::lanes::L32,
    b: &crate::lanes::L32,
    out: &mut crate::lanes::L32,
) {
    let one = |a: u32, b: u32| {
        let format = format(CODE & BRAIN != 0);
        let (a, b) = (input::<CODE>(a), input::<CODE>(b));
        let sign = (a ^ b) & format.sign();
        let magnitude = |bits: u32| if XORSIGN { bits & !format.sign() } else { bits };
        let (a, b) = (magnitude(a), magnitude(b));
        let result = match (is_nan(format, a), is_nan(format, b)) {
            (true, true) => return format.nan(),
            (true, false) => {
                if NAN {
                    return format.nan();
                } else {
                    b
                }
            }
            (false, true) => {
                if NAN {
                    return format.nan();
                } else {
                    a
                }
            }
            (false, false) => {
                let key = |bits: u32| {
                    let value = i32::from(bits as u16 as i16);
                    if value < 0 { value ^ 0x7fff } else { value }
                };
                if (key(a) < key(b)) == MAX { b } else { a }
            }
        };
        if XORSIGN { result | sign } else { result }
    };
    crate::lanes::map2(
        a,
        b,
        out,
        |a, b| if CODE & PACKED != 0 { pairs(a, b, one) } else { one(u16(a), u16(b)) },
    );
}
