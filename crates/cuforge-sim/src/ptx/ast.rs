//! The tree of a module: header, directives, variables, functions, statements and instructions.
//!
//! The text is the truth and the tree is an index of it: every node bears the [`Span`] it was read from, and
//! comments and white space stay where they are, between the spans. A changed module is made from a changed
//! text, so all nodes can be plain public data.

use super::mnemonic::Mnemonic;
use super::name::Name;
use super::number::Number;
use super::operand::{Operand, OperandKind};
use super::scalar::ScalarType;
use super::span::Span;

/// The directives every module opens with.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// `.version` major and minor.
    pub version: (u32, u32),
    /// Where the version's number stands.
    pub version_span: Span,
    /// `.target`: the architecture (`sm_90a`).
    pub target: Name,
    /// Where the architecture stands.
    pub target_span: Span,
    /// What else `.target` lists (`texmode_independent`, `debug`).
    pub target_options: Vec<Name>,
    /// `.address_size` in bits; absent if not written.
    pub address_size: Option<u32>,
}

/// What stands at module level, in order.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Item {
    /// A directive the tree does not look into (`.section`, `.alias`, `.pragma`, `@@DWARF`).
    Directive(Directive),
    /// `.file`: a source file that `.loc` refers to.
    File(SourceFile),
    /// A variable.
    Variable(Variable),
    /// A kernel or function, declared or defined.
    Function(Function),
}

/// A directive kept as text: [`Module::text`](super::Module::text) of its span gives all of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Directive {
    /// All of it, with its closing `;` or `}` if it has one.
    pub span: Span,
    /// Its name without the dot: `section`, `pragma`.
    pub name: Name,
}

/// `.file index "path"`.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceFile {
    /// All of it.
    pub span: Span,
    /// The number that `.loc` uses.
    pub index: u32,
    /// The path as written between the quotes.
    pub path: Name,
}

/// Who sees a symbol.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Hash)]
pub enum Linkage {
    /// `.extern`: defined elsewhere.
    Extern,
    /// `.visible`: defined here, seen elsewhere.
    Visible,
    /// `.weak`.
    Weak,
    /// `.common`.
    Common,
}

/// A state space that something is declared in.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Hash)]
pub enum Space {
    /// `.reg`
    Reg,
    /// `.param`
    Param,
    /// `.shared`
    Shared,
    /// `.const`
    Const,
    /// `.global`
    Global,
    /// `.local`
    Local,
    /// `.tex`
    Tex,
}

/// A variable in memory. A declaration of several names gives one of these for each.
///
/// ```
/// use cuforge_sim::ptx::{Module, ScalarType, Space};
///
/// let text = ".version 8.0\n.target sm_80\n.extern .shared .align 16 .b8 pool[];\n.const .f32 t[2][3];";
/// let module = Module::parse(text)?;
/// let pool = module.variable("pool").ok_or("no pool")?;
/// assert_eq!((pool.space, pool.align, &pool.dimensions[..]), (Space::Shared, Some(16), &[None][..]));
/// assert_eq!(module.variable("t").and_then(|t| t.size_bytes()), Some(24));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// From the first directive of the declaration to the end of this declarator.
    pub span: Span,
    /// `.extern`, `.visible`, `.weak` or `.common`.
    pub linkage: Option<Linkage>,
    /// The space it lives in.
    pub space: Space,
    /// `.attribute(..)`: the names listed, without dots (`managed`, `unified`).
    pub attributes: Vec<Name>,
    /// `.align` in bytes; absent means natural alignment.
    pub align: Option<u32>,
    /// Elements of the vector type: 1, 2, 4 or 8.
    pub vector: u32,
    /// The element type.
    pub ty: ScalarType,
    /// Its name; of a range `v<4>` (the four variables `v0` to `v3`), the prefix.
    pub name: Name,
    /// How many the range `v<n>` declares; absent for a plain name.
    pub range: Option<u32>,
    /// Array dimensions, outermost first; `None` for `[]`.
    pub dimensions: Vec<Option<u64>>,
    /// The initial value.
    pub initializer: Option<Initializer>,
}

impl Variable {
    /// Size in bytes of one variable; `None` if a dimension is open or the size exceeds `u64`.
    ///
    /// An open first dimension is closed by its initialiser, as the language has it.
    pub fn size_bytes(&self) -> Option<u64> {
        let element = u64::from(self.ty.size_bytes()) * u64::from(self.vector);
        let mut size = element;
        for (index, dimension) in self.dimensions.iter().enumerate() {
            let count = match (dimension, &self.initializer) {
                (Some(count), _) => *count,
                (None, Some(Initializer::List(values))) if index == 0 => values.len() as u64,
                (None, _) => return None,
            };
            size = size.checked_mul(count)?;
        }
        Some(size)
    }

    /// Alignment in bytes: as declared, else that of the (vector) type.
    pub fn align_bytes(&self) -> u32 {
        self.align.unwrap_or(self.ty.size_bytes() * self.vector)
    }
}

/// The initial value of a variable.
#[derive(Clone, Debug, PartialEq)]
pub enum Initializer {
    /// A number.
    Number(Number),
    /// An address: `symbol+offset`, `generic(symbol)+offset`, `0xFF00(symbol)`.
    Symbol {
        /// Whose address.
        name: Name,
        /// Bytes added to it.
        offset: i64,
        /// Whether it was written `generic(..)`, the address in the generic space.
        generic: bool,
        /// The mask written before the parenthesis, which picks one byte of the address.
        mask: Option<u64>,
    },
    /// `{ .. }`: one level of an array; missing trailing values are zero.
    List(Vec<Initializer>),
}

/// A parameter or result of a function.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// All of it.
    pub span: Span,
    /// [`Space::Param`] or [`Space::Reg`].
    pub space: Space,
    /// `.align` in bytes; absent means natural alignment.
    pub align: Option<u32>,
    /// Elements of the vector type: 1, 2, 4 or 8.
    pub vector: u32,
    /// The element type.
    pub ty: ScalarType,
    /// `.ptr`: what the parameter points to.
    pub pointer: Option<Pointer>,
    /// Its name; `_` in prototypes.
    pub name: Name,
    /// Array dimensions, outermost first; `None` for `[]`.
    pub dimensions: Vec<Option<u64>>,
}

impl Parameter {
    /// Size in bytes; `None` if a dimension is open or the size exceeds `u64`.
    pub fn size_bytes(&self) -> Option<u64> {
        let element = u64::from(self.ty.size_bytes()) * u64::from(self.vector);
        self.dimensions.iter().try_fold(element, |size, count| size.checked_mul((*count)?))
    }

    /// Alignment in bytes: as declared, else that of the (vector) type.
    pub fn align_bytes(&self) -> u32 {
        self.align.unwrap_or(self.ty.size_bytes() * self.vector)
    }
}

/// `.ptr` of a kernel parameter.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pointer {
    /// The space pointed to; absent means generic.
    pub space: Option<Space>,
    /// `.align` in bytes of what is pointed to.
    pub align: Option<u32>,
}

/// Whether a function is launched or called.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Hash)]
pub enum FunctionKind {
    /// `.entry`: a kernel.
    Entry,
    /// `.func`: a device function.
    Func,
}

/// A kernel or device function.
///
/// ```
/// use cuforge_sim::ptx::{FunctionKind, Module};
///
/// let text = ".version 8.0\n.target sm_80\n.visible .entry k(.param .u64 k_0)\n.maxntid 128, 1, 1\n{ ret; }";
/// let module = Module::parse(text)?;
/// let kernel = module.function("k").ok_or("no kernel")?;
/// assert_eq!(kernel.kind, FunctionKind::Entry);
/// assert_eq!(kernel.tuning("maxntid"), Some(&[128, 1, 1][..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// From its first directive to the closing brace or `;`.
    pub span: Span,
    /// `.extern`, `.visible`, `.weak` or `.common`.
    pub linkage: Option<Linkage>,
    /// Kernel or device function.
    pub kind: FunctionKind,
    /// `.attribute(..)`: the names listed, without dots.
    pub attributes: Vec<Name>,
    /// Results of a device function.
    pub results: Vec<Parameter>,
    /// Its name.
    pub name: Name,
    /// Where the name stands.
    pub name_span: Span,
    /// Parameters in order.
    pub parameters: Vec<Parameter>,
    /// `.maxntid`, `.reqntid`, `.minnctapersm`, `.noreturn` and the like, in order.
    pub tunings: Vec<Tuning>,
    /// The body; absent for a declaration.
    pub body: Option<Block>,
}

impl Function {
    /// The values of the named performance directive (without its dot); empty if it takes none.
    pub fn tuning(&self, name: &str) -> Option<&[u64]> {
        self.tunings.iter().find(|tuning| tuning.name == name).map(|tuning| &tuning.values[..])
    }
}

/// A directive between a function's parameters and its body.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuning {
    /// All of it.
    pub span: Span,
    /// Its name without the dot.
    pub name: Name,
    /// Its numbers (`.maxntid 128, 1, 1`); those of a `.pragma` stay in the text.
    pub values: Vec<u64>,
}

/// Statements between braces: a body, or a scope within one.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Braces included.
    pub span: Span,
    /// In order.
    pub statements: Vec<Statement>,
}

/// What a body is made of.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Statement {
    /// A nested scope: its registers, variables and labels are its own.
    Block(Block),
    /// `name:`
    Label(Label),
    /// `.reg`
    Registers(RegisterDeclaration),
    /// A variable, or a `.param` of a call sequence.
    Variable(Variable),
    /// `.loc`
    Location(Location),
    /// A directive kept as text (`.pragma`).
    Directive(Directive),
    /// `name: .branchtargets ..` or `name: .calltargets ..`
    Targets(TargetTable),
    /// `name: .callprototype ..`
    Prototype(Prototype),
    /// An instruction.
    Instruction(Instruction),
}

/// A label.
#[derive(Clone, Debug, PartialEq)]
pub struct Label {
    /// Name and colon.
    pub span: Span,
    /// Its name.
    pub name: Name,
}

/// `.reg .b32 %r<12>;` or one name of `.reg .pred p, q;`.
#[derive(Clone, Debug, PartialEq)]
pub struct RegisterDeclaration {
    /// From `.reg` to the end of this declarator.
    pub span: Span,
    /// Elements of the vector type: 1, 2, 4 or 8.
    pub vector: u32,
    /// The element type.
    pub ty: ScalarType,
    /// The name; of a range, the prefix.
    pub name: Name,
    /// Of a range `%r<12>`: 12, for the registers `%r0` to `%r11`. Absent for a plain name.
    pub range: Option<u32>,
}

/// `.loc file line column`, possibly with the place it was inlined at.
#[derive(Clone, Debug, PartialEq)]
pub struct Location {
    /// All of it.
    pub span: Span,
    /// The place in the source.
    pub place: SourcePlace,
    /// The `function_name` symbol and the calling place of an inlined function.
    pub inlined: Option<(Name, SourcePlace)>,
}

/// A place in a source file.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Hash)]
pub struct SourcePlace {
    /// Index of a [`SourceFile`].
    pub file: u32,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1; 0 if unknown.
    pub column: u32,
}

/// A list of possible targets of an indirect branch or call.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetTable {
    /// From the label to the `;`.
    pub span: Span,
    /// The label an instruction names it by.
    pub name: Name,
    /// Labels for `.branchtargets`, functions for `.calltargets`.
    pub targets: Vec<Name>,
    /// Whether it lists functions.
    pub calls: bool,
}

/// The shape of a function called through a pointer.
#[derive(Clone, Debug, PartialEq)]
pub struct Prototype {
    /// From the label to the `;`.
    pub span: Span,
    /// The label a call names it by.
    pub name: Name,
    /// Results.
    pub results: Vec<Parameter>,
    /// Parameters.
    pub parameters: Vec<Parameter>,
    /// `.noreturn` and the like.
    pub tunings: Vec<Tuning>,
}

/// One instruction: `@!%p1 ld.global.nc.f32 %f1, [%rd4+16];`.
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction {
    /// From the guard (or opcode) to the `;`.
    pub span: Span,
    /// The predicate it runs under.
    pub guard: Option<Guard>,
    /// Opcode and modifiers.
    pub mnemonic: Mnemonic,
    /// In order of writing.
    pub operands: Vec<Operand>,
    /// The `.loc` in force.
    pub location: Option<SourcePlace>,
}

/// `@%p` or `@!%p`.
#[derive(Clone, Debug, PartialEq)]
pub struct Guard {
    /// All of it.
    pub span: Span,
    /// The predicate register.
    pub register: Name,
    /// Whether a `!` stands before it.
    pub negated: bool,
}

/// The parts of a `call`.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Where results go; empty if the callee gives none.
    pub results: &'a [Operand],
    /// The function, or the register that holds its address.
    pub target: &'a Operand,
    /// What is passed.
    pub arguments: &'a [Operand],
    /// The prototype or target table of an indirect call.
    pub prototype: Option<&'a Operand>,
}

impl Instruction {
    /// The opcode: the mnemonic up to its first dot.
    pub fn opcode(&self) -> &str {
        self.mnemonic.opcode()
    }

    /// The parts of a `call`; `None` for other opcodes and for a call without a target.
    ///
    /// ```
    /// use cuforge_sim::ptx::Module;
    ///
    /// let text = ".version 8.0\n.target sm_80\n.func f(.param .b32 a) { ret; }\n\
    ///             .entry k() { .param .b32 p; call.uni f, (p); }";
    /// let module = Module::parse(text)?;
    /// let call = module.function("k").and_then(|k| k.instructions().next()).ok_or("no call")?;
    /// let parts = call.call().ok_or("not a call")?;
    /// assert_eq!((parts.results.len(), parts.arguments.len()), (0, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn call(&self) -> Option<Call<'_>> {
        if self.opcode() != "call" {
            return None;
        }
        let (results, rest) = leading_list(&self.operands);
        let (target, rest) = rest.split_first()?;
        let (arguments, rest) = leading_list(rest);
        Some(Call { results, target, arguments, prototype: rest.first() })
    }
}

fn leading_list(operands: &[Operand]) -> (&[Operand], &[Operand]) {
    match operands.split_first() {
        Some((Operand { kind: OperandKind::List(list), .. }, rest)) => (list, rest),
        _ => (&[], operands),
    }
}

impl Function {
    /// The instructions of the body in text order, those of nested scopes included.
    pub fn instructions(&self) -> Instructions<'_> {
        Instructions { open: self.body.iter().map(|body| body.statements.iter()).collect() }
    }
}

/// Walks the instructions of a function; made by [`Function::instructions`].
#[derive(Clone, Debug)]
pub struct Instructions<'a> {
    open: Vec<std::slice::Iter<'a, Statement>>,
}

impl<'a> Iterator for Instructions<'a> {
    type Item = &'a Instruction;

    fn next(&mut self) -> Option<&'a Instruction> {
        while let Some(statements) = self.open.last_mut() {
            match statements.next() {
                None => {
                    self.open.pop();
                }
                Some(Statement::Instruction(instruction)) => return Some(instruction),
                Some(Statement::Block(block)) => self.open.push(block.statements.iter()),
                Some(_) => {}
            }
        }
        None
    }
}
