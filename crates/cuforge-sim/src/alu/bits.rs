//! Bit operations of 16, 32 and 64 bits: logic, shifts, fields, counts, permutations.

use super::{lanes, s16, s32, u16};
use crate::form::{Bin32, Bin64, Field64, Insert64, Quad32, Shift64, Shrink, Tern32, Un32, Un64};

/// `and`, `or`, `xor`; narrower types take the same.
pub(crate) fn logic32(name: &str) -> Option<Bin32> {
    Some(match name {
        "and" => lanes!(|a, b| a & b),
        "or" => lanes!(|a, b| a | b),
        "xor" => lanes!(|a, b| a ^ b),
        _ => return None,
    })
}

/// `and`, `or`, `xor` of 64 bits.
pub(crate) fn logic64(name: &str) -> Option<Bin64> {
    Some(match name {
        "and" => lanes!(|a, b| a & b),
        "or" => lanes!(|a, b| a | b),
        "xor" => lanes!(|a, b| a ^ b),
        _ => return None,
    })
}

/// Shifts of 16 or 32 bits; amounts beyond the width shift everything out.
pub(crate) fn shift32(name: &str, signed: bool, bits: u32) -> Option<Bin32> {
    Some(match (name, signed, bits) {
        ("shl", _, 32) => lanes!(|a, b| if b < 32 { a << b } else { 0 }),
        ("shl", _, 16) => lanes!(|a, b| if b < 16 { a << b } else { 0 }),
        ("shr", false, 32) => lanes!(|a, b| if b < 32 { a >> b } else { 0 }),
        ("shr", true, 32) => lanes!(|a, b| (s32(a) >> b.min(31)).cast_unsigned()),
        ("shr", false, 16) => lanes!(|a, b| if b < 16 { u16(a) >> b } else { 0 }),
        ("shr", true, 16) => lanes!(|a, b| (s16(a) >> b.min(15)).cast_unsigned()),
        _ => return None,
    })
}

/// Shifts of 64 bits.
pub(crate) fn shift64(name: &str, signed: bool) -> Option<Shift64> {
    Some(match (name, signed) {
        ("shl", _) => lanes!(|a, b| if b < 64 { a << b } else { 0 }),
        ("shr", false) => lanes!(|a, b| if b < 64 { a >> b } else { 0 }),
        ("shr", true) => lanes!(|a, b| (a.cast_signed() >> b.min(63)).cast_unsigned()),
        _ => return None,
    })
}

/// `shf.l/.r` with `.clamp` or `.wrap`.
pub(crate) fn funnel(left: bool, clamp: bool) -> Tern32 {
    match (left, clamp) {
        (true, true) => lanes!(|a, b, c| (joined(a, b) << c.min(32) >> 32) as u32),
        (true, false) => lanes!(|a, b, c| (joined(a, b) << (c & 31) >> 32) as u32),
        (false, true) => lanes!(|a, b, c| (joined(a, b) >> c.min(32)) as u32),
        (false, false) => lanes!(|a, b, c| (joined(a, b) >> (c & 31)) as u32),
    }
}

/// `not`, `cnot`, `brev`, `popc`, `clz`, `bfind.u32`, `bfind.s32`, both with `.shiftamt`.
pub(crate) fn unary32(name: &str, bits: u32) -> Option<Un32> {
    Some(match (name, bits) {
        ("not", _) => lanes!(|a| !a),
        ("cnot", 32) => lanes!(|a| u32::from(a == 0)),
        ("cnot", 16) => lanes!(|a| u32::from(u16(a) == 0)),
        ("brev", 32) => lanes!(|a| a.reverse_bits()),
        ("popc", 32) => lanes!(|a| a.count_ones()),
        ("clz", 32) => lanes!(|a| a.leading_zeros()),
        ("bfind.u", 32) => lanes!(|a| find(u64::from(a))),
        ("bfind.s", 32) => lanes!(|a| find(u64::from(a ^ (s32(a) >> 31).cast_unsigned()))),
        ("bfind.shiftamt.u", 32) => lanes!(|a| distance(u64::from(a), 31)),
        ("bfind.shiftamt.s", 32) => {
            lanes!(|a| distance(u64::from(a ^ (s32(a) >> 31).cast_unsigned()), 31))
        }
        _ => return None,
    })
}

/// `not`, `cnot`, `brev` of 64 bits.
pub(crate) fn unary64(name: &str) -> Option<Un64> {
    Some(match name {
        "not" => lanes!(|a| !a),
        "cnot" => lanes!(|a| u64::from(a == 0)),
        "brev" => lanes!(|a| a.reverse_bits()),
        _ => return None,
    })
}

/// Counts in 64 bits, with 32-bit results.
pub(crate) fn count64(name: &str) -> Option<Shrink> {
    Some(match name {
        "popc" => lanes!(|a| a.count_ones()),
        "clz" => lanes!(|a| a.leading_zeros()),
        "bfind.u" => lanes!(|a| find(a)),
        "bfind.s" => lanes!(|a| find(a ^ (a.cast_signed() >> 63).cast_unsigned())),
        "bfind.shiftamt.u" => lanes!(|a| distance(a, 63)),
        "bfind.shiftamt.s" => lanes!(|a| distance(a ^ (a.cast_signed() >> 63).cast_unsigned(), 63)),
        _ => return None,
    })
}

/// `bfe.u32`, `bfe.s32`.
pub(crate) fn extract32(signed: bool) -> Tern32 {
    if signed {
        lanes!(|a, b, c| extract(i64::from(s32(a)).cast_unsigned(), b & 0xff, c & 0xff, 32, true) as u32)
    } else {
        lanes!(|a, b, c| extract(u64::from(a), b & 0xff, c & 0xff, 32, false) as u32)
    }
}

/// `bfe.u64`, `bfe.s64`. Devices do not cut position and length to 8 bits here, as the manual has it.
pub(crate) fn extract64(signed: bool) -> Field64 {
    if signed {
        lanes!(|a, b, c| extract(a, b.min(0xff), c.min(0xff), 64, true))
    } else {
        lanes!(|a, b, c| extract(a, b.min(0xff), c.min(0xff), 64, false))
    }
}

/// `bfi.b32 d, a, b, position, length`: the low bits of `a` into `b`.
pub(crate) fn insert32() -> Quad32 {
    |a, b, c, e, out| {
        for lane in 0..crate::lanes::LANES {
            let field = field_mask(c[lane] & 0xff, e[lane] & 0xff) as u32;
            let shifted = u64::from(a[lane]).checked_shl(c[lane] & 0xff).unwrap_or(0) as u32;
            out[lane] = b[lane] & !field | shifted & field;
        }
    }
}

/// `bfi.b64`, with whole position and length, as for `bfe`.
pub(crate) fn insert64() -> Insert64 {
    |a, b, c, e, out| {
        for lane in 0..crate::lanes::LANES {
            let field = field_mask(c[lane], e[lane]);
            let shifted = a[lane].checked_shl(c[lane]).unwrap_or(0);
            out[lane] = b[lane] & !field | shifted & field;
        }
    }
}

/// `lop3.b32 d, a, b, c, table`
pub(crate) fn lop3() -> Quad32 {
    |a, b, c, table, out| {
        for lane in 0..crate::lanes::LANES {
            let (a, b, c, table) = (a[lane], b[lane], c[lane], table[lane]);
            let mut result = 0;
            for row in 0..8 {
                let pick = |bit: u32, value: u32| if row >> bit & 1 != 0 { value } else { !value };
                let here = pick(2, a) & pick(1, b) & pick(0, c);
                result |= here & 0u32.wrapping_sub(table >> row & 1);
            }
            out[lane] = result;
        }
    }
}

/// `prmt` by its mode; the empty one is the default.
pub(crate) fn permute(mode: &str) -> Option<Tern32> {
    Some(match mode {
        "" => lanes!(|a, b, c| {
            let bytes = joined(a, b);
            (0..4).fold(0, |out, index| {
                let pick = c >> (index * 4) & 0xf;
                let byte = (bytes >> ((pick & 7) * 8)) as u8;
                let byte = if pick & 8 == 0 { byte } else { (byte.cast_signed() >> 7).cast_unsigned() };
                out | u32::from(byte) << (index * 8)
            })
        }),
        "f4e" => lanes!(|a, b, c| gathered(a, b, [0, 1, 2, 3].map(|at| (at + (c & 3)) & 7))),
        "b4e" => lanes!(|a, b, c| gathered(a, b, [8, 7, 6, 5].map(|at| (at + (c & 3)) & 7))),
        "rc8" => lanes!(|a, b, c| gathered(a, b, [c & 3; 4])),
        "ecl" => lanes!(|a, b, c| gathered(a, b, [0, 1, 2, 3].map(|at: u32| at.max(c & 3)))),
        "ecr" => lanes!(|a, b, c| gathered(a, b, [0, 1, 2, 3].map(|at: u32| at.min(c & 3)))),
        "rc16" => lanes!(|a, b, c| gathered(a, b, [0, 1, 0, 1].map(|at| at + (c & 1) * 2))),
        _ => return None,
    })
}

/// `szext` by mode and type, `bmsk` by mode.
pub(crate) fn stretch(name: &str, clamp: bool, signed: bool) -> Option<Bin32> {
    Some(match (name, clamp, signed) {
        ("szext", true, true) => lanes!(|a, b| extend(a, b.min(32), true)),
        ("szext", true, false) => lanes!(|a, b| extend(a, b.min(32), false)),
        ("szext", false, true) => lanes!(|a, b| extend(a, b & 31, true)),
        ("szext", false, false) => lanes!(|a, b| extend(a, b & 31, false)),
        ("bmsk", true, _) => lanes!(|a, b| field_mask(a.min(32), b.min(32)) as u32),
        ("bmsk", false, _) => lanes!(|a, b| field_mask(a & 31, b & 31) as u32),
        _ => return None,
    })
}

/// `fns`: the place of the `n`-th set bit from `base` on, upwards or, for a negative `n`, downwards; all ones if there is
/// none. With 0, `base` itself if that bit is set.
pub(crate) fn find_nth() -> Tern32 {
    lanes!(|mask, base, n| nth_set(mask, base, n.cast_signed()))
}

fn nth_set(mask: u32, base: u32, n: i32) -> u32 {
    if base > 31 {
        return u32::MAX;
    }
    let set = |place: &u32| mask >> place & 1 != 0;
    let found = match n {
        0 => Some(base).filter(set),
        1.. => (base..32).filter(set).nth(n as usize - 1),
        _ => (0..=base).rev().filter(set).nth(n.unsigned_abs() as usize - 1),
    };
    found.unwrap_or(u32::MAX)
}

#[inline(always)]
fn joined(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

#[inline(always)]
fn gathered(a: u32, b: u32, picks: [u32; 4]) -> u32 {
    let bytes = joined(a, b);
    picks.into_iter().rev().fold(0, |out, pick| out << 8 | (bytes >> ((pick & 7) * 8)) as u32 & 0xff)
}

/// Position of the highest set bit, or all ones.
#[inline(always)]
fn find(value: u64) -> u32 {
    if value == 0 { u32::MAX } else { 63 - value.leading_zeros() }
}

/// How far the highest set bit is from the top, or all ones.
#[inline(always)]
fn distance(value: u64, top: u32) -> u32 {
    if value == 0 { u32::MAX } else { top - find(value) }
}

/// `length` ones from `position` on.
#[inline(always)]
fn field_mask(position: u32, length: u32) -> u64 {
    let ones = if length >= 64 { u64::MAX } else { (1 << length) - 1 };
    ones.checked_shl(position).unwrap_or(0)
}

/// A field of `value` (sign-extended to 64 bits if signed), whose bits beyond the top repeat the sign.
#[inline(always)]
fn extract(value: u64, position: u32, length: u32, width: u32, signed: bool) -> u64 {
    if length == 0 {
        return 0;
    }
    let top = position + length - 1;
    let sign_at = top.min(width - 1);
    let negative = signed && value >> sign_at & 1 != 0;
    let field = if position < width { value >> position } else { 0 };
    let taken = (sign_at + 1).saturating_sub(position);
    let keep = if taken >= 64 { u64::MAX } else { (1u64 << taken) - 1 };
    if negative { field & keep | !keep } else { field & keep }
}

/// The low `length` bits, extended.
#[inline(always)]
fn extend(value: u32, length: u32, signed: bool) -> u32 {
    if length == 0 {
        return 0;
    }
    let shift = 32 - length.min(32);
    if signed { (s32(value << shift) >> shift).cast_unsigned() } else { value << shift >> shift }
}
