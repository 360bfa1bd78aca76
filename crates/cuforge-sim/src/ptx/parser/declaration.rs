//! Declarations of registers, variables and parameters.

use super::cursor::{Cursor, shorten};
use super::lexer::Token;
use crate::ptx::{
    Initializer, Linkage, Name, Parameter, ParseError, Pointer, Reason, RegisterDeclaration, ScalarType,
    Space, Span, Variable,
};

/// How deep initialisers may nest.
const DEPTH_LIMIT: u32 = 16;

/// How many attributes a declaration may list; the language has two. Each of its names gets a copy.
const ATTRIBUTE_LIMIT: usize = 8;

/// What stands between a state space and the first name.
struct Shape {
    attributes: Vec<Name>,
    align: Option<u32>,
    vector: u32,
    ty: ScalarType,
    pointer: Option<Pointer>,
}

/// The space a directive names, if it names one.
pub(super) fn space_of(directive: &str) -> Option<Space> {
    Some(match directive {
        "reg" => Space::Reg,
        "param" => Space::Param,
        "shared" => Space::Shared,
        "const" => Space::Const,
        "global" => Space::Global,
        "local" => Space::Local,
        "tex" => Space::Tex,
        _ => return None,
    })
}

/// The linkage a directive names, if it names one.
pub(super) fn linkage_of(directive: &str) -> Option<Linkage> {
    Some(match directive {
        "extern" => Linkage::Extern,
        "visible" => Linkage::Visible,
        "weak" => Linkage::Weak,
        "common" => Linkage::Common,
        _ => return None,
    })
}

impl Cursor<'_> {
    /// The rest of a `.reg` line; one declaration for each name.
    pub(super) fn registers(
        &mut self,
        first: Span,
        mut each: impl FnMut(RegisterDeclaration),
    ) -> Result<(), ParseError> {
        self.advance()?;
        let shape = self.shape("a register's type")?;
        loop {
            let place = self.expect_word("a register's name")?;
            let range = self.range()?;
            self.declare_register(place, range);
            let span = first.to(self.last);
            each(RegisterDeclaration {
                span,
                vector: shape.vector,
                ty: shape.ty,
                name: self.name(place),
                range,
            });
            if self.take(b';')? {
                return Ok(());
            }
            self.expect(b',', "`,` or `;`")?;
        }
    }

    /// The rest of a variable's declaration from its space on; one variable for each name.
    pub(super) fn variables(
        &mut self,
        first: Span,
        linkage: Option<Linkage>,
        space: Space,
        mut each: impl FnMut(Variable),
    ) -> Result<(), ParseError> {
        self.advance()?;
        let shape = self.shape("a variable's type")?;
        loop {
            let place = self.expect_word("a variable's name")?;
            let name = self.name(place);
            let range = self.range()?;
            let dimensions = self.dimensions()?;
            let initializer = if self.take(b'=')? { Some(self.initializer(0)?) } else { None };
            each(Variable {
                span: first.to(self.last),
                linkage,
                space,
                attributes: shape.attributes.clone(),
                align: shape.align,
                vector: shape.vector,
                ty: shape.ty,
                name,
                range,
                dimensions,
                initializer,
            });
            if self.take(b';')? {
                return Ok(());
            }
            self.expect(b',', "`,` or `;`")?;
        }
    }

    /// `( .. )` of parameters or results.
    pub(super) fn parameters(&mut self) -> Result<Vec<Parameter>, ParseError> {
        self.expect(b'(', "`(`")?;
        let mut parameters = Vec::new();
        if self.take(b')')? {
            return Ok(parameters);
        }
        loop {
            parameters.push(self.parameter()?);
            if self.take(b')')? {
                return Ok(parameters);
            }
            self.expect(b',', "`,` or `)` behind a parameter")?;
        }
    }

    /// `.attribute( .. )`, the directive being next: the names it lists.
    pub(super) fn attributes(&mut self) -> Result<Vec<Name>, ParseError> {
        self.advance()?;
        self.expect(b'(', "`(` behind `.attribute`")?;
        let mut names = Vec::new();
        loop {
            let Some(name) = self.dotted() else { return Err(self.unexpected("an attribute")) };
            if names.len() == ATTRIBUTE_LIMIT {
                let (what, value, allowed) =
                    ("the number of attributes", ATTRIBUTE_LIMIT as i128 + 1, "at most 8");
                return Err(ParseError::new(self.current.span, Reason::OutOfRange { what, value, allowed }));
            }
            self.advance()?;
            names.push(self.intern(name));
            if self.take(b'(')? {
                while !self.take(b')')? {
                    self.constant("`)` or a number of an attribute")?;
                    self.take(b',')?;
                }
            }
            if self.take(b')')? {
                return Ok(names);
            }
            self.expect(b',', "`,` or `)` behind an attribute")?;
        }
    }

    fn parameter(&mut self) -> Result<Parameter, ParseError> {
        let first = self.current.span;
        let space = match self.dotted() {
            Some("param") => Space::Param,
            Some("reg") => Space::Reg,
            _ => return Err(self.unexpected("a parameter's space")),
        };
        self.advance()?;
        let shape = self.shape("a parameter's type")?;
        let place = self.expect_word("a parameter's name")?;
        let name = self.name(place);
        if space == Space::Reg {
            self.declare_register(place, None);
        }
        let dimensions = self.dimensions()?;
        Ok(Parameter {
            span: first.to(self.last),
            space,
            align: shape.align,
            vector: shape.vector,
            ty: shape.ty,
            pointer: shape.pointer,
            name,
            dimensions,
        })
    }

    fn shape(&mut self, expected: &'static str) -> Result<Shape, ParseError> {
        let (mut attributes, mut align, mut vector, mut ty) = (Vec::new(), None, 1, None);
        let mut pointer: Option<Pointer> = None;
        while let Some(directive) = self.dotted() {
            match (directive, &mut pointer) {
                ("align", pointer) => {
                    self.advance()?;
                    let bytes = self.align()?;
                    match pointer {
                        Some(pointer) => pointer.align = Some(bytes),
                        None => align = Some(bytes),
                    }
                }
                ("attribute", _) => attributes = self.attributes()?,
                ("ptr", _) => {
                    self.advance()?;
                    pointer = Some(Pointer { space: None, align: None });
                }
                ("v2" | "v4" | "v8", _) => {
                    vector = if directive == "v2" {
                        2
                    } else if directive == "v4" {
                        4
                    } else {
                        8
                    };
                    self.advance()?;
                }
                (_, Some(pointer)) if space_of(directive).is_some() => {
                    pointer.space = space_of(directive);
                    self.advance()?;
                }
                _ => {
                    let Some(found) = ScalarType::from_name(directive) else {
                        let reason = Reason::UnknownType(shorten(directive));
                        return Err(ParseError::new(self.current.span, reason));
                    };
                    if ty.is_some() {
                        return Err(self.unexpected("a name (the type is already given)"));
                    }
                    ty = Some(found);
                    self.advance()?;
                }
            }
        }
        let Some(ty) = ty else { return Err(self.unexpected(expected)) };
        Ok(Shape { attributes, align, vector, ty, pointer })
    }

    fn align(&mut self) -> Result<u32, ParseError> {
        let place = self.current.span;
        let bytes = self.plain_u32("an alignment")?;
        if bytes.is_power_of_two() {
            return Ok(bytes);
        }
        let (what, allowed) = ("an alignment", "a power of two is needed");
        Err(ParseError::new(place, Reason::OutOfRange { what, value: i128::from(bytes), allowed }))
    }

    /// `<n>`, or nothing.
    fn range(&mut self) -> Result<Option<u32>, ParseError> {
        if !self.take(b'<')? {
            return Ok(None);
        }
        let count = self.plain_u32("the count of a range of names")?;
        self.expect(b'>', "`>` of a range of names")?;
        Ok(Some(count))
    }

    fn dimensions(&mut self) -> Result<Vec<Option<u64>>, ParseError> {
        let mut dimensions = Vec::new();
        while self.take(b'[')? {
            if self.take(b']')? {
                dimensions.push(None);
                continue;
            }
            let count = self.count("an array dimension", u64::MAX, "0 to 2^64 - 1 elements")?;
            dimensions.push(Some(count));
            self.expect(b']', "`]` of an array dimension")?;
        }
        Ok(dimensions)
    }

    fn initializer(&mut self, depth: u32) -> Result<Initializer, ParseError> {
        if depth > DEPTH_LIMIT {
            let reason = Reason::TooDeep { what: "initialisers", limit: DEPTH_LIMIT };
            return Err(ParseError::new(self.current.span, reason));
        }
        match self.current.token {
            Token::Mark(b'{') => {
                self.advance()?;
                let mut values = Vec::new();
                while !self.take(b'}')? {
                    values.push(self.initializer(depth + 1)?);
                    if !self.at(b'}') {
                        self.expect(b',', "`,` or `}` of an initialiser")?;
                    }
                }
                Ok(Initializer::List(values))
            }
            Token::Word if self.text() != "WARP_SZ" => self.symbol_value(None),
            _ => {
                let (number, _) = self.constant("an initial value")?;
                if self.at(b'(') {
                    return self.symbol_value(Some(number.bits));
                }
                Ok(Initializer::Number(number))
            }
        }
    }

    /// `symbol+n`, `generic(symbol)+n` or, behind a mask, `(symbol+n)`.
    fn symbol_value(&mut self, mask: Option<u64>) -> Result<Initializer, ParseError> {
        if mask.is_some() {
            self.advance()?;
        }
        let mut place = self.expect_word("a symbol")?;
        let generic = self.slice(place) == "generic" && self.at(b'(');
        if generic {
            self.advance()?;
            place = self.expect_word("a symbol in `generic( )`")?;
            self.expect(b')', "`)` of `generic( )`")?;
        }
        let (mut offset, _) = self.displacement()?;
        if mask.is_some() {
            self.expect(b')', "`)` of a masked symbol")?;
            offset = offset.wrapping_add(self.displacement()?.0);
        }
        Ok(Initializer::Symbol { name: self.name(place), offset, generic, mask })
    }
}
