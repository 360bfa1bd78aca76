//! PTX as text and tree: a lossless parser, the tree it builds, and edits that change only what they name.
//!
//! The parser takes opcodes and modifiers as an open set, so it needs no list of instructions: an instruction is
//! a guard, a [`Mnemonic`] and operands. What an instruction means is for its reader to say.

mod ast;
mod edit;
mod error;
mod mnemonic;
mod module;
mod name;
mod number;
mod operand;
mod parser;
mod scalar;
mod span;

pub use ast::{
    Block, Call, Directive, Function, FunctionKind, Guard, Header, Initializer, Instruction, Instructions,
    Item, Label, Linkage, Location, Parameter, Pointer, Prototype, RegisterDeclaration, SourceFile,
    SourcePlace, Space, Statement, TargetTable, Tuning, Variable,
};
pub use edit::{Edit, EditError};
pub use error::{ParseError, Reason};
pub use mnemonic::Mnemonic;
pub use module::Module;
pub use name::Name;
pub use number::{Number, NumberKind};
pub use operand::{Address, AddressBase, Operand, OperandKind};
pub use scalar::ScalarType;
pub use span::Span;
