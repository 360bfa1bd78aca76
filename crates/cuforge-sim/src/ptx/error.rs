//! Why a text is no PTX module, and where.

use std::fmt;

use super::span::Span;

/// A text that is no PTX module: the place and the reason.
///
/// ```
/// use cuforge_sim::ptx::{Module, Reason};
///
/// let error = Module::parse(".version 8.0\n.target sm_80\n.entry k( { ret; }").unwrap_err();
/// assert_eq!((error.line(), error.column()), (3, 11));
/// assert!(matches!(error.reason(), Reason::Unexpected { .. }));
/// assert_eq!(error.to_string(), "line 3, column 11: expected a parameter's space, found `{`");
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ParseError {
    place: Span,
    reason: Reason,
}

impl ParseError {
    pub(crate) fn new(place: Span, reason: Reason) -> Self {
        Self { place, reason }
    }

    /// Line of the fault, from 1.
    pub fn line(&self) -> u32 {
        self.place.line
    }

    /// Column of the fault in bytes, from 1.
    pub fn column(&self) -> u32 {
        self.place.column
    }

    /// The stretch of text at fault; empty at the end of the text.
    pub fn span(&self) -> Span {
        self.place
    }

    /// What is wrong.
    pub fn reason(&self) -> &Reason {
        &self.reason
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.place.line, self.place.column, self.reason)
    }
}

impl std::error::Error for ParseError {}

/// What is wrong with a text.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// One thing was needed and another stood there.
    #[error("expected {expected}, found {found}")]
    Unexpected {
        /// What would have been right.
        expected: &'static str,
        /// What stood there, in backquotes, or `end of text`.
        found: String,
    },
    /// A character that begins nothing in PTX.
    #[error("{0:?} begins no token of ptx")]
    StrayCharacter(char),
    /// A `/*` without its `*/`.
    #[error("this block comment is never closed")]
    OpenComment,
    /// A `"` without its partner on the same line.
    #[error("this string is never closed")]
    OpenString,
    /// A `{` without its `}`.
    #[error("this `{{` is never closed")]
    OpenBrace,
    /// A literal that is no number.
    #[error("`{text}` is no number: {problem}")]
    BadNumber {
        /// The literal.
        text: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A type that nothing can be declared with.
    #[error("`.{0}` is no type that a register, variable or parameter can have")]
    UnknownType(String),
    /// A directive that does not belong there.
    #[error("`.{directive}` is no directive {place}")]
    UnknownDirective {
        /// Its name, without the dot.
        directive: String,
        /// Where it stands.
        place: &'static str,
    },
    /// A number outside what the directive allows.
    #[error("{what} cannot be {value}: {allowed}")]
    OutOfRange {
        /// The thing that is out of range.
        what: &'static str,
        /// The value found.
        value: i128,
        /// The values allowed.
        allowed: &'static str,
    },
    /// Scopes, initialisers or expressions nested too deeply.
    #[error("{what} are nested more than {limit} deep")]
    TooDeep {
        /// What is nested.
        what: &'static str,
        /// The deepest nesting accepted.
        limit: u32,
    },
    /// A constant expression with no value.
    #[error("this constant expression has no value: {0}")]
    NoValue(&'static str),
    /// A preprocessor line, which could change the meaning of all that follows.
    #[error("preprocessor lines are not understood: give the text after preprocessing")]
    Preprocessor,
    /// More text than offsets can count.
    #[error("the text has {0} bytes, and at most 4294967295 are understood")]
    TooLong(u64),
}
