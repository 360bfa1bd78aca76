//! Comparisons, by type and operator.
#![allow(
    clippy::neg_cmp_op_on_partial_ord,
    reason = "the unordered operators hold for NaN, which the negation says"
)]

use super::{s16, s32, u16};
use crate::float::narrow::flush as flush_narrow;
use crate::float::round::{BF16, F16, Format};
use crate::float::single::flush;
use crate::form::{Test32, Test64};
use crate::lanes::test2;
use crate::ptx::ScalarType::{self, B16, B32, B64, S16, S32, S64, U16, U32, U64};

/// A test over lanes from one over values.
macro_rules! test {
    (|$a:ident, $b:ident| $body:expr) => {
        |x, y| test2(x, y, |$a, $b| $body)
    };
}

/// Comparisons of integers of at most 32 bits.
pub(crate) fn integer32(op: &str, ty: ScalarType) -> Option<Test32> {
    Some(match (op, ty) {
        ("eq", B16 | U16 | S16) => test!(|a, b| u16(a) == u16(b)),
        ("ne", B16 | U16 | S16) => test!(|a, b| u16(a) != u16(b)),
        ("lt", S16) => test!(|a, b| s16(a) < s16(b)),
        ("le", S16) => test!(|a, b| s16(a) <= s16(b)),
        ("gt", S16) => test!(|a, b| s16(a) > s16(b)),
        ("ge", S16) => test!(|a, b| s16(a) >= s16(b)),
        ("lt" | "lo", U16) => test!(|a, b| u16(a) < u16(b)),
        ("le" | "ls", U16) => test!(|a, b| u16(a) <= u16(b)),
        ("gt" | "hi", U16) => test!(|a, b| u16(a) > u16(b)),
        ("ge" | "hs", U16) => test!(|a, b| u16(a) >= u16(b)),
        ("eq", B32 | U32 | S32) => test!(|a, b| a == b),
        ("ne", B32 | U32 | S32) => test!(|a, b| a != b),
        ("lt", S32) => test!(|a, b| s32(a) < s32(b)),
        ("le", S32) => test!(|a, b| s32(a) <= s32(b)),
        ("gt", S32) => test!(|a, b| s32(a) > s32(b)),
        ("ge", S32) => test!(|a, b| s32(a) >= s32(b)),
        ("lt" | "lo", U32) => test!(|a, b| a < b),
        ("le" | "ls", U32) => test!(|a, b| a <= b),
        ("gt" | "hi", U32) => test!(|a, b| a > b),
        ("ge" | "hs", U32) => test!(|a, b| a >= b),
        _ => return None,
    })
}

/// Comparisons of 64-bit integers.
pub(crate) fn integer64(op: &str, ty: ScalarType) -> Option<Test64> {
    Some(match (op, ty) {
        ("eq", B64 | U64 | S64) => test!(|a, b| a == b),
        ("ne", B64 | U64 | S64) => test!(|a, b| a != b),
        ("lt", S64) => test!(|a, b| a.cast_signed() < b.cast_signed()),
        ("le", S64) => test!(|a, b| a.cast_signed() <= b.cast_signed()),
        ("gt", S64) => test!(|a, b| a.cast_signed() > b.cast_signed()),
        ("ge", S64) => test!(|a, b| a.cast_signed() >= b.cast_signed()),
        ("lt" | "lo", U64) => test!(|a, b| a < b),
        ("le" | "ls", U64) => test!(|a, b| a <= b),
        ("gt" | "hi", U64) => test!(|a, b| a > b),
        ("ge" | "hs", U64) => test!(|a, b| a >= b),
        _ => return None,
    })
}

/// Less or greater: false if an operand is a NaN, which `!=` is not.
#[inline(always)]
fn apart<T: PartialOrd>(a: T, b: T) -> bool {
    a < b || b < a
}

/// The float operators over values made by `$value`; those with a `u` also hold if an operand is a NaN.
macro_rules! floats {
    ($op:expr, $value:expr) => {
        match $op {
            "eq" => test!(|a, b| $value(a) == $value(b)),
            "ne" => test!(|a, b| apart($value(a), $value(b))),
            "lt" => test!(|a, b| $value(a) < $value(b)),
            "le" => test!(|a, b| $value(a) <= $value(b)),
            "gt" => test!(|a, b| $value(a) > $value(b)),
            "ge" => test!(|a, b| $value(a) >= $value(b)),
            "equ" => test!(|a, b| !apart($value(a), $value(b))),
            "neu" => test!(|a, b| $value(a) != $value(b)),
            "ltu" => test!(|a, b| !($value(a) >= $value(b))),
            "leu" => test!(|a, b| !($value(a) > $value(b))),
            "gtu" => test!(|a, b| !($value(a) <= $value(b))),
            "geu" => test!(|a, b| !($value(a) < $value(b))),
            "num" => test!(|a, b| !$value(a).is_nan() && !$value(b).is_nan()),
            "nan" => test!(|a, b| $value(a).is_nan() || $value(b).is_nan()),
            _ => return None,
        }
    };
}

/// Comparisons of singles.
pub(crate) fn single(op: &str, flushes: bool) -> Option<Test32> {
    Some(if flushes {
        floats!(op, |bits: u32| flush(f32::from_bits(bits)))
    } else {
        floats!(op, f32::from_bits)
    })
}

/// Comparisons of doubles.
pub(crate) fn double(op: &str) -> Option<Test64> {
    Some(floats!(op, f64::from_bits))
}

/// Comparisons of `f16` or `bf16`: of the low half of a register, or of the high one.
pub(crate) fn narrow(op: &str, brain: bool, flushes: bool, high: bool) -> Option<Test32> {
    Some(match (brain, flushes, high) {
        (false, false, false) => floats!(op, |bits| value(F16, bits, false)),
        (false, false, true) => floats!(op, |bits| value(F16, bits >> 16, false)),
        (false, true, false) => floats!(op, |bits| value(F16, bits, true)),
        (false, true, true) => floats!(op, |bits| value(F16, bits >> 16, true)),
        (true, _, false) => floats!(op, |bits| value(BF16, bits, false)),
        (true, _, true) => floats!(op, |bits| value(BF16, bits >> 16, false)),
    })
}

/// The tests of `testp` on a single; the second operand is not looked at.
pub(crate) fn property32(op: &str) -> Option<Test32> {
    Some(match op {
        "finite" => test!(|a, _b| f32::from_bits(a).is_finite()),
        "infinite" => test!(|a, _b| f32::from_bits(a).is_infinite()),
        "number" => test!(|a, _b| !f32::from_bits(a).is_nan()),
        "notanumber" => test!(|a, _b| f32::from_bits(a).is_nan()),
        // Zero counts as normal here: it is not subnormal.
        "normal" => test!(|a, _b| f32::from_bits(a).is_normal() || a << 1 == 0),
        "subnormal" => test!(|a, _b| f32::from_bits(a).is_subnormal()),
        _ => return None,
    })
}

/// The tests of `testp` on a double.
pub(crate) fn property64(op: &str) -> Option<Test64> {
    Some(match op {
        "finite" => test!(|a, _b| f64::from_bits(a).is_finite()),
        "infinite" => test!(|a, _b| f64::from_bits(a).is_infinite()),
        "number" => test!(|a, _b| !f64::from_bits(a).is_nan()),
        "notanumber" => test!(|a, _b| f64::from_bits(a).is_nan()),
        "normal" => test!(|a, _b| f64::from_bits(a).is_normal() || a << 1 == 0),
        "subnormal" => test!(|a, _b| f64::from_bits(a).is_subnormal()),
        _ => return None,
    })
}

#[inline(always)]
fn value(format: Format, bits: u32, flushes: bool) -> f64 {
    format.decode(if flushes { flush_narrow(format, bits & 0xffff) } else { bits })
}
