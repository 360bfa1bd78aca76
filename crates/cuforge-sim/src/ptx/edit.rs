//! Edits: stretches of a module's text put in place of others, all else left as it is.

use super::error::ParseError;
use super::module::Module;
use super::span::Span;

/// One replacement in a module's text.
///
/// ```
/// use cuforge_sim::ptx::{Edit, Module};
///
/// let module = Module::parse(".version 8.0\n.target sm_80\n.entry k() { bar.sync 0; ret; } // kept")?;
/// let barrier = module.function("k").and_then(|k| k.instructions().next()).ok_or("no barrier")?;
/// let without = module.with_edits(&[Edit::new(barrier.span, "")])?;
/// assert_eq!(without.to_string(), ".version 8.0\n.target sm_80\n.entry k() {  ret; } // kept");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Edit {
    /// What is replaced; empty for an insertion before its start.
    pub span: Span,
    /// What takes its place.
    pub text: String,
}

impl Edit {
    /// The edit that puts `text` in place of `span`.
    pub fn new(span: Span, text: impl Into<String>) -> Self {
        Self { span, text: text.into() }
    }
}

/// Why a module could not be edited.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// Two edits touch the same byte.
    #[error("two edits overlap at byte {0}")]
    Overlap(u32),
    /// An edit lies outside the text, or cuts a character in two.
    #[error("an edit of bytes {start} to {end} does not fit a text of {len} bytes")]
    OutsideText {
        /// First byte of the edit.
        start: u32,
        /// One past its last byte.
        end: u32,
        /// Bytes of the text.
        len: usize,
    },
    /// The edited text is no module any more.
    #[error("the edited text is no ptx: {0}")]
    NoModule(#[from] ParseError),
}

impl Module {
    /// The module whose text is this one's with the edits made, in any order. Costs a parse of the new text.
    ///
    /// # Errors
    ///
    /// Edits that overlap or do not lie in the text, and a new text that does not parse.
    pub fn with_edits(&self, edits: &[Edit]) -> Result<Self, EditError> {
        let mut ordered: Vec<&Edit> = edits.iter().collect();
        ordered.sort_by_key(|edit| (edit.span.start, edit.span.end));
        let source = self.source();
        let mut text =
            String::with_capacity(source.len() + edits.iter().map(|edit| edit.text.len()).sum::<usize>());
        let mut done = 0;
        for edit in ordered {
            let range = edit.span.range();
            if range.start < done {
                return Err(EditError::Overlap(edit.span.start));
            }
            let kept = source.get(done..range.start).filter(|_| source.get(range.clone()).is_some());
            let Some(kept) = kept else {
                let (start, end) = (edit.span.start, edit.span.end);
                return Err(EditError::OutsideText { start, end, len: source.len() });
            };
            text.push_str(kept);
            text.push_str(&edit.text);
            done = range.end;
        }
        text.push_str(source.get(done..).unwrap_or_default());
        Ok(Self::parse(&text)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module() -> Module {
        Module::parse(".version 8.0\n.target sm_80\n.entry k() { ret; } // \u{e9}\n").expect("a module")
    }

    fn span(start: u32, end: u32) -> Span {
        Span { start, end, line: 1, column: 1 }
    }

    #[test]
    fn edits_are_made_in_text_order_whatever_order_they_come_in() {
        let module = module();
        let edits = [Edit::new(span(24, 26), "90"), Edit::new(span(9, 12), "8.5")];
        let edited = module.with_edits(&edits).expect("fits");
        assert_eq!(edited.source(), ".version 8.5\n.target sm_90\n.entry k() { ret; } // \u{e9}\n");
        assert_eq!((edited.header().version, edited.header().target.as_str()), ((8, 5), "sm_90"));
    }

    #[test]
    fn edits_that_overlap_or_leave_the_text_are_refused() {
        let module = module();
        let twice = [Edit::new(span(9, 12), "8.5"), Edit::new(span(10, 11), "")];
        assert_eq!(module.with_edits(&twice), Err(EditError::Overlap(10)));
        let outside = [Edit::new(span(9, 9000), "")];
        assert!(matches!(module.with_edits(&outside), Err(EditError::OutsideText { .. })));
        let accent = module.source().find('\u{e9}').expect("there") as u32;
        let half = [Edit::new(span(accent, accent + 1), "")];
        assert!(matches!(module.with_edits(&half), Err(EditError::OutsideText { .. })));
    }

    #[test]
    fn edits_that_leave_no_module_say_where() {
        let broken = module().with_edits(&[Edit::new(span(38, 39), "")]);
        let Err(EditError::NoModule(error)) = broken else { panic!("{broken:?}") };
        assert_eq!(error.line(), 3);
    }
}
