//! The WGSL text as lines, so that places in it are found without counting.

use naga::Span;

use crate::error::Place;

/// Where the lines of a text start.
#[derive(Debug)]
pub(crate) struct Lines {
    starts: Vec<u32>,
}

impl Lines {
    pub(crate) fn of(text: &str) -> Self {
        let breaks = text.bytes().zip(1..).filter(|(byte, _)| *byte == b'\n').map(|(_, next)| next);
        Self { starts: std::iter::once(0).chain(breaks).collect() }
    }

    /// The place where `span` begins, if it is one.
    pub(crate) fn place(&self, span: Span) -> Option<Place> {
        let start = u32::try_from(span.to_range()?.start).ok()?;
        let line = self.starts.partition_point(|first| *first <= start);
        let column = start - self.starts.get(line.checked_sub(1)?)? + 1;
        Some(Place { line: u32::try_from(line).ok()?, column })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_bytes_from_one() {
        let lines = Lines::of("ab\n\ncd");
        let at = |start| lines.place(Span::new(start, start + 1)).map(|p| (p.line, p.column));
        assert_eq!([0, 1, 2, 3, 4, 5].map(at), [(1, 1), (1, 2), (1, 3), (2, 1), (3, 1), (3, 2)].map(Some));
        assert_eq!(lines.place(Span::UNDEFINED), None);
    }
}
