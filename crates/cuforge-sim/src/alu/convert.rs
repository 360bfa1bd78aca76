//! `cvt` between all scalar types.

use super::lanes;
use crate::float::narrow::is_nan;
use crate::float::round::{BF16, F16, F32, Format, Rounding};
use crate::float::single::{NAN_BITS, canonical, flush, flush_result, saturate};
use crate::form::{Bin32, Shrink, Un32, Widen};

/// A type that values are converted from or to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Scalar {
    Int { bits: u32, signed: bool },
    Half,
    Brain,
    Tensor,
    Single,
    Double,
}

impl Scalar {
    /// By the name in an instruction.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "f16" => Self::Half,
            "bf16" => Self::Brain,
            "tf32" => Self::Tensor,
            "f32" => Self::Single,
            "f64" => Self::Double,
            _ => {
                let signed = name.starts_with('s');
                let bits = name.strip_prefix(['s', 'u'])?.parse().ok()?;
                matches!(bits, 8 | 16 | 32 | 64).then_some(Self::Int { bits, signed })?
            }
        })
    }

    pub(crate) fn is_float(self) -> bool {
        !matches!(self, Self::Int { .. })
    }

    /// Bits of a value.
    pub(crate) fn bits(self) -> u32 {
        match self {
            Self::Int { bits, .. } => bits,
            Self::Half | Self::Brain => 16,
            Self::Single | Self::Tensor => 32,
            Self::Double => 64,
        }
    }

    fn format(self) -> Format {
        match self {
            Self::Half => F16,
            Self::Brain => BF16,
            _ => F32,
        }
    }
}

/// One conversion.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Conversion {
    pub(crate) from: Scalar,
    pub(crate) to: Scalar,
    pub(crate) rounding: Rounding,
    /// `.rni` and the like on a float result: rounds to an integral value.
    pub(crate) integral: bool,
    pub(crate) saturate: bool,
    pub(crate) flush: bool,
    pub(crate) relu: bool,
}

impl Conversion {
    /// The converted bits; a narrow signed result is sign-extended to 64 bits.
    pub(crate) fn apply(&self, bits: u64) -> u64 {
        match (self.from, self.to) {
            (Scalar::Int { bits: width, signed }, Scalar::Int { bits: to, signed: to_signed }) => {
                let value = integer(bits, width, signed);
                self.fit(value, to, to_signed, self.saturate)
            }
            (Scalar::Int { bits: width, signed }, to) => {
                self.integer_to_float(integer(bits, width, signed), to)
            }
            (from, Scalar::Int { bits: to, signed }) => self.float_to_integer(from, bits, to, signed),
            (from, to) => self.float_to_float(from, bits, to),
        }
    }

    fn fit(&self, value: i128, bits: u32, signed: bool, saturate: bool) -> u64 {
        let value = if saturate {
            let (low, high) = range(bits, signed);
            value.clamp(low, high)
        } else {
            value
        };
        let shift = 64 - bits;
        let cut = (value as u64) << shift;
        if signed { (cut.cast_signed() >> shift).cast_unsigned() } else { cut >> shift }
    }

    fn integer_to_float(&self, value: i128, to: Scalar) -> u64 {
        let result = if to == Scalar::Double {
            integer_to_double(value, self.rounding)
        } else {
            return self.encode(integer_to_double_odd(value), to);
        };
        let result = if self.saturate { result.clamp(0.0, 1.0) } else { result };
        result.to_bits()
    }

    fn float_to_integer(&self, from: Scalar, bits: u64, to: u32, signed: bool) -> u64 {
        let value = self.decode(from, bits);
        if value.is_nan() {
            // As the manual has it: zero, but the top bit where 64-bit types are involved.
            let wide = from == Scalar::Double || to == 64;
            return if wide { self.fit(1i128 << (to - 1), to, signed, false) } else { 0 };
        }
        let (low, high) = range(to, signed);
        let whole = integral(value, self.rounding);
        let value = if whole >= 2f64.powi(64) {
            high
        } else if whole <= -(2f64.powi(64)) {
            low
        } else {
            (whole as i128).clamp(low, high)
        };
        self.fit(value, to, signed, false)
    }

    fn float_to_float(&self, from: Scalar, bits: u64, to: Scalar) -> u64 {
        let value = self.decode(from, bits);
        if value.is_nan() {
            return self.nan(from, bits, to);
        }
        let value = if self.integral { integral(value, self.rounding) } else { value };
        if to == Scalar::Tensor {
            // Half of the last place that stays is added to the bits, whatever they mean.
            return u64::from((bits as u32).wrapping_add(0x1000) & !0x1fff);
        }
        if to != Scalar::Double {
            return self.encode(value, to);
        }
        let value = if self.saturate { value.clamp(0.0, 1.0) + 0.0 } else { value };
        value.to_bits()
    }

    /// What becomes of a NaN, as an H200 has it: between the large formats the payload goes along, cut or widened.
    fn nan(&self, from: Scalar, bits: u64, to: Scalar) -> u64 {
        if self.saturate {
            return 0;
        }
        let negative = match from {
            Scalar::Double => bits >> 63,
            Scalar::Single => bits >> 31 & 1,
            _ => bits >> 15 & 1,
        };
        let payload = match from {
            Scalar::Double => bits & ((1 << 52) - 1),
            Scalar::Single => (bits & 0x7f_ffff) << 29,
            Scalar::Brain => (bits & 0x7f) << 45,
            _ => (bits & 0x3ff) << 42,
        };
        match (from, to) {
            (Scalar::Single, Scalar::Tensor) => (bits + 0x1000) & 0xffff_e000,
            (Scalar::Brain, Scalar::Single) => (bits & 0xffff) << 16,
            (Scalar::Single, Scalar::Double) if self.flush => 0x7fff_ffff_e000_0000,
            (_, Scalar::Double) => negative << 63 | 0x7ff8_0000_0000_0000 | payload,
            (Scalar::Double, Scalar::Single) => negative << 31 | 0x7fc0_0000 | payload >> 29,
            (Scalar::Double, Scalar::Half) => negative << 15 | 0x7e00 | payload >> 42,
            (_, Scalar::Single) => u64::from(NAN_BITS),
            (_, to) => u64::from(to.format().nan()),
        }
    }

    fn decode(&self, from: Scalar, bits: u64) -> f64 {
        match from {
            Scalar::Double => f64::from_bits(bits),
            Scalar::Single => {
                let value = f32::from_bits(bits as u32);
                f64::from(if self.flush { flush(value) } else { value })
            }
            from => from.format().decode(bits as u32),
        }
    }

    fn encode(&self, value: f64, to: Scalar) -> u64 {
        let format = to.format();
        let mut bits = if to == Scalar::Single && self.rounding == Rounding::Nearest {
            canonical(value as f32)
        } else {
            format.encode(value, self.rounding)
        };
        if to == Scalar::Single {
            let rounded = f32::from_bits(bits);
            let rounded = if self.flush { flush_result(rounded, || value, self.rounding) } else { rounded };
            bits = canonical(if self.saturate { saturate(rounded) } else { rounded });
        } else if self.saturate {
            bits = crate::float::narrow::saturate(format, bits);
        }
        if self.relu && bits & format.sign() != 0 && !is_nan(format, bits) {
            bits = 0;
        }
        u64::from(bits)
    }
}

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
    if how.saturate || how.relu || how.integral {
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
pub(crate) fn pack(to: Scalar, rounding: Rounding, relu: bool) -> Option<Bin32> {
    Some(match (to, rounding, relu) {
        (Scalar::Half, Rounding::Nearest, false) => lanes!(|a, b| packed::<false, false, false>(a, b)),
        (Scalar::Half, Rounding::Nearest, true) => lanes!(|a, b| packed::<false, false, true>(a, b)),
        (Scalar::Half, Rounding::Zero, false) => lanes!(|a, b| packed::<false, true, false>(a, b)),
        (Scalar::Half, Rounding::Zero, true) => lanes!(|a, b| packed::<false, true, true>(a, b)),
        (Scalar::Brain, Rounding::Nearest, false) => lanes!(|a, b| packed::<true, false, false>(a, b)),
        (Scalar::Brain, Rounding::Nearest, true) => lanes!(|a, b| packed::<true, false, true>(a, b)),
        (Scalar::Brain, Rounding::Zero, false) => lanes!(|a, b| packed::<true, true, false>(a, b)),
        (Scalar::Brain, Rounding::Zero, true) => lanes!(|a, b| packed::<true, true, true>(a, b)),
        _ => return None,
    })
}

#[inline(always)]
fn packed<const BRAIN: bool, const ZERO: bool, const RELU: bool>(a: u32, b: u32) -> u32 {
    let how = Conversion {
        from: Scalar::Single,
        to: if BRAIN { Scalar::Brain } else { Scalar::Half },
        rounding: if ZERO { Rounding::Zero } else { Rounding::Nearest },
        integral: false,
        saturate: false,
        flush: false,
        relu: RELU,
    };
    (how.apply(u64::from(a)) << 16 | how.apply(u64::from(b))) as u32
}

/// The value of a register's low bits.
fn integer(bits: u64, width: u32, signed: bool) -> i128 {
    let shift = 64 - width;
    let cut = bits << shift;
    if signed { i128::from(cut.cast_signed() >> shift) } else { i128::from(cut >> shift) }
}

/// Lowest and highest value of an integer type.
fn range(bits: u32, signed: bool) -> (i128, i128) {
    if signed { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

fn integral(value: f64, rounding: Rounding) -> f64 {
    match rounding {
        Rounding::Nearest => value.round_ties_even(),
        Rounding::Away => value.round(),
        Rounding::Zero => value.trunc(),
        Rounding::Down => value.floor(),
        Rounding::Up => value.ceil(),
    }
}

/// The integer as a double whose last bit is set if something was dropped.
fn integer_to_double_odd(value: i128) -> f64 {
    let toward_zero = integer_to_double(value, Rounding::Zero);
    if toward_zero as i128 == value { toward_zero } else { f64::from_bits(toward_zero.to_bits() | 1) }
}

fn integer_to_double(value: i128, rounding: Rounding) -> f64 {
    let magnitude = value.unsigned_abs();
    let drop = (128 - magnitude.leading_zeros()).saturating_sub(53);
    let kept = magnitude >> drop;
    let rest = magnitude & ((1 << drop) - 1);
    let half = if drop == 0 { std::cmp::Ordering::Less } else { rest.cmp(&(1 << (drop - 1))) };
    let up = rounding.rounds_up(value < 0, kept & 1 != 0, half, rest != 0);
    // At most 2^53, so the conversion is exact, and so is the scaling.
    let rounded = (kept + u128::from(up)) as f64 * 2f64.powi(drop.cast_signed());
    if value < 0 { -rounded } else { rounded }
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
