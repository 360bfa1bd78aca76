//! What stands behind an opcode: registers, immediates, addresses, vectors, pairs and lists.

use super::name::Name;
use super::number::Number;
use super::span::Span;

/// One operand and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Operand {
    /// Its text's place.
    pub span: Span,
    /// What it is.
    pub kind: OperandKind,
}

/// The forms an operand takes.
///
/// ```
/// use cuforge_sim::ptx::{AddressBase, Module, OperandKind};
///
/// let text = ".version 8.0\n.target sm_80\n.entry k(.param .u64 k_0) {\n\
///             .reg .b64 %rd<2>; .reg .b32 %r<3>;\n\
///             ld.v2.u32 {%r1, _}, [%rd1+-16];\n}";
/// let module = Module::parse(text)?;
/// let load = module.function("k").and_then(|k| k.instructions().next()).ok_or("no load")?;
/// let OperandKind::Vector(parts) = &load.operands[0].kind else { return Err("no vector".into()) };
/// assert_eq!(parts[1].kind, OperandKind::Sink);
/// let OperandKind::Address(address) = &load.operands[1].kind else { return Err("no address".into()) };
/// assert_eq!(address.base, AddressBase::Register("%rd1".into()));
/// assert_eq!(address.offset, -16);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum OperandKind {
    /// A register or special register: any name that starts with `%`, or that a `.reg` in scope declares.
    Register {
        /// The name, `%` included and component excluded: `%r1`, `%tid`, `%laneid`.
        name: Name,
        /// What follows a dot, without it: `x` of `%tid.x`, `b0` of a video operand.
        component: Option<Name>,
    },
    /// A literal, or a constant expression folded to its value.
    Immediate(Number),
    /// `WARP_SZ`.
    WarpSize,
    /// A variable, function, label or table, possibly displaced (`table+8`).
    Symbol {
        /// The symbol.
        name: Name,
        /// Bytes added to it.
        offset: i64,
    },
    /// A memory operand in square brackets.
    Address(Address),
    /// `{a, b, ..}`.
    Vector(Vec<Operand>),
    /// `(a, b, ..)`: the results or arguments of a call.
    List(Vec<Operand>),
    /// `_`: a result that is thrown away, or an empty slot of a vector.
    Sink,
    /// `d|p`: two destinations.
    Pair(Box<Operand>, Box<Operand>),
    /// `!p`: a negated predicate.
    Not(Box<Operand>),
}

/// A memory operand: `[base+offset]`, with coordinates for texture and tensor forms.
#[derive(Clone, Debug, PartialEq)]
pub struct Address {
    /// What the address starts from.
    pub base: AddressBase,
    /// Bytes added to the base; any sign.
    pub offset: i64,
    /// Where the displacement is written, sign included (`+16`, `+-4`, `-4`); absent if it is not.
    pub offset_span: Option<Span>,
    /// What follows the base behind commas: `{x, y}` of `[tex, {x, y}]`; empty for plain memory.
    pub coordinates: Vec<Operand>,
}

/// What an address starts from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum AddressBase {
    /// A register.
    Register(Name),
    /// A variable or parameter.
    Symbol(Name),
    /// Nothing: the offset is the whole address.
    Absolute,
}
