//! Conversions between all scalar types, one value at a time.

use crate::float::narrow::{is_nan, saturate as saturate_narrow};
use crate::float::round::{BF16, F16, F32, Format, Rounding, TF32};
use crate::float::single::{NAN_BITS, canonical, flush, flush_result, saturate};

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
    /// `.satfinite`: what is too large becomes the largest number.
    pub(crate) finite: bool,
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
        if to == Scalar::Tensor && self.rounding == Rounding::Away && !self.finite {
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
            (Scalar::Single, Scalar::Tensor) if self.rounding == Rounding::Away => {
                let rounded = (bits + 0x1000) & 0xffff_e000;
                // With `.satfinite`, one place less, NaN or not.
                let steps_back = self.finite && rounded & 0x7fff_ffff >= 0x7f80_0000;
                if steps_back { rounded - 0x2000 } else { rounded }
            }
            (_, Scalar::Tensor) => 0x7fff_e000,
            (Scalar::Brain, Scalar::Single) => (bits & 0xffff) << 16,
            (Scalar::Single, Scalar::Double) if self.flush => 0x7fff_ffff_e000_0000,
            (_, Scalar::Double) => negative << 63 | 0x7ff8_0000_0000_0000 | payload,
            (Scalar::Double, Scalar::Single) => negative << 31 | 0x7fc0_0000 | payload >> 29,
            (Scalar::Double, Scalar::Half) => negative << 15 | 0x7e00 | payload >> 42,
            (Scalar::Double, Scalar::Brain) => negative << 15 | 0x7fc0 | payload >> 45,
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
        if to == Scalar::Tensor {
            return self.clamped(TF32, TF32.encode(value, self.rounding)) << 13;
        }
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
            bits = saturate_narrow(format, bits);
        }
        self.clamped(format, bits)
    }

    /// The bits after `.satfinite` and `.relu`.
    fn clamped(&self, format: Format, bits: u32) -> u64 {
        let infinite = bits & !format.sign() == format.infinity();
        let bits = if self.finite && infinite { bits - 1 } else { bits };
        u64::from(if self.relu && bits & format.sign() != 0 && !is_nan(format, bits) { 0 } else { bits })
    }
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
