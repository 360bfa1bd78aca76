//! Numeric literals: the value's bits beside the way it was spelled.

use super::name::Name;

/// How a literal was written, which fixes what its bits mean.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Hash)]
pub enum NumberKind {
    /// An integer that fits `i64` and bears no `U` suffix.
    Signed,
    /// An integer with a `U` suffix, or one too large for `i64`.
    Unsigned,
    /// `0fXXXXXXXX`: the bits of a single, in the low half.
    F32,
    /// `0dXXXXXXXXXXXXXXXX` or a decimal fraction: the bits of a double.
    F64,
}

/// A numeric literal or folded constant expression: its value as bits, and its spelling.
///
/// ```
/// use cuforge_sim::ptx::{Module, NumberKind, OperandKind};
///
/// let text = ".version 8.0\n.target sm_80\n.entry k() { .reg .f32 %f<2>; mov.f32 %f1, 0fBF800000; }";
/// let module = Module::parse(text)?;
/// let kernel = module.function("k").ok_or("no kernel")?;
/// let mov = kernel.instructions().next().ok_or("no instruction")?;
/// let OperandKind::Immediate(number) = &mov.operands[1].kind else { return Err("no number".into()) };
/// assert_eq!((number.kind, number.as_f64()), (NumberKind::F32, -1.0));
/// assert_eq!(number.text, "0fBF800000");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Number {
    /// The value: two's complement for integers, IEEE 754 bits for floats.
    pub bits: u64,
    /// What the bits mean.
    pub kind: NumberKind,
    /// The text as written, sign included.
    pub text: Name,
}

impl Number {
    /// Whether the literal is a float.
    pub fn is_float(&self) -> bool {
        matches!(self.kind, NumberKind::F32 | NumberKind::F64)
    }

    /// The integer's bits; a float is truncated towards zero (saturating).
    pub fn as_i64(&self) -> i64 {
        match self.kind {
            NumberKind::Signed | NumberKind::Unsigned => self.bits.cast_signed(),
            NumberKind::F32 | NumberKind::F64 => self.as_f64() as i64,
        }
    }

    /// The value as a double; integers beyond 2^53 are rounded to nearest even.
    pub fn as_f64(&self) -> f64 {
        match self.kind {
            NumberKind::Signed => self.bits.cast_signed() as f64,
            NumberKind::Unsigned => self.bits as f64,
            NumberKind::F32 => f64::from(f32::from_bits(self.bits as u32)),
            NumberKind::F64 => f64::from_bits(self.bits),
        }
    }

    /// The value as a single: the exact bits of an `0f` literal, else rounded to nearest even.
    pub fn as_f32(&self) -> f32 {
        match self.kind {
            NumberKind::Signed => self.bits.cast_signed() as f32,
            NumberKind::Unsigned => self.bits as f32,
            NumberKind::F32 => f32::from_bits(self.bits as u32),
            NumberKind::F64 => f64::from_bits(self.bits) as f32,
        }
    }
}
