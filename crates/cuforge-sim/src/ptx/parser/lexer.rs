//! Cuts text into tokens and keeps count of lines; comments and white space are stepped over.

use crate::ptx::{ParseError, Reason, Span};

/// The kinds of token.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Token {
    /// An identifier, `_` and `%name` included.
    Word,
    /// A dot and what belongs to it: `.f32`, `.L2::128B`, `.2d`.
    Dotted,
    /// Anything that starts with a digit.
    Number,
    /// A string with its quotes.
    Text,
    /// One byte of punctuation.
    Mark(u8),
    /// The end of the text.
    End,
}

/// A token and its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lexeme {
    pub(super) token: Token,
    pub(super) span: Span,
}

/// A position in the text that moves on token by token.
pub(super) struct Lexer<'a> {
    bytes: &'a [u8],
    text: &'a str,
    at: usize,
    line: u32,
    line_start: usize,
}

const WORD: u8 = 1;
const DIGIT: u8 = 2;
const START: u8 = 4;
const MARK: u8 = 8;
const BLANK: u8 = 16;

/// What each byte may be part of.
const CLASS: [u8; 256] = {
    let mut class = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        class[byte] = match byte as u8 {
            b'0'..=b'9' => WORD | DIGIT,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' => WORD | START,
            b'%' => START | MARK,
            b' ' | b'\t' | b'\r' | b'\x0b' | b'\x0c' => BLANK,
            b',' | b';' | b':' | b'{' | b'}' | b'(' | b')' | b'[' | b']' | b'<' | b'>' | b'=' => MARK,
            b'+' | b'-' | b'*' | b'/' | b'!' | b'~' | b'&' | b'|' | b'^' | b'?' | b'@' => MARK,
            _ => 0,
        };
        byte += 1;
    }
    class
};

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { bytes: text.as_bytes(), text, at: 0, line: 1, line_start: 0 }
    }

    pub(super) fn slice(&self, span: Span) -> &'a str {
        self.text.get(span.range()).unwrap_or_default()
    }

    /// The byte at an offset; 0 beyond the end.
    pub(super) fn byte(&self, offset: usize) -> u8 {
        self.bytes.get(offset).copied().unwrap_or(0)
    }

    /// The span from a token to the end of its line, where the lexer then goes on.
    pub(super) fn rest_of_line(&mut self, from: Span) -> Span {
        let start = from.start as usize;
        let rest = self.bytes.get(start..).unwrap_or_default();
        let end = start + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        self.at = end;
        self.line = from.line;
        self.line_start = start + 1 - from.column as usize;
        Span { end: end as u32, ..from }
    }

    pub(super) fn next(&mut self) -> Result<Lexeme, ParseError> {
        self.skip_blanks()?;
        let start = self.at;
        let first = self.byte(start);
        let class = CLASS[usize::from(first)];
        let token = if class & DIGIT != 0 {
            self.number();
            Token::Number
        } else if class & START != 0 {
            self.at += 1;
            self.word();
            if first == b'%' && self.at == start + 1 { Token::Mark(b'%') } else { Token::Word }
        } else if class & MARK != 0 {
            self.at += 1;
            Token::Mark(first)
        } else if first == b'.' {
            self.dotted()
        } else if first == b'"' {
            self.string()?;
            Token::Text
        } else if start >= self.bytes.len() {
            Token::End
        } else {
            return Err(self.stray());
        };
        Ok(Lexeme { token, span: self.span_from(start) })
    }

    fn span_from(&self, start: usize) -> Span {
        let column = (start - self.line_start + 1) as u32;
        Span { start: start as u32, end: self.at as u32, line: self.line, column }
    }

    fn word(&mut self) {
        while CLASS[usize::from(self.byte(self.at))] & WORD != 0 {
            self.at += 1;
        }
    }

    fn number(&mut self) {
        let start = self.at;
        while CLASS[usize::from(self.byte(self.at))] & DIGIT != 0 {
            self.at += 1;
        }
        let whole = self.at;
        if self.byte(self.at) == b'.' && CLASS[usize::from(self.byte(self.at + 1))] & START == 0 {
            self.at += 1;
        }
        // `0x1e+4` is a sum, `1e+4` a float: only plain digits may have an exponent with a sign.
        let decimal = whole > start;
        let mark = self.at;
        self.word();
        let tail = self.bytes.get(mark..self.at).unwrap_or_default();
        let digits = tail.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let exponent = tail.len() == digits + 1 && matches!(tail.last(), Some(b'e' | b'E'));
        if decimal && exponent && matches!(self.byte(self.at), b'+' | b'-') {
            self.at += 1;
            self.word();
        }
    }

    fn dotted(&mut self) -> Token {
        self.at += 1;
        let start = self.at;
        self.word();
        if self.at == start {
            return Token::Mark(b'.');
        }
        while self.byte(self.at) == b':'
            && self.byte(self.at + 1) == b':'
            && CLASS[usize::from(self.byte(self.at + 2))] & WORD != 0
        {
            self.at += 2;
            self.word();
        }
        Token::Dotted
    }

    fn string(&mut self) -> Result<(), ParseError> {
        let start = self.at;
        self.at += 1;
        loop {
            match self.byte(self.at) {
                b'"' => {
                    self.at += 1;
                    return Ok(());
                }
                b'\\' if !matches!(self.byte(self.at + 1), b'\n' | 0) => self.at += 2,
                b'\n' => break,
                0 if self.at >= self.bytes.len() => break,
                _ => self.at += 1,
            }
        }
        Err(ParseError::new(self.span_from(start), Reason::OpenString))
    }

    fn skip_blanks(&mut self) -> Result<(), ParseError> {
        loop {
            let byte = self.byte(self.at);
            if CLASS[usize::from(byte)] & BLANK != 0 {
                self.at += 1;
            } else if byte == b'\n' {
                self.at += 1;
                self.line += 1;
                self.line_start = self.at;
            } else if byte == b'/' && self.byte(self.at + 1) == b'/' {
                let rest = self.bytes.get(self.at..).unwrap_or_default();
                self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            } else if byte == b'/' && self.byte(self.at + 1) == b'*' {
                self.block_comment()?;
            } else if byte == b'#' && self.at_line_marker() {
                let rest = self.bytes.get(self.at..).unwrap_or_default();
                self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            } else {
                return Ok(());
            }
        }
    }

    /// Whether a preprocessor's `# 12 "file"` begins here: ptxas steps over those, and over no other `#` line.
    fn at_line_marker(&self) -> bool {
        let blank = |byte: &u8| CLASS[usize::from(*byte)] & BLANK != 0;
        let before = self.bytes.get(self.line_start..self.at).unwrap_or_default();
        let mut behind =
            self.bytes.get(self.at + 1..).unwrap_or_default().iter().skip_while(|byte| blank(byte));
        before.iter().all(blank) && behind.next().is_some_and(u8::is_ascii_digit)
    }

    fn block_comment(&mut self) -> Result<(), ParseError> {
        let open = Span { end: self.at as u32 + 2, ..self.span_from(self.at) };
        self.at += 2;
        while self.at < self.bytes.len() {
            match self.byte(self.at) {
                b'*' if self.byte(self.at + 1) == b'/' => {
                    self.at += 2;
                    return Ok(());
                }
                b'\n' => {
                    self.line += 1;
                    self.line_start = self.at + 1;
                }
                _ => {}
            }
            self.at += 1;
        }
        Err(ParseError::new(open, Reason::OpenComment))
    }

    fn stray(&mut self) -> ParseError {
        let start = self.at;
        let found = self.text.get(start..).and_then(|rest| rest.chars().next()).unwrap_or('\u{fffd}');
        self.at += found.len_utf8();
        let reason = if found == '#' { Reason::Preprocessor } else { Reason::StrayCharacter(found) };
        ParseError::new(self.span_from(start), reason)
    }
}
