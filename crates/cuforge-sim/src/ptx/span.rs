//! Where a piece of PTX stands in its text.

/// A stretch of the module's text, with the line and column of its first byte.
///
/// Offsets and columns count bytes (UTF-8); lines and columns start at 1, offsets at 0.
///
/// ```
/// use cuforge_sim::ptx::Module;
///
/// let module = Module::parse(".version 8.0\n.target sm_80\n.visible .entry k() { ret; }\n")?;
/// let kernel = module.function("k").ok_or("no kernel")?;
/// assert_eq!((kernel.span.line, kernel.span.column), (3, 1));
/// assert_eq!(module.text(kernel.span), ".visible .entry k() { ret; }");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Hash)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Offset one past the last byte.
    pub end: u32,
    /// Line of the first byte, from 1.
    pub line: u32,
    /// Column of the first byte, from 1.
    pub column: u32,
}

impl Span {
    /// This span with its end moved to the end of `last`.
    #[must_use]
    pub fn to(self, last: Span) -> Self {
        Self { end: last.end.max(self.start), ..self }
    }

    /// Length in bytes.
    pub fn len(self) -> usize {
        (self.end - self.start) as usize
    }

    /// Whether the span covers nothing.
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// The span as a range of byte offsets.
    pub fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}
