//! Finds what a text can include. Errs on the side of too much: a name in a comment or behind a condition counts.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// One name that a text can include.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Include {
    name: PathBuf,
    /// Whether the folder of the including file is searched first.
    pub(crate) quoted: bool,
}

impl Include {
    pub(crate) fn path(&self) -> &Path {
        &self.name
    }
}

/// What one text can include.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scan {
    pub(crate) includes: Vec<Include>,
    /// Why a result that depends on this text cannot be cached, if so.
    pub(crate) odd: Option<&'static str>,
}

/// Scans a text for include directives and `__has_include`.
pub(crate) fn scan(text: &[u8]) -> Scan {
    let mut scan = Scan::default();
    let contains = |word: &[u8]| find(text, word, 0).is_some();
    if contains(b"__TIME__") || contains(b"__DATE__") || contains(b"__TIMESTAMP__") {
        scan.odd = Some("its result depends on the time of the compilation");
    }
    if contains(b"??=") || contains(b"??/") {
        scan.odd = Some("it holds trigraphs, which may hide an include");
    }
    let text = spliced(text);
    let mut at = 0;
    while let Some(found) = find(&text, b"include", at) {
        at = found + b"include".len();
        let behind = skip_word(&text, at);
        let (open, start) = skip_blank(&text, behind);
        match text.get(start) {
            Some(b'<') => scan.push(&text, start, b'>'),
            Some(b'"') => scan.push(&text, start, b'"'),
            Some(&byte) if is_word(byte) && names_a_macro(&text, found, open) => {
                scan.odd = Some("the name of an include comes from a macro");
            }
            _ => {}
        }
    }
    scan
}

impl Scan {
    fn push(&mut self, text: &[u8], start: usize, close: u8) {
        let rest = &text[start + 1..];
        let len = rest.iter().position(|&byte| byte == close || byte == b'\n');
        let Some(len) = len.filter(|&len| len > 0 && rest[len] == close) else { return };
        let include = Include { name: path(&rest[..len]), quoted: close == b'"' };
        if !self.includes.contains(&include) {
            self.includes.push(include);
        }
    }
}

/// Whether the word at `word` is a directive, or a `__has_include` with its bracket, and not just the word.
fn names_a_macro(text: &[u8], word: usize, open: bool) -> bool {
    if text[..word].ends_with(b"__has_") {
        return open;
    }
    // Back over blanks and comments to the mark, and from there to the start of the line.
    let Some(mark) = back_over_blank(text, word) else { return false };
    let before = if text[..mark].ends_with(b"#") {
        mark - 1
    } else if text[..mark].ends_with(b"%:") {
        mark - 2
    } else {
        return false;
    };
    back_over_blank(text, before).is_none_or(|at| text[at - 1] == b'\n')
}

/// The end of the last thing before `at` that is neither blank nor comment; `None` at the start of the text.
fn back_over_blank(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let before = &text[..at];
        match before.last()? {
            b' ' | b'\t' | b'\r' | 0x0b | 0x0c => at -= 1,
            b'/' if before.ends_with(b"*/") && at >= 4 => {
                let open = before[..at - 2].windows(2).rposition(|pair| pair == b"/*");
                at = open?;
            }
            _ => return Some(at),
        }
    }
}

/// Behind blanks, comments and brackets; whether there was a bracket.
fn skip_blank(text: &[u8], mut at: usize) -> (bool, usize) {
    let mut open = false;
    loop {
        match text.get(at) {
            Some(b' ' | b'\t' | b'\r' | 0x0b | 0x0c) => at += 1,
            Some(b'(') => {
                open = true;
                at += 1;
            }
            Some(b'/') if text[at..].starts_with(b"/*") => {
                at = find(text, b"*/", at + 2).map_or(text.len(), |end| end + 2);
            }
            _ => return (open, at),
        }
    }
}

/// Behind the rest of a word, such as the `_next` of `include_next`.
fn skip_word(text: &[u8], mut at: usize) -> usize {
    while text.get(at).is_some_and(|&byte| is_word(byte)) {
        at += 1;
    }
    at
}

const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Without spliced lines, as the preprocessor sees them.
fn spliced(text: &[u8]) -> Cow<'_, [u8]> {
    if find(text, b"\\\n", 0).is_none() && find(text, b"\\\r\n", 0).is_none() {
        return Cow::Borrowed(text);
    }
    let mut joined = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, tail)) = rest.split_first() {
        if first == b'\\' && tail.starts_with(b"\n") {
            rest = &tail[1..];
        } else if first == b'\\' && tail.starts_with(b"\r\n") {
            rest = &tail[2..];
        } else {
            joined.push(first);
            rest = tail;
        }
    }
    Cow::Owned(joined)
}

fn find(text: &[u8], word: &[u8], from: usize) -> Option<usize> {
    let rest = text.get(from..)?;
    let mut at = 0;
    // The first byte rules out most places at once.
    while let Some(step) = rest[at..].iter().position(|byte| *byte == word[0]) {
        at += step;
        if rest[at..].starts_with(word) {
            return Some(from + at);
        }
        at += 1;
    }
    None
}

fn path(name: &[u8]) -> PathBuf {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        PathBuf::from(OsStr::from_bytes(name))
    }
    #[cfg(not(unix))]
    {
        PathBuf::from(OsStr::new(&*String::from_utf8_lossy(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<(String, bool)> {
        let found = scan(text.as_bytes());
        found.includes.iter().map(|i| (i.name.to_str().unwrap().to_owned(), i.quoted)).collect()
    }

    #[test]
    fn every_way_to_write_an_include_is_found() {
        let ways = [
            "#include <a/b.h>",
            "  #  include\t<a/b.h> // why",
            "#include<a/b.h>",
            "#/* c */include/* d */ <a/b.h>",
            "%:include <a/b.h>",
            "#inc\\\nlude <a/b.h>",
            "#include \\\r\n <a/b.h>",
            "#include_next <a/b.h>",
            "#if __has_include(<a/b.h>)",
            "#if __has_include_next ( <a/b.h> )",
            "#if 0\n#include <a/b.h>\n#endif",
        ];
        for way in ways {
            assert_eq!(names(way), [("a/b.h".to_owned(), false)], "{way}");
        }
        assert_eq!(
            names("#include \"a b.h\"\n#include <a b.h>"),
            [("a b.h".to_owned(), true), ("a b.h".to_owned(), false)]
        );
    }

    #[test]
    fn what_is_no_include_gives_no_name() {
        for text in [
            "int include;",
            "#include",
            "#include <unclosed\n>",
            "// include me",
            "x.includes(<",
            "#include \"\"",
        ] {
            assert_eq!(names(text), [], "{text}");
            assert_eq!(scan(text.as_bytes()).odd, None, "{text}");
        }
    }

    #[test]
    fn names_from_macros_and_times_are_odd_and_only_as_directives() {
        for odd in [
            "#include NAME",
            "int x;\n # include /* c */ NAME\n",
            "%:include NAME",
            "#if __has_include(NAME)",
            "const char *t = __TIME__;",
            "??=include <x>",
        ] {
            assert!(scan(odd.as_bytes()).odd.is_some(), "{odd}");
        }
        for even in [
            "// #include NAME",
            "#ifdef __has_include",
            "#if defined(__has_include)\n",
            "x = #include NAME",
            "/* include NAME */",
        ] {
            assert_eq!(scan(even.as_bytes()).odd, None, "{even}");
        }
    }
}
