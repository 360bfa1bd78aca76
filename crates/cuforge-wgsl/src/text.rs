//! The text that is being written: indentation, and `#line` wherever the WGSL does not go on line by line.

use std::fmt::Write as _;

/// The lines that may be left blank to reach the next line of the WGSL without a `#line`.
const BLANK: u32 = 2;

/// CUDA C in the making.
#[derive(Debug)]
pub(crate) struct Text {
    written: String,
    depth: usize,
    /// What the compiler will call the next line, once a `#line` has been written.
    next: Option<u32>,
    file: String,
}

impl Text {
    /// An empty text whose lines come from `file`.
    pub(crate) fn new(file: &str) -> Self {
        let file = file.replace('\\', "\\\\").replace('"', "\\\"").replace(['\n', '\r'], " ");
        Self { written: String::new(), depth: 0, next: None, file }
    }

    /// Says that what follows comes from line `line` of the WGSL.
    pub(crate) fn at(&mut self, line: Option<u32>) {
        let Some(line) = line else { return };
        match self.next.map(|next| line.checked_sub(next)) {
            Some(Some(gap)) if gap <= BLANK => {
                for _ in 0..gap {
                    self.written.push('\n');
                }
            }
            _ => {
                // Writing to a string cannot fail.
                _ = writeln!(self.written, "#line {line} \"{}\"", self.file);
            }
        }
        self.next = Some(line);
    }

    /// One line; an empty one is left without indentation.
    pub(crate) fn line(&mut self, text: &str) {
        if !text.is_empty() {
            for _ in 0..self.depth {
                self.written.push_str("    ");
            }
            self.written.push_str(text);
        }
        self.written.push('\n');
        let lines = 1 + u32::try_from(text.matches('\n').count()).unwrap_or(0);
        self.next = self.next.map(|next| next + lines);
    }

    /// A line, after which lines are indented one step more.
    pub(crate) fn open(&mut self, text: &str) {
        self.line(text);
        self.depth += 1;
    }

    /// A line that ends what the last open one began.
    pub(crate) fn close(&mut self, text: &str) {
        self.depth = self.depth.saturating_sub(1);
        self.line(text);
    }

    /// A line between two parts: `} else {`.
    pub(crate) fn turn(&mut self, text: &str) {
        self.close(text);
        self.depth += 1;
    }

    /// All that was written.
    pub(crate) fn into_string(self) -> String {
        self.written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_directive_stands_only_where_lines_do_not_follow() {
        let mut text = Text::new("a\"b.wgsl");
        text.at(Some(7));
        text.open("{");
        text.at(Some(8));
        text.line("one;");
        text.at(Some(11));
        text.line("two;");
        text.at(Some(30));
        text.line("three;");
        text.at(None);
        text.close("}");
        let want =
            "#line 7 \"a\\\"b.wgsl\"\n{\n    one;\n\n\n    two;\n#line 30 \"a\\\"b.wgsl\"\n    three;\n}\n";
        assert_eq!(text.into_string(), want);
    }
}
