//! The words of an opcode, taken one by one, so that none is overlooked.

use crate::ptx::{Instruction, Operand, OperandKind, ScalarType};

/// Why an instruction is not decoded: the table does not know its form, or this use of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Unknown;

/// What decoding one part gives.
pub(crate) type Decoded<T> = Result<T, Unknown>;

/// The modifiers of an opcode that are still to be understood.
#[derive(Clone, Debug)]
pub(crate) struct Words<'a> {
    pub(crate) opcode: &'a str,
    left: Vec<&'a str>,
}

impl<'a> Words<'a> {
    pub(crate) fn new(instruction: &'a Instruction) -> Self {
        Self { opcode: instruction.opcode(), left: instruction.mnemonic.modifiers().collect() }
    }

    /// Takes the word if it is there.
    pub(crate) fn take(&mut self, word: &str) -> bool {
        match self.left.iter().position(|left| *left == word) {
            Some(at) => {
                self.left.remove(at);
                true
            }
            None => false,
        }
    }

    /// Takes the first of the words that is there.
    pub(crate) fn take_any(&mut self, words: &[&'static str]) -> Option<&'static str> {
        words.iter().copied().find(|word| self.take(word))
    }

    /// Takes the last word.
    pub(crate) fn last(&mut self) -> Decoded<&'a str> {
        self.left.pop().ok_or(Unknown)
    }

    /// Takes the last word, a type that registers may have.
    pub(crate) fn ty(&mut self) -> Decoded<ScalarType> {
        ScalarType::from_name(self.last()?).ok_or(Unknown)
    }

    /// Takes the first word.
    pub(crate) fn first(&mut self) -> Decoded<&'a str> {
        if self.left.is_empty() { Err(Unknown) } else { Ok(self.left.remove(0)) }
    }

    /// Takes every word that `f` holds for.
    pub(crate) fn skip(&mut self, f: impl Fn(&str) -> bool) {
        self.left.retain(|word| !f(word));
    }

    /// Nothing may be left.
    pub(crate) fn end(&self) -> Decoded<()> {
        if self.left.is_empty() { Ok(()) } else { Err(Unknown) }
    }
}

/// Whether the type is one of floating point.
pub(crate) fn is_float(ty: ScalarType) -> bool {
    use ScalarType::{Bf16, Bf16x2, F16, F16x2, F32, F32x2, F64};
    matches!(ty, F16 | F16x2 | Bf16 | Bf16x2 | F32 | F32x2 | F64)
}

/// Whether the type is a signed integer.
pub(crate) fn is_signed(ty: ScalarType) -> bool {
    use ScalarType::{S8, S16, S32, S64};
    matches!(ty, S8 | S16 | S32 | S64)
}

/// The name that an operand is, without an offset.
pub(crate) fn symbol(operand: &Operand) -> Decoded<&str> {
    match &operand.kind {
        OperandKind::Symbol { name, offset: 0 } => Ok(name),
        _ => Err(Unknown),
    }
}
