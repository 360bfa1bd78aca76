//! Text to tree, in one pass with one token of lookahead.
//!
//! Cost is linear in the text: every byte is looked at a bounded number of times, nesting is limited, and nothing
//! recurses deeper than those limits.

mod constant;
mod cursor;
mod declaration;
mod lexer;
mod literal;
mod module_level;
mod operands;
mod statement;

use std::sync::Arc;

use super::{Module, ParseError, Reason, Span};
use cursor::Cursor;

impl Module {
    /// Reads a module.
    ///
    /// Any opcode, any modifier and any operand list of PTX's grammar is taken; whether an instruction exists, and
    /// whether names are declared, is not judged here.
    ///
    /// # Errors
    ///
    /// The first place where the text is no PTX, with the reason and, where there is one, what was expected.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        if u32::try_from(text.len()).is_err() {
            let start = Span { start: 0, end: 0, line: 1, column: 1 };
            return Err(ParseError::new(start, Reason::TooLong(text.len() as u64)));
        }
        let (header, items) = Cursor::new(text)?.module()?;
        Ok(Self { source: Arc::from(text), header, items })
    }
}
