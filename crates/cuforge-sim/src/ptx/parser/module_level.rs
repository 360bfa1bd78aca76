//! The outermost level: header, functions, variables, and directives kept as text.

use super::cursor::{Cursor, shorten};
use super::declaration::{linkage_of, space_of};
use super::lexer::Token;
use crate::ptx::{
    Directive, Function, FunctionKind, Header, Item, Linkage, ParseError, Reason, SourceFile, Space, Span,
};

impl Cursor<'_> {
    /// The whole module.
    pub(super) fn module(&mut self) -> Result<(Header, Vec<Item>), ParseError> {
        let header = self.header()?;
        let mut items = Vec::new();
        while self.current.token != Token::End {
            self.item(&mut items)?;
        }
        Ok((header, items))
    }

    fn header(&mut self) -> Result<Header, ParseError> {
        if !self.take_dotted("version")? {
            return Err(self.unexpected("`.version` (every module begins with it)"));
        }
        let version_span = self.current.span;
        let version = self.version()?;
        if !self.take_dotted("target")? {
            return Err(self.unexpected("`.target` (it follows `.version`)"));
        }
        let target_span = self.expect_word("an architecture (such as sm_80)")?;
        let target = self.name(target_span);
        let mut target_options = Vec::new();
        while self.take(b',')? {
            let option = self.expect_word("an option of `.target`")?;
            target_options.push(self.name(option));
        }
        let mut address_size = None;
        if self.take_dotted("address_size")? {
            let place = self.current.span;
            let bits = self.plain_u32("an address size")?;
            if bits != 32 && bits != 64 {
                let (what, allowed) = ("an address size", "32 or 64 bits are allowed");
                return Err(ParseError::new(
                    place,
                    Reason::OutOfRange { what, value: i128::from(bits), allowed },
                ));
            }
            address_size = Some(bits);
        }
        Ok(Header { version, version_span, target, target_span, target_options, address_size })
    }

    fn version(&mut self) -> Result<(u32, u32), ParseError> {
        if self.current.token != Token::Number {
            return Err(self.unexpected("a version number (such as 8.0)"));
        }
        let text = self.text();
        let place = self.advance()?;
        text.split_once('.')
            .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)))
            .ok_or_else(|| {
                let problem = "a version is two whole numbers with a point between";
                ParseError::new(place, Reason::BadNumber { text: shorten(text), problem })
            })
    }

    fn item(&mut self, items: &mut Vec<Item>) -> Result<(), ParseError> {
        if self.at(b'@') && self.byte_behind() == b'@' {
            let span = self.skip_line()?;
            items.push(Item::Directive(Directive { span, name: self.intern("@@") }));
            return Ok(());
        }
        if self.take(b';')? {
            return Ok(());
        }
        let first = self.current.span;
        let Some(mut directive) = self.dotted() else {
            return Err(self.unexpected("a directive, a function or a variable"));
        };
        let linkage = linkage_of(directive);
        if linkage.is_some() {
            self.advance()?;
            let Some(next) = self.dotted() else {
                return Err(self.unexpected("a function or a variable"));
            };
            directive = next;
        }
        match (directive, space_of(directive)) {
            ("entry" | "func", _) => {
                let function = self.function(first, linkage)?;
                items.push(Item::Function(function));
                Ok(())
            }
            (_, Some(space)) if !matches!(space, Space::Reg | Space::Param) => {
                self.variables(first, linkage, space, |variable| items.push(Item::Variable(variable)))
            }
            ("file", _) if linkage.is_none() => {
                let file = self.source_file()?;
                items.push(Item::File(file));
                Ok(())
            }
            ("section", _) if linkage.is_none() => {
                let name = self.intern(directive);
                let span = self.section()?;
                items.push(Item::Directive(Directive { span, name }));
                Ok(())
            }
            ("pragma" | "alias", _) if linkage.is_none() => {
                let name = self.intern(directive);
                let span = self.through_semicolon()?;
                items.push(Item::Directive(Directive { span, name }));
                Ok(())
            }
            _ => {
                let reason =
                    Reason::UnknownDirective { directive: shorten(directive), place: "at module level" };
                Err(ParseError::new(self.current.span, reason))
            }
        }
    }

    fn function(&mut self, first: Span, linkage: Option<Linkage>) -> Result<Function, ParseError> {
        let scope = self.open_scope();
        self.location = None;
        let kind = if self.dotted() == Some("entry") { FunctionKind::Entry } else { FunctionKind::Func };
        self.advance()?;
        let attributes = if self.dotted() == Some("attribute") { self.attributes()? } else { Vec::new() };
        let returns = kind == FunctionKind::Func && self.at(b'(');
        let results = if returns { self.parameters()? } else { Vec::new() };
        let name_span = self.expect_word("a function's name")?;
        let name = self.name(name_span);
        let mut tunings = Vec::new();
        self.tunings(&mut tunings)?;
        let parameters = if self.at(b'(') { self.parameters()? } else { Vec::new() };
        self.tunings(&mut tunings)?;
        let body = if self.at(b'{') {
            Some(self.body()?)
        } else if self.take(b';')? {
            None
        } else {
            return Err(self.unexpected("`{` of a body or `;` of a declaration"));
        };
        self.close_scope(scope);
        let span = first.to(self.last);
        Ok(Function { span, linkage, kind, attributes, results, name, name_span, parameters, tunings, body })
    }

    fn source_file(&mut self) -> Result<SourceFile, ParseError> {
        let first = self.advance()?;
        let index = self.plain_u32("a file's number")?;
        if self.current.token != Token::Text {
            return Err(self.unexpected("a file's path in quotes"));
        }
        let quoted = self.advance()?;
        let path = self.slice(quoted);
        let path = self.intern(path.get(1..path.len() - 1).unwrap_or_default());
        while self.take(b',')? {
            self.constant("a file's time or size")?;
        }
        Ok(SourceFile { span: first.to(self.last), index, path })
    }

    /// `.section name { .. }`, whose contents are stepped over as tokens.
    fn section(&mut self) -> Result<Span, ParseError> {
        let first = self.advance()?;
        if !matches!(self.current.token, Token::Dotted | Token::Word | Token::Text) {
            return Err(self.unexpected("a section's name"));
        }
        self.advance()?;
        let brace = self.expect(b'{', "`{` of a section")?;
        let mut open = 1_u32;
        while open > 0 {
            match self.current.token {
                Token::End => return Err(ParseError::new(brace, Reason::OpenBrace)),
                Token::Mark(b'{') => open += 1,
                Token::Mark(b'}') => open -= 1,
                _ => {}
            }
            self.advance()?;
        }
        Ok(first.to(self.last))
    }
}
