//! What bodies are made of: scopes, labels, declarations, `.loc`, and instructions.

use super::cursor::{Cursor, shorten};
use super::declaration::{linkage_of, space_of};
use super::lexer::Token;
use crate::ptx::{
    Block, Directive, Guard, Instruction, Label, Location, Mnemonic, Name, ParseError, Prototype, Reason,
    SourcePlace, Space, Span, Statement, TargetTable, Tuning,
};

/// How deep scopes may nest.
const DEPTH_LIMIT: u32 = 128;

/// A scope whose closing brace is still to come.
struct Open {
    brace: Span,
    statements: Vec<Statement>,
    registers: usize,
}

impl Cursor<'_> {
    /// `{ .. }`, the opening brace being next. Scopes are kept on a list, not on the call stack.
    pub(super) fn body(&mut self) -> Result<Block, ParseError> {
        let mut outer: Vec<Open> = Vec::new();
        let mut open = self.open_block()?;
        loop {
            match self.current.token {
                Token::Mark(b'{') => {
                    if outer.len() as u32 + 1 >= DEPTH_LIMIT {
                        let reason = Reason::TooDeep { what: "scopes", limit: DEPTH_LIMIT };
                        return Err(ParseError::new(self.current.span, reason));
                    }
                    let inner = self.open_block()?;
                    outer.push(std::mem::replace(&mut open, inner));
                }
                Token::Mark(b'}') => {
                    let end = self.advance()?;
                    self.close_scope(open.registers);
                    let block = Block { span: open.brace.to(end), statements: open.statements };
                    match outer.pop() {
                        None => return Ok(block),
                        Some(parent) => open = parent,
                    }
                    open.statements.push(Statement::Block(block));
                }
                Token::End => return Err(ParseError::new(open.brace, Reason::OpenBrace)),
                _ => self.statement(&mut open.statements)?,
            }
        }
    }

    /// Directives between a function's head and its body: a name and numbers each.
    pub(super) fn tunings(&mut self, tunings: &mut Vec<Tuning>) -> Result<(), ParseError> {
        while let Some(name) = self.dotted() {
            let first = self.advance()?;
            let name = self.intern(name);
            let mut values = Vec::new();
            if self.current.token == Token::Text {
                while self.current.token == Token::Text {
                    self.advance()?;
                    self.take(b',')?;
                }
                self.expect(b';', "`;`")?;
            }
            while self.current.token == Token::Number {
                values.push(self.count("a value of a function's directive", u64::MAX, "0 to 2^64 - 1")?);
                if !self.take(b',')? {
                    break;
                }
                if self.current.token != Token::Number {
                    return Err(self.unexpected("a number behind `,`"));
                }
            }
            tunings.push(Tuning { span: first.to(self.last), name, values });
        }
        Ok(())
    }

    fn open_block(&mut self) -> Result<Open, ParseError> {
        let registers = self.open_scope();
        let brace = self.expect(b'{', "`{`")?;
        Ok(Open { brace, statements: Vec::new(), registers })
    }

    fn statement(&mut self, statements: &mut Vec<Statement>) -> Result<(), ParseError> {
        match self.current.token {
            Token::Word => {
                let first = self.advance()?;
                if self.at(b':') {
                    let statement = self.labelled(first)?;
                    statements.push(statement);
                } else {
                    let instruction = self.instruction(first, None, first)?;
                    statements.push(Statement::Instruction(instruction));
                }
            }
            Token::Mark(b'@') => {
                let guard = self.guard()?;
                let opcode = self.expect_word("an instruction behind a guard")?;
                let instruction = self.instruction(guard.span, Some(guard), opcode)?;
                statements.push(Statement::Instruction(instruction));
            }
            Token::Dotted => self.directive(statements)?,
            // An empty statement; the text keeps it.
            Token::Mark(b';') => {
                self.advance()?;
            }
            _ => return Err(self.unexpected("an instruction, a directive, a label or `}`")),
        }
        Ok(())
    }

    fn guard(&mut self) -> Result<Guard, ParseError> {
        let first = self.advance()?;
        let negated = self.take(b'!')?;
        let place = self.expect_word("a predicate register")?;
        Ok(Guard { span: first.to(place), register: self.name(place), negated })
    }

    fn instruction(
        &mut self,
        first: Span,
        guard: Option<Guard>,
        opcode: Span,
    ) -> Result<Instruction, ParseError> {
        let text = self.slice(opcode);
        if !text.starts_with(|first: char| first.is_ascii_alphabetic()) || text.contains('$') {
            let found = format!("`{}`", shorten(text));
            return Err(ParseError::new(opcode, Reason::Unexpected { expected: "an instruction", found }));
        }
        let mnemonic = self.mnemonic(opcode)?;
        let operands = self.operands(text == "call")?;
        Ok(Instruction { span: first.to(self.last), guard, mnemonic, operands, location: self.location })
    }

    /// The modifiers behind an opcode that was just stepped over.
    fn mnemonic(&mut self, opcode: Span) -> Result<Mnemonic, ParseError> {
        let mut bytes = opcode.len();
        while self.current.token == Token::Dotted {
            bytes += self.current.span.len();
            self.advance()?;
        }
        let span = opcode.to(self.last);
        let text = if bytes == span.len() {
            self.name(span)
        } else {
            // Only words and dotted tokens are in there, so dropping blanks and comments gives the bare mnemonic.
            let mut bare = Cursor::new(self.slice(span))?;
            let mut joined = String::new();
            while bare.current.token != Token::End {
                joined.push_str(bare.text());
                bare.advance()?;
            }
            Name::from(joined.as_str())
        };
        Ok(Mnemonic { span, text })
    }

    /// What a label begins, its name being stepped over and its colon next.
    fn labelled(&mut self, first: Span) -> Result<Statement, ParseError> {
        let name = self.name(first);
        let colon = self.advance()?;
        match self.dotted() {
            Some(kind @ ("branchtargets" | "calltargets")) => {
                self.advance()?;
                let mut targets = Vec::new();
                loop {
                    let place = self.expect_word("a target's name")?;
                    targets.push(self.name(place));
                    if self.take(b';')? {
                        break;
                    }
                    self.expect(b',', "`,` or `;`")?;
                }
                let span = first.to(self.last);
                Ok(Statement::Targets(TargetTable { span, name, targets, calls: kind == "calltargets" }))
            }
            Some("callprototype") => self.prototype(first, name).map(Statement::Prototype),
            _ => Ok(Statement::Label(Label { span: first.to(colon), name })),
        }
    }

    fn prototype(&mut self, first: Span, name: Name) -> Result<Prototype, ParseError> {
        self.advance()?;
        let results = if self.at(b'(') { self.parameters()? } else { Vec::new() };
        self.expect_word("`_` of a prototype")?;
        let mut tunings = Vec::new();
        self.tunings(&mut tunings)?;
        let parameters = if self.at(b'(') { self.parameters()? } else { Vec::new() };
        self.tunings(&mut tunings)?;
        let end = self.expect(b';', "`;`")?;
        Ok(Prototype { span: first.to(end), name, results, parameters, tunings })
    }

    fn directive(&mut self, statements: &mut Vec<Statement>) -> Result<(), ParseError> {
        let first = self.current.span;
        let mut directive = self.dotted().unwrap_or_default();
        let linkage = linkage_of(directive);
        if linkage.is_some() {
            self.advance()?;
            let Some(next) = self.dotted() else { return Err(self.unexpected("a state space")) };
            directive = next;
        }
        match (space_of(directive), directive) {
            (Some(Space::Reg), _) if linkage.is_none() => {
                self.registers(first, |registers| statements.push(Statement::Registers(registers)))
            }
            (Some(space), _) if space != Space::Reg => self
                .variables(first, linkage, space, |variable| statements.push(Statement::Variable(variable))),
            (None, "loc") => {
                let location = self.source_location()?;
                statements.push(Statement::Location(location));
                Ok(())
            }
            (None, "pragma") => {
                let name = self.intern(directive);
                let span = self.through_semicolon()?;
                statements.push(Statement::Directive(Directive { span, name }));
                Ok(())
            }
            (None, "branchtargets" | "calltargets" | "callprototype") => {
                Err(self.unexpected("a label before this directive"))
            }
            _ => {
                let reason = Reason::UnknownDirective { directive: shorten(directive), place: "in a body" };
                Err(ParseError::new(self.current.span, reason))
            }
        }
    }

    /// From the current token to the next `;`.
    pub(super) fn through_semicolon(&mut self) -> Result<Span, ParseError> {
        let first = self.current.span;
        while !self.at(b';') {
            if matches!(self.current.token, Token::End | Token::Mark(b'{' | b'}')) {
                return Err(self.unexpected("`;`"));
            }
            self.advance()?;
        }
        Ok(first.to(self.advance()?))
    }

    fn source_location(&mut self) -> Result<Location, ParseError> {
        let first = self.advance()?;
        let place = self.source_place()?;
        let (mut name, mut called_at) = (None, None);
        while self.take(b',')? {
            match self.text() {
                "function_name" => {
                    self.advance()?;
                    let word = self.expect_word("the label of a function's name")?;
                    self.displacement()?;
                    name = Some(self.name(word));
                }
                "inlined_at" => {
                    self.advance()?;
                    called_at = Some(self.source_place()?);
                }
                _ => return Err(self.unexpected("`function_name` or `inlined_at`")),
            }
        }
        self.location = Some(place);
        Ok(Location { span: first.to(self.last), place, inlined: name.zip(called_at) })
    }

    fn source_place(&mut self) -> Result<SourcePlace, ParseError> {
        Ok(SourcePlace {
            file: self.plain_u32("a file's number")?,
            line: self.plain_u32("a line's number")?,
            column: self.plain_u32("a column's number")?,
        })
    }
}
