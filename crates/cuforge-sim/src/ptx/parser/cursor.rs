//! The parser's view of the text: one token of lookahead, interned names, and errors that say what was expected.

use std::collections::HashMap;

use super::lexer::{Lexeme, Lexer, Token};
use crate::ptx::{Name, ParseError, Reason, SourcePlace, Span};

/// The parser's state. The grammar is written as methods on it, one file a level.
pub(super) struct Cursor<'a> {
    lexer: Lexer<'a>,
    /// The token to be read next.
    pub(super) current: Lexeme,
    /// Place of the token read last.
    pub(super) last: Span,
    names: HashMap<&'a str, Name>,
    /// The `.loc` in force.
    pub(super) location: Option<SourcePlace>,
    /// Registers declared by a name without `%`, with the number of scopes that do so.
    bare_registers: HashMap<&'a str, u32>,
    /// Prefixes of ranges declared without `%`, with the largest count so far for each declaration.
    bare_ranges: HashMap<&'a str, Vec<u32>>,
    /// What open scopes have added to the two maps, innermost last.
    bare_order: Vec<(&'a str, bool)>,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Result<Self, ParseError> {
        let mut lexer = Lexer::new(text);
        let current = lexer.next()?;
        Ok(Self {
            lexer,
            current,
            last: Span { start: 0, end: 0, line: 1, column: 1 },
            names: HashMap::new(),
            location: None,
            bare_registers: HashMap::new(),
            bare_ranges: HashMap::new(),
            bare_order: Vec::new(),
        })
    }

    /// Steps over the current token and gives its place.
    pub(super) fn advance(&mut self) -> Result<Span, ParseError> {
        self.last = self.current.span;
        self.current = self.lexer.next()?;
        Ok(self.last)
    }

    /// Steps over the rest of the current token's line.
    pub(super) fn skip_line(&mut self) -> Result<Span, ParseError> {
        self.last = self.lexer.rest_of_line(self.current.span);
        self.current = self.lexer.next()?;
        Ok(self.last)
    }

    pub(super) fn slice(&self, span: Span) -> &'a str {
        self.lexer.slice(span)
    }

    /// The current token's text.
    pub(super) fn text(&self) -> &'a str {
        self.lexer.slice(self.current.span)
    }

    /// The byte right behind the current token.
    pub(super) fn byte_behind(&self) -> u8 {
        self.lexer.byte(self.current.span.end as usize)
    }

    pub(super) fn name(&mut self, span: Span) -> Name {
        let text = self.lexer.slice(span);
        self.intern(text)
    }

    pub(super) fn intern(&mut self, text: &'a str) -> Name {
        self.names.entry(text).or_insert_with(|| Name::from(text)).clone()
    }

    pub(super) fn at(&self, mark: u8) -> bool {
        self.current.token == Token::Mark(mark)
    }

    /// Steps over that mark if it is next.
    pub(super) fn take(&mut self, mark: u8) -> Result<bool, ParseError> {
        let there = self.at(mark);
        if there {
            self.advance()?;
        }
        Ok(there)
    }

    pub(super) fn expect(&mut self, mark: u8, expected: &'static str) -> Result<Span, ParseError> {
        if self.at(mark) { self.advance() } else { Err(self.unexpected(expected)) }
    }

    pub(super) fn expect_word(&mut self, expected: &'static str) -> Result<Span, ParseError> {
        if self.current.token == Token::Word { self.advance() } else { Err(self.unexpected(expected)) }
    }

    /// The current token's text without its dot, if it is a dotted one.
    pub(super) fn dotted(&self) -> Option<&'a str> {
        match self.current.token {
            Token::Dotted => self.text().get(1..),
            _ => None,
        }
    }

    /// Steps over that directive if it is next.
    pub(super) fn take_dotted(&mut self, name: &str) -> Result<bool, ParseError> {
        let there = self.dotted() == Some(name);
        if there {
            self.advance()?;
        }
        Ok(there)
    }

    /// An error at the current token. What is missing at the end of a line is missed there.
    pub(super) fn unexpected(&self, expected: &'static str) -> ParseError {
        let next_line = self.current.span.line > self.last.line && self.last.end > 0;
        let ends_statement = matches!(expected, "`;`" | "`,` or `;`" | "`,` or `;` behind an operand");
        if next_line && ends_statement {
            return self.missing_behind(self.last, expected);
        }
        ParseError::new(self.current.span, Reason::Unexpected { expected, found: self.found() })
    }

    /// An error right behind a token, where something is missing.
    pub(super) fn missing_behind(&self, token: Span, expected: &'static str) -> ParseError {
        let column = token.column + (token.end - token.start);
        let place = Span { start: token.end, end: token.end, line: token.line, column };
        ParseError::new(place, Reason::Unexpected { expected, found: self.found() })
    }

    fn found(&self) -> String {
        match self.current.token {
            Token::End => "end of text".to_owned(),
            _ => format!("`{}`", shorten(self.text())),
        }
    }

    /// Notes a register that a `.reg` declares, so that later uses without `%` are known for what they are.
    pub(super) fn declare_register(&mut self, span: Span, range: Option<u32>) {
        let text = self.lexer.slice(span);
        if text.starts_with('%') {
            return;
        }
        match range {
            None => *self.bare_registers.entry(text).or_insert(0) += 1,
            Some(count) => {
                let counts = self.bare_ranges.entry(text).or_default();
                counts.push(counts.last().map_or(count, |largest| count.max(*largest)));
            }
        }
        self.bare_order.push((text, range.is_some()));
    }

    /// A mark to hand to [`Self::close_scope`].
    pub(super) fn open_scope(&self) -> usize {
        self.bare_order.len()
    }

    /// Forgets the registers declared since the mark was taken.
    pub(super) fn close_scope(&mut self, mark: usize) {
        for (text, is_range) in self.bare_order.drain(mark.min(self.bare_order.len())..).rev() {
            if is_range {
                if let Some(counts) = self.bare_ranges.get_mut(text) {
                    counts.pop();
                }
            } else if let Some(count) = self.bare_registers.get_mut(text) {
                *count -= 1;
            }
        }
    }

    /// Whether a word is a register: by its `%`, or by a declaration in scope.
    pub(super) fn is_register(&self, word: &str) -> bool {
        if word.starts_with('%') {
            return true;
        }
        if self.bare_order.is_empty() {
            return false;
        }
        if self.bare_registers.get(word).is_some_and(|count| *count > 0) {
            return true;
        }
        // A range's index has at most ten digits, so this stays a bounded search.
        let digits = word.bytes().rev().take(10).take_while(u8::is_ascii_digit).count();
        (1..=digits).any(|count| {
            let (prefix, index) = word.split_at(word.len() - count);
            let plain = index == "0" || !index.starts_with('0');
            let index: u64 = index.parse().unwrap_or(u64::MAX);
            let declared = self.bare_ranges.get(prefix);
            plain && declared.and_then(|counts| counts.last()).is_some_and(|count| index < u64::from(*count))
        })
    }
}

/// The head of a token, short enough for a message.
pub(super) fn shorten(text: &str) -> String {
    let mut head: String = text.chars().take(40).collect();
    if head.len() < text.len() {
        head.push_str("..");
    }
    head
}
