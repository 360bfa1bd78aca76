//! A parsed module: its text and the tree over it.

use std::fmt;
use std::sync::Arc;

use super::ast::{Function, FunctionKind, Header, Item, Variable};
use super::span::Span;

/// A parsed module, which prints as the very text it was read from.
///
/// Cloning shares the text and copies the tree.
///
/// ```
/// use cuforge_sim::ptx::Module;
///
/// let text = "// a kernel\n.version 8.0\n.target sm_80\n.address_size 64\n.entry k() { ret; } // done";
/// let module = Module::parse(text)?;
/// assert_eq!(module.to_string(), text);
/// assert_eq!(module.header().target, "sm_80");
/// # Ok::<(), cuforge_sim::ptx::ParseError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Module {
    pub(super) source: Arc<str>,
    pub(super) header: Header,
    pub(super) items: Vec<Item>,
}

impl Module {
    /// Version, target and address size.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// All that follows the header, in order.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// The whole text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The text of a node; empty for a span of another, longer module.
    pub fn text(&self, span: Span) -> &str {
        self.source.get(span.range()).unwrap_or_default()
    }

    /// Kernels and device functions, in order.
    pub fn functions(&self) -> impl Iterator<Item = &Function> {
        self.items.iter().filter_map(|item| match item {
            Item::Function(function) => Some(function),
            _ => None,
        })
    }

    /// Kernels with a body, in order.
    pub fn entries(&self) -> impl Iterator<Item = &Function> {
        self.functions().filter(|function| function.kind == FunctionKind::Entry && function.body.is_some())
    }

    /// The function of that name: its definition, or its declaration if that is all there is.
    pub fn function(&self, name: &str) -> Option<&Function> {
        let named = |function: &&Function| function.name == *name;
        self.functions()
            .filter(named)
            .find(|function| function.body.is_some())
            .or_else(|| self.functions().find(named))
    }

    /// Variables at module level, in order.
    pub fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.items.iter().filter_map(|item| match item {
            Item::Variable(variable) => Some(variable),
            _ => None,
        })
    }

    /// The first variable of that name at module level.
    pub fn variable(&self, name: &str) -> Option<&Variable> {
        self.variables().find(|variable| variable.name == *name)
    }
}

impl fmt::Display for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}
