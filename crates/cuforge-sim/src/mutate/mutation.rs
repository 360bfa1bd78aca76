//! A mutant before it is made: the kind of change, the place, and the edits.

use std::fmt;

use super::operator::Operator;
use crate::ptx::{Edit, EditError, Module, Name, Span};

/// One change to one instruction, found by [`enumerate`](super::enumerate).
///
/// It can be applied to the module it was found in, or to any module with the same text at its place.
///
/// ```
/// use cuforge_sim::mutate::{self, Operator};
/// use cuforge_sim::ptx::Module;
///
/// let text = ".version 8.0\n.target sm_80\n.entry k() {\n  bar.sync 0;\n  ret;\n}\n";
/// let module = Module::parse(text)?;
/// let found = mutate::enumerate(&module, "k");
/// let drop = found.iter().find(|m| m.operator() == Operator::DropBarrier).ok_or("none")?;
/// assert_eq!((drop.line(), drop.description()), (4, "leave out `bar.sync 0;`"));
/// assert_eq!(drop.to_string(), "k line 4: drop-barrier: leave out `bar.sync 0;`");
/// assert_eq!(drop.apply(&module)?.to_string(), text.replace("bar.sync 0;", ""));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Mutation {
    operator: Operator,
    function: Name,
    span: Span,
    description: String,
    edits: Vec<Edit>,
    before: Vec<Name>,
}

impl Mutation {
    pub(super) fn new(
        module: &Module,
        operator: Operator,
        function: Name,
        span: Span,
        description: String,
        edits: Vec<Edit>,
    ) -> Self {
        let before = edits.iter().map(|edit| Name::from(module.text(edit.span))).collect();
        Self { operator, function, span, description, edits, before }
    }

    /// The kind of change.
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// The function it is in: the kernel, or a device function that the kernel calls.
    pub fn function(&self) -> &str {
        &self.function
    }

    /// Line of the changed instruction, from 1.
    pub fn line(&self) -> u32 {
        self.span.line
    }

    /// Place of the changed instruction.
    pub fn span(&self) -> Span {
        self.span
    }

    /// The change in words, with the instruction as it was.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The edits it makes.
    pub fn edits(&self) -> &[Edit] {
        &self.edits
    }

    /// The mutant: the module with this change and no other. Costs a parse of its text.
    ///
    /// # Errors
    ///
    /// [`MutationError::OtherModule`] if the text at the place is not what the change was made for.
    pub fn apply(&self, module: &Module) -> Result<Module, MutationError> {
        for (edit, before) in self.edits.iter().zip(&self.before) {
            if module.source().get(edit.span.range()) != Some(before.as_str()) {
                return Err(MutationError::OtherModule {
                    line: self.span.line,
                    expected: before.to_string(),
                });
            }
        }
        Ok(module.with_edits(&self.edits)?)
    }
}

/// One line: where, what kind, and the change in words.
impl fmt::Display for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} line {}: {}: {}", self.function, self.span.line, self.operator, self.description)
    }
}

/// Why a mutant could not be made.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MutationError {
    /// The mutation was found in a module with another text.
    #[error("the mutation belongs to another module: line {line} does not have `{expected}` where it did")]
    OtherModule {
        /// The line of the change.
        line: u32,
        /// The text that was to be changed.
        expected: String,
    },
    /// The edits do not give a module.
    #[error(transparent)]
    Edit(#[from] EditError),
}
