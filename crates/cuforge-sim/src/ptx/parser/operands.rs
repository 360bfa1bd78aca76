//! Operands: registers, immediates, addresses, vectors, lists, pairs.

use super::cursor::Cursor;
use super::lexer::Token;
use crate::ptx::{Address, AddressBase, Operand, OperandKind, ParseError, Reason, Span};

/// How deep brackets may nest in one operand.
const DEPTH_LIMIT: u32 = 16;

impl Cursor<'_> {
    /// The operands up to the `;`, which is stepped over too. `lists` says that parentheses hold operands (calls).
    pub(super) fn operands(&mut self, lists: bool) -> Result<Vec<Operand>, ParseError> {
        let mut operands = Vec::new();
        if self.take(b';')? {
            return Ok(operands);
        }
        if matches!(self.current.token, Token::Mark(b'}' | b'@') | Token::End) {
            return Err(self.unexpected("`;`"));
        }
        let mnemonic = self.last;
        let next_line = self.current.span.line > mnemonic.line;
        operands.reserve_exact(4);
        loop {
            operands.push(self.operand(lists, 0)?);
            if self.take(b';')? {
                return Ok(operands);
            }
            if next_line && operands.len() == 1 && self.current.token == Token::Dotted {
                // `ret` without its `;`, and an instruction on the next line.
                return Err(self.missing_behind(mnemonic, "`;`"));
            }
            self.expect(b',', "`,` or `;` behind an operand")?;
        }
    }

    fn operand(&mut self, lists: bool, depth: u32) -> Result<Operand, ParseError> {
        if depth > DEPTH_LIMIT {
            let reason = Reason::TooDeep { what: "operands", limit: DEPTH_LIMIT };
            return Err(ParseError::new(self.current.span, reason));
        }
        let first = self.current.span;
        let kind = self.operand_kind(lists, depth)?;
        let operand = Operand { span: first.to(self.last), kind };
        if !self.at(b'|') {
            return Ok(operand);
        }
        self.advance()?;
        let second = self.operand(lists, depth + 1)?;
        let span = first.to(self.last);
        Ok(Operand { span, kind: OperandKind::Pair(Box::new(operand), Box::new(second)) })
    }

    fn operand_kind(&mut self, lists: bool, depth: u32) -> Result<OperandKind, ParseError> {
        match self.current.token {
            Token::Word => self.word_operand(),
            Token::Mark(b'[') => self.address(depth).map(OperandKind::Address),
            Token::Mark(b'{') => {
                self.sequence(b'}', "`,` or `}` of a vector", lists, depth).map(OperandKind::Vector)
            }
            Token::Mark(b'(') if lists => {
                self.sequence(b')', "`,` or `)` of a list", lists, depth).map(OperandKind::List)
            }
            Token::Mark(b'!') => {
                self.advance()?;
                let operand = self.operand(lists, depth + 1)?;
                // `!p|q` negates `p` alone.
                Ok(match operand.kind {
                    OperandKind::Pair(first, second) => {
                        let not = Operand { span: first.span, kind: OperandKind::Not(first) };
                        OperandKind::Pair(Box::new(not), second)
                    }
                    _ => OperandKind::Not(Box::new(operand)),
                })
            }
            _ if self.at_constant() => {
                self.constant("an operand").map(|(number, _)| OperandKind::Immediate(number))
            }
            _ => Err(self.unexpected("an operand")),
        }
    }

    fn word_operand(&mut self) -> Result<OperandKind, ParseError> {
        let word = self.text();
        let name = self.advance()?;
        if word == "_" {
            return Ok(OperandKind::Sink);
        }
        if self.is_register(word) {
            let name = self.intern(word);
            let component = match self.dotted() {
                Some(component) => {
                    self.advance()?;
                    Some(self.intern(component))
                }
                None => None,
            };
            return Ok(OperandKind::Register { name, component });
        }
        if word == "WARP_SZ" {
            return Ok(self.warp_size_expression()?.map_or(OperandKind::WarpSize, OperandKind::Immediate));
        }
        let name = self.name(name);
        let (offset, _) = self.displacement()?;
        Ok(OperandKind::Symbol { name, offset })
    }

    /// Operands between brackets, the opening one being next.
    fn sequence(
        &mut self,
        close: u8,
        expected: &'static str,
        lists: bool,
        depth: u32,
    ) -> Result<Vec<Operand>, ParseError> {
        self.advance()?;
        let mut operands = Vec::new();
        if self.take(close)? {
            return Ok(operands);
        }
        operands.reserve_exact(4);
        loop {
            operands.push(self.operand(lists, depth + 1)?);
            if self.take(close)? {
                return Ok(operands);
            }
            self.expect(b',', expected)?;
        }
    }

    fn address(&mut self, depth: u32) -> Result<Address, ParseError> {
        self.advance()?;
        let (base, (offset, offset_span)) = if self.current.token == Token::Word && self.text() != "WARP_SZ" {
            let word = self.text();
            let register = self.is_register(word);
            self.advance()?;
            let name = self.intern(word);
            let base = if register { AddressBase::Register(name) } else { AddressBase::Symbol(name) };
            (base, self.displacement()?)
        } else {
            let (number, span) = self.constant("a register, a symbol or a number in an address")?;
            if number.is_float() {
                let reason =
                    Reason::BadNumber { text: number.text.to_string(), problem: "an address is an integer" };
                return Err(ParseError::new(span, reason));
            }
            (AddressBase::Absolute, (number.as_i64(), Some(span)))
        };
        let mut coordinates = Vec::new();
        while self.take(b',')? {
            coordinates.push(self.operand(false, depth + 1)?);
        }
        self.expect(b']', "`]` of an address")?;
        Ok(Address { base, offset, offset_span, coordinates })
    }

    /// `+n`, `-n`, `+-n`, or nothing.
    pub(super) fn displacement(&mut self) -> Result<(i64, Option<Span>), ParseError> {
        let first = self.current.span;
        if self.at(b'+') {
            self.advance()?;
        } else if !self.at(b'-') {
            return Ok((0, None));
        }
        let (number, span) = self.constant("a constant offset")?;
        if number.is_float() {
            let reason =
                Reason::BadNumber { text: number.text.to_string(), problem: "an offset is an integer" };
            return Err(ParseError::new(span, reason));
        }
        Ok((number.as_i64(), Some(first.to(self.last))))
    }
}
