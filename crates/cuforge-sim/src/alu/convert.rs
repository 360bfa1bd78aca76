//! `cvt` over lanes: functions of their own for frequent conversions.

use super::conversion::{Conversion, Scalar};
use super::{lanes, s32};
use crate::float::round::{BF16, F16, F32, Rounding};
use crate::form::{Bin32, Shrink, Tern32, Un32, Widen};

/// Conversions that are frequent enough for a function of their own.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Quick {
    Narrow(Un32),
    Widen(Widen),
    Shrink(Shrink),
}

/// The function for a frequent conversion, if this is one.
pub(crate) fn quick(how: &Conversion) -> Option<Quick> {
    use Scalar::{Brain, Half, Int, Single};
    let nearest = how.rounding == Rounding::Nearest;
    if how.saturate || how.relu || how.integral || how.finite {
        return None;
    }
    let whole = |bits| Int { bits, signed: false };
    let signed = |bits| Int { bits, signed: true };
    let f = match (how.from, how.to) {
        (Single, to) if to == signed(32) && how.rounding == Rounding::Zero && !how.flush => {
            Quick::Narrow(lanes!(|a| (f32::from_bits(a) as i32).cast_unsigned()))
        }
        (from, Single) if from == signed(32) && nearest => {
            Quick::Narrow(lanes!(|a| (a.cast_signed() as f32).to_bits()))
        }
        (from, Single) if from == whole(32) && nearest => Quick::Narrow(lanes!(|a| (a as f32).to_bits())),
        (Half, Single) if !how.flush => Quick::Narrow(lanes!(|a| half_to_single(a))),
        (Brain, Single) => Quick::Narrow(lanes!(|a| a << 16)),
        (Single, Half) if nearest && !how.flush => {
            Quick::Narrow(lanes!(|a| F16.encode(f64::from(f32::from_bits(a)), Rounding::Nearest)))
        }
        (Single, Brain) if nearest && !how.flush => Quick::Narrow(lanes!(|a| single_to_brain(a))),
        (Int { bits: 32, signed: true }, Int { bits: 64, .. }) => {
            Quick::Widen(lanes!(|a| i64::from(a.cast_signed()).cast_unsigned()))
        }
        (Int { bits: 32, signed: false }, Int { bits: 64, .. }) => Quick::Widen(lanes!(|a| u64::from(a))),
        (Int { bits: 64, .. }, Int { bits: 32, .. }) => Quick::Shrink(lanes!(|a| a as u32)),
        (Int { bits: 16, signed: true }, Int { bits: 32, .. }) => {
            Quick::Narrow(lanes!(|a| super::s16(a).cast_unsigned()))
        }
        (Int { bits: 16, signed: false }, Int { bits: 32, .. }) => Quick::Narrow(lanes!(|a| super::u16(a))),
        _ => return None,
    };
    Some(f)
}

/// `cvt.rn.f16x2.f32 d, a, b` and the like: `a` goes to the upper half.
pub(crate) fn pack(to: Scalar, rounding: Rounding, relu: bool, finite: bool) -> Option<Bin32> {
    macro_rules! pick {
        ($($brain:literal $zero:literal $relu:literal $finite:literal;)*) => {
            match (to == Scalar::Brain, rounding == Rounding::Zero, relu, finite) {
                $(($brain, $zero, $relu, $finite) => {
                    lanes!(|a, b| packed::<$brain, $zero, $relu, $finite>(a, b))
                })*
            }
        };
    }
    let known =
        matches!(to, Scalar::Half | Scalar::Brain) && matches!(rounding, Rounding::Nearest | Rounding::Zero);
    if !known {
        return None;
    }
    Some(pick! {
        false false false false; false false false true; false false true false; false false true true;
        false true false false; false true false true; false true true false; false true true true;
        true false false false; true false false true; true false true false; true false true true;
        true true false false; true true false true; true true true false; true true true true;
    })
}

/// `cvt.pack.sat`: two integers, saturated to so many bits, `a` above `b`, above them the low bits of `c`.
pub(crate) fn pack_integers(bits: u32, signed: bool) -> Option<Tern32> {
    Some(match (bits, signed) {
        (8, false) => lanes!(|a, b, c| joined(a, b, c, 8, false)),
        (8, true) => lanes!(|a, b, c| joined(a, b, c, 8, true)),
        (16, false) => lanes!(|a, b, c| joined(a, b, c, 16, false)),
        (16, true) => lanes!(|a, b, c| joined(a, b, c, 16, true)),
        _ => return None,
    })
}

#[inline(always)]
fn joined(a: u32, b: u32, c: u32, bits: u32, signed: bool) -> u32 {
    let (low, high) = if signed { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) };
    let cut = |value: u32| s32(value).clamp(low, high).cast_unsigned() & ((1 << bits) - 1);
    cut(a) << bits | cut(b) | (u64::from(c) << (2 * bits)) as u32
}

#[inline(always)]
fn packed<const BRAIN: bool, const ZERO: bool, const RELU: bool, const FINITE: bool>(a: u32, b: u32) -> u32 {
    let how = Conversion {
        from: Scalar::Single,
        to: if BRAIN { Scalar::Brain } else { Scalar::Half },
        rounding: if ZERO { Rounding::Zero } else { Rounding::Nearest },
        integral: false,
        saturate: false,
        flush: false,
        relu: RELU,
        finite: FINITE,
    };
    (how.apply(u64::from(a)) << 16 | how.apply(u64::from(b))) as u32
}

#[inline(always)]
fn half_to_single(bits: u32) -> u32 {
    // A power of two larger than any exponent moves the fields into place; subnormals come out normal.
    let shifted = (bits & 0x7fff) << 13;
    if shifted >= 0x0f80_0000 {
        return if shifted > 0x0f80_0000 { F32.nan() } else { (bits & 0x8000) << 16 | 0x7f80_0000 };
    }
    let magnitude = f32::from_bits(shifted) * f32::from_bits(0x7780_0000);
    magnitude.to_bits() | (bits & 0x8000) << 16
}

#[inline(always)]
fn single_to_brain(bits: u32) -> u32 {
    if bits & 0x7fff_ffff > 0x7f80_0000 {
        return BF16.nan();
    }
    (bits + 0x7fff + (bits >> 16 & 1)) >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(from: &str, to: &str) -> Conversion {
        Conversion {
            from: Scalar::from_name(from).unwrap(),
            to: Scalar::from_name(to).unwrap(),
            rounding: Rounding::Nearest,
            integral: false,
            saturate: false,
            flush: false,
            relu: false,
            finite: false,
        }
    }

    #[test]
    fn frequent_conversions_agree_with_the_general_one() {
        let names = ["s16", "u16", "s32", "u32", "s64", "u64", "f16", "bf16", "f32"];
        let mut tried = 0;
        for from in names {
            for to in names {
                let mut how = plain(from, to);
                if how.from.is_float() && !how.to.is_float() {
                    how.rounding = Rounding::Zero;
                }
                let Some(quick) = quick(&how) else { continue };
                tried += 1;
                let mut seed = 1u64;
                for step in 0..20_000u64 {
                    seed =
                        seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let bits = if step < 2048 { step << 5 | step & 1 } else { seed >> 16 };
                    let mut narrow = [0; 32];
                    let mut wide = [0; 32];
                    let got = match quick {
                        Quick::Narrow(f) => {
                            f(&[bits as u32; 32], &mut narrow);
                            u64::from(narrow[0])
                        }
                        Quick::Widen(f) => {
                            f(&[bits as u32; 32], &mut wide);
                            wide[0]
                        }
                        Quick::Shrink(f) => {
                            f(&[bits; 32], &mut narrow);
                            u64::from(narrow[0])
                        }
                    };
                    let mask = if how.to.bits() == 64 { u64::MAX } else { u64::from(u32::MAX) };
                    assert_eq!(got, how.apply(bits) & mask, "{from} to {to} of {bits:#x}");
                }
            }
        }
        assert!(tried >= 14, "{tried}");
    }

    #[test]
    fn wide_integers_round_once_to_single() {
        // 2^40 + 2^16 + 1 lies just above the middle between two singles.
        let value = (1u64 << 40) + (1 << 16) + 1;
        assert_eq!(f32::from_bits(plain("u64", "f32").apply(value) as u32), 1_099_511_758_848.0);
        assert_eq!(f32::from_bits(plain("u64", "f32").apply(value - 1) as u32), 1_099_511_627_776.0);
    }

    #[test]
    fn floats_clamp_to_integers() {
        let mut how = plain("f32", "s32");
        how.rounding = Rounding::Zero;
        assert_eq!(how.apply(u64::from(3e9f32.to_bits())) as u32, i32::MAX as u32);
        assert_eq!(how.apply(u64::from(f32::NEG_INFINITY.to_bits())) as u32, i32::MIN as u32);
        assert_eq!(how.apply(u64::from(f32::NAN.to_bits())), 0);
        let mut how = plain("f64", "u64");
        how.rounding = Rounding::Zero;
        assert_eq!(how.apply(2e19f64.to_bits()), u64::MAX);
        assert_eq!(how.apply((-1f64).to_bits()), 0);
        assert_eq!(how.apply(f64::NAN.to_bits()), 1 << 63);
    }
}
