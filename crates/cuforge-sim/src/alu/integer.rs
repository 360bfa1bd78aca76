//! Integers of 16 and 32 bits.

use super::{lanes, s16, s32, u16};
use crate::form::{Bin32, BinWiden, Tern32, TernWiden, Un32};
use crate::ptx::ScalarType::{self, S16, S32, U16, U32};

/// Two-operand instructions by name (`mul.lo` included) and type; `.x2` is both halves at once.
pub(crate) fn binary(name: &str, ty: ScalarType) -> Option<Bin32> {
    Some(match (name, ty) {
        ("add", U32 | S32 | U16 | S16) => lanes!(|a, b| a.wrapping_add(b)),
        ("sub", U32 | S32 | U16 | S16) => lanes!(|a, b| a.wrapping_sub(b)),
        ("add.sat", S32) => lanes!(|a, b| s32(a).saturating_add(s32(b)).cast_unsigned()),
        ("sub.sat", S32) => lanes!(|a, b| s32(a).saturating_sub(s32(b)).cast_unsigned()),
        ("mul.lo", U32 | S32 | U16 | S16) => lanes!(|a, b| a.wrapping_mul(b)),
        ("mul.hi", U32) => lanes!(|a, b| high(a, b)),
        ("mul.hi", S32) => lanes!(|a, b| high_signed(a, b)),
        ("mul.hi", U16) => lanes!(|a, b| (u16(a) * u16(b)) >> 16),
        ("mul.hi", S16) => lanes!(|a, b| ((s16(a) * s16(b)) >> 16).cast_unsigned()),
        ("mul24.lo", U32) => lanes!(|a, b| product24(a, b) as u32),
        ("mul24.hi", U32) => lanes!(|a, b| (product24(a, b) >> 16) as u32),
        ("mul24.lo", S32) => lanes!(|a, b| signed_product24(a, b) as u32),
        ("mul24.hi", S32) => lanes!(|a, b| (signed_product24(a, b) >> 16) as u32),
        ("div", U32) => lanes!(|a, b| a.checked_div(b).unwrap_or(u32::MAX)),
        ("div", S32) => lanes!(|a, b| divide(s32(a), s32(b)).cast_unsigned()),
        ("div", U16) => lanes!(|a, b| u16(a).checked_div(u16(b)).unwrap_or(0xffff)),
        ("div", S16) => lanes!(|a, b| divide(s16(a), s16(b)).cast_unsigned()),
        ("rem", U32) => lanes!(|a, b| a.checked_rem(b).unwrap_or(u32::MAX)),
        ("rem", S32) => lanes!(|a, b| remainder(s32(a), s32(b)).cast_unsigned()),
        ("rem", U16) => lanes!(|a, b| u16(a).checked_rem(u16(b)).unwrap_or(0xffff)),
        ("rem", S16) => lanes!(|a, b| remainder(s16(a), s16(b)).cast_unsigned()),
        ("min", U32) => lanes!(|a, b| a.min(b)),
        ("min", S32) => lanes!(|a, b| s32(a).min(s32(b)).cast_unsigned()),
        ("min", U16) => lanes!(|a, b| u16(a).min(u16(b))),
        ("min", S16) => lanes!(|a, b| s16(a).min(s16(b)).cast_unsigned()),
        ("max", U32) => lanes!(|a, b| a.max(b)),
        ("max", S32) => lanes!(|a, b| s32(a).max(s32(b)).cast_unsigned()),
        ("max", U16) => lanes!(|a, b| u16(a).max(u16(b))),
        ("max", S16) => lanes!(|a, b| s16(a).max(s16(b)).cast_unsigned()),
        ("min.relu", S32) => lanes!(|a, b| s32(a).min(s32(b)).max(0).cast_unsigned()),
        ("max.relu", S32) => lanes!(|a, b| s32(a).max(s32(b)).max(0).cast_unsigned()),
        ("add.x2", U16 | S16) => lanes!(|a, b| halves(a, b, u32::wrapping_add)),
        ("min.x2", U16) => lanes!(|a, b| halves(a, b, |a, b| u16(a).min(u16(b)))),
        ("max.x2", U16) => lanes!(|a, b| halves(a, b, |a, b| u16(a).max(u16(b)))),
        ("min.x2", S16) => lanes!(|a, b| halves(a, b, |a, b| s16(a).min(s16(b)).cast_unsigned())),
        ("min.x2.relu", S16) => {
            lanes!(|a, b| halves(a, b, |a, b| s16(a).min(s16(b)).max(0).cast_unsigned()))
        }
        ("max.x2.relu", S16) => {
            lanes!(|a, b| halves(a, b, |a, b| s16(a).max(s16(b)).max(0).cast_unsigned()))
        }
        ("max.x2", S16) => lanes!(|a, b| halves(a, b, |a, b| s16(a).max(s16(b)).cast_unsigned())),
        _ => return None,
    })
}

/// One-operand instructions.
pub(crate) fn unary(name: &str, ty: ScalarType) -> Option<Un32> {
    Some(match (name, ty) {
        ("neg", S32 | S16) => lanes!(|a| a.wrapping_neg()),
        ("abs", S32) => lanes!(|a| s32(a).wrapping_abs().cast_unsigned()),
        ("abs", S16) => lanes!(|a| s16(a).wrapping_abs().cast_unsigned()),
        _ => return None,
    })
}

/// Three-operand instructions of one width.
pub(crate) fn ternary(name: &str, ty: ScalarType) -> Option<Tern32> {
    Some(match (name, ty) {
        ("mad.lo", U32 | S32 | U16 | S16) => lanes!(|a, b, c| a.wrapping_mul(b).wrapping_add(c)),
        ("mad.hi", U32) => lanes!(|a, b, c| high(a, b).wrapping_add(c)),
        ("mad.hi", S32) => lanes!(|a, b, c| high_signed(a, b).wrapping_add(c)),
        ("mad.hi", U16) => lanes!(|a, b, c| ((u16(a) * u16(b)) >> 16).wrapping_add(c)),
        ("mad.hi", S16) => lanes!(|a, b, c| ((s16(a) * s16(b)) >> 16).cast_unsigned().wrapping_add(c)),
        ("mad.hi.sat", S32) => {
            lanes!(|a, b, c| s32(high_signed(a, b)).saturating_add(s32(c)).cast_unsigned())
        }
        ("mad24.lo", U32) => lanes!(|a, b, c| (product24(a, b) as u32).wrapping_add(c)),
        ("mad24.hi", U32) => lanes!(|a, b, c| ((product24(a, b) >> 16) as u32).wrapping_add(c)),
        ("mad24.lo", S32) => lanes!(|a, b, c| (signed_product24(a, b) as u32).wrapping_add(c)),
        ("mad24.hi", S32) => lanes!(|a, b, c| ((signed_product24(a, b) >> 16) as u32).wrapping_add(c)),
        ("sad", U32) => lanes!(|a, b, c| a.abs_diff(b).wrapping_add(c)),
        ("sad", S32) => lanes!(|a, b, c| s32(a).abs_diff(s32(b)).wrapping_add(c)),
        ("sad", U16) => lanes!(|a, b, c| u16(a).abs_diff(u16(b)).wrapping_add(c)),
        ("sad", S16) => lanes!(|a, b, c| s16(a).abs_diff(s16(b)).wrapping_add(c)),
        _ => return None,
    })
}

/// `dp4a` and `dp2a.lo/.hi` by the types of their first and second operand.
pub(crate) fn dot(name: &str, a: ScalarType, b: ScalarType) -> Option<Tern32> {
    Some(match (name, a, b) {
        ("dp4a", U32, U32) => lanes!(|a, b, c| dot4(a, b, c, byte, byte)),
        ("dp4a", U32, S32) => lanes!(|a, b, c| dot4(a, b, c, byte, signed_byte)),
        ("dp4a", S32, U32) => lanes!(|a, b, c| dot4(a, b, c, signed_byte, byte)),
        ("dp4a", S32, S32) => lanes!(|a, b, c| dot4(a, b, c, signed_byte, signed_byte)),
        ("dp2a.lo", U32, U32) => lanes!(|a, b, c| dot2(a, b, c, half, byte, 0)),
        ("dp2a.lo", U32, S32) => lanes!(|a, b, c| dot2(a, b, c, half, signed_byte, 0)),
        ("dp2a.lo", S32, U32) => lanes!(|a, b, c| dot2(a, b, c, signed_half, byte, 0)),
        ("dp2a.lo", S32, S32) => lanes!(|a, b, c| dot2(a, b, c, signed_half, signed_byte, 0)),
        ("dp2a.hi", U32, U32) => lanes!(|a, b, c| dot2(a, b, c, half, byte, 2)),
        ("dp2a.hi", U32, S32) => lanes!(|a, b, c| dot2(a, b, c, half, signed_byte, 2)),
        ("dp2a.hi", S32, U32) => lanes!(|a, b, c| dot2(a, b, c, signed_half, byte, 2)),
        ("dp2a.hi", S32, S32) => lanes!(|a, b, c| dot2(a, b, c, signed_half, signed_byte, 2)),
        _ => return None,
    })
}

/// `mul.wide` from 32 to 64 bits.
pub(crate) fn mul_wide(ty: ScalarType) -> Option<BinWiden> {
    Some(match ty {
        U32 => lanes!(|a, b| u64::from(a) * u64::from(b)),
        S32 => lanes!(|a, b| (i64::from(s32(a)) * i64::from(s32(b))).cast_unsigned()),
        _ => return None,
    })
}

/// `mul.wide` from 16 to 32 bits.
pub(crate) fn mul_wide16(ty: ScalarType) -> Option<Bin32> {
    Some(match ty {
        U16 => lanes!(|a, b| u16(a) * u16(b)),
        S16 => lanes!(|a, b| (s16(a) * s16(b)).cast_unsigned()),
        _ => return None,
    })
}

/// `mad.wide` from 32 to 64 bits.
pub(crate) fn mad_wide(ty: ScalarType) -> Option<TernWiden> {
    Some(match ty {
        U32 => lanes!(|a, b, c| (u64::from(a) * u64::from(b)).wrapping_add(c)),
        S32 => {
            lanes!(|a, b, c| (i64::from(s32(a)) * i64::from(s32(b))).cast_unsigned().wrapping_add(c))
        }
        _ => return None,
    })
}

/// `mad.wide` from 16 to 32 bits.
pub(crate) fn mad_wide16(ty: ScalarType) -> Option<Tern32> {
    Some(match ty {
        U16 => lanes!(|a, b, c| (u16(a) * u16(b)).wrapping_add(c)),
        S16 => lanes!(|a, b, c| (s16(a) * s16(b)).cast_unsigned().wrapping_add(c)),
        _ => return None,
    })
}

#[inline(always)]
fn high(a: u32, b: u32) -> u32 {
    ((u64::from(a) * u64::from(b)) >> 32) as u32
}

#[inline(always)]
fn high_signed(a: u32, b: u32) -> u32 {
    ((i64::from(s32(a)) * i64::from(s32(b))) >> 32) as u32
}

#[inline(always)]
fn product24(a: u32, b: u32) -> u64 {
    u64::from(a & 0xff_ffff) * u64::from(b & 0xff_ffff)
}

#[inline(always)]
fn signed_product24(a: u32, b: u32) -> i64 {
    i64::from(s32(a << 8) >> 8) * i64::from(s32(b << 8) >> 8)
}

/// Division by zero gives all ones, as the hardware does.
#[inline(always)]
fn divide(a: i32, b: i32) -> i32 {
    if b == 0 { -1 } else { a.wrapping_div(b) }
}

/// So does a remainder by zero.
#[inline(always)]
fn remainder(a: i32, b: i32) -> i32 {
    if b == 0 { -1 } else { a.wrapping_rem(b) }
}

#[inline(always)]
fn halves(a: u32, b: u32, f: impl Fn(u32, u32) -> u32) -> u32 {
    u16(f(a, b)) | f(a >> 16, b >> 16) << 16
}

#[inline(always)]
fn byte(value: u32, index: u32) -> i32 {
    (value >> (index * 8) & 0xff).cast_signed()
}

#[inline(always)]
fn signed_byte(value: u32, index: u32) -> i32 {
    i32::from((value >> (index * 8)) as u8 as i8)
}

#[inline(always)]
fn half(value: u32, index: u32) -> i32 {
    (value >> (index * 16) & 0xffff).cast_signed()
}

#[inline(always)]
fn signed_half(value: u32, index: u32) -> i32 {
    s16(value >> (index * 16))
}

#[inline(always)]
fn dot4(a: u32, b: u32, c: u32, left: impl Fn(u32, u32) -> i32, right: impl Fn(u32, u32) -> i32) -> u32 {
    (0..4).fold(c, |sum, index| sum.wrapping_add((left(a, index) * right(b, index)).cast_unsigned()))
}

#[inline(always)]
fn dot2(
    a: u32,
    b: u32,
    c: u32,
    left: impl Fn(u32, u32) -> i32,
    right: impl Fn(u32, u32) -> i32,
    first: u32,
) -> u32 {
    let product = |index| left(a, index).wrapping_mul(right(b, first + index)).cast_unsigned();
    (0..2).fold(c, |sum, index| sum.wrapping_add(product(index)))
}
