//! Integers of 64 bits.

use super::lanes;
use crate::form::{Bin64, Tern64, Un64};
use crate::ptx::ScalarType::{self, S64, U64};

/// Two-operand instructions by name and type.
pub(crate) fn binary(name: &str, ty: ScalarType) -> Option<Bin64> {
    Some(match (name, ty) {
        ("add", U64 | S64) => lanes!(|a, b| a.wrapping_add(b)),
        ("sub", U64 | S64) => lanes!(|a, b| a.wrapping_sub(b)),
        ("mul.lo", U64 | S64) => lanes!(|a, b| a.wrapping_mul(b)),
        ("mul.hi", U64) => lanes!(|a, b| high(a, b)),
        ("mul.hi", S64) => lanes!(|a, b| high_signed(a, b)),
        ("div", U64) => lanes!(|a, b| a.checked_div(b).unwrap_or(u64::MAX)),
        ("div", S64) => lanes!(|a, b| {
            if b == 0 { u64::MAX } else { a.cast_signed().wrapping_div(b.cast_signed()).cast_unsigned() }
        }),
        ("rem", U64) => lanes!(|a, b| a.checked_rem(b).unwrap_or(u64::MAX)),
        ("rem", S64) => lanes!(|a, b| {
            if b == 0 { u64::MAX } else { a.cast_signed().wrapping_rem(b.cast_signed()).cast_unsigned() }
        }),
        ("min", U64) => lanes!(|a, b| a.min(b)),
        ("max", U64) => lanes!(|a, b| a.max(b)),
        ("min", S64) => lanes!(|a, b| a.cast_signed().min(b.cast_signed()).cast_unsigned()),
        ("max", S64) => lanes!(|a, b| a.cast_signed().max(b.cast_signed()).cast_unsigned()),
        _ => return None,
    })
}

/// One-operand instructions.
pub(crate) fn unary(name: &str, ty: ScalarType) -> Option<Un64> {
    Some(match (name, ty) {
        ("neg", S64) => lanes!(|a| a.wrapping_neg()),
        ("abs", S64) => lanes!(|a| a.cast_signed().wrapping_abs().cast_unsigned()),
        _ => return None,
    })
}

/// Three-operand instructions.
pub(crate) fn ternary(name: &str, ty: ScalarType) -> Option<Tern64> {
    Some(match (name, ty) {
        ("mad.lo", U64 | S64) => lanes!(|a, b, c| a.wrapping_mul(b).wrapping_add(c)),
        ("mad.hi", U64) => lanes!(|a, b, c| high(a, b).wrapping_add(c)),
        ("mad.hi", S64) => lanes!(|a, b, c| high_signed(a, b).wrapping_add(c)),
        ("sad", U64) => lanes!(|a, b, c| a.abs_diff(b).wrapping_add(c)),
        ("sad", S64) => lanes!(|a, b, c| a.cast_signed().abs_diff(b.cast_signed()).wrapping_add(c)),
        _ => return None,
    })
}

#[inline(always)]
fn high(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 64) as u64
}

#[inline(always)]
fn high_signed(a: u64, b: u64) -> u64 {
    ((i128::from(a.cast_signed()) * i128::from(b.cast_signed())) >> 64) as u64
}
